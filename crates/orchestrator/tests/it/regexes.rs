//! Regular expressions in jobs, which take as long to compile as their sender chooses.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::lateness::Lateness;
use crate::server::{JOBS, Server, job_with};

/// A job whose inputs are filtered by these expressions.
fn filtering(filters: &[&str]) -> Value {
    let mut job = job_with(json!({}));
    let inputs = filters.iter().enumerate().map(|(number, filter)| {
        let params = json!({ "Bucket": "b", "Key": "k/", "Region": "r", "Filter": filter });
        json!({
            "Source": { "Type": "s3", "Params": params },
            "Target": format!("/in/{number}"), "Alias": format!("in{number}"),
        })
    });
    job["Tasks"][0]["InputSources"] = inputs.collect();
    json!({ "Job": job })
}

/// Each takes a second and more to compile where nothing bounds it.
const HOSTILE: &str = r"(\pL{99}){99}";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_regular_expressions_delay_no_other_request() {
    const MOST: Duration = Duration::from_secs(1);
    let server = std::sync::Arc::new(Server::start().await);
    let hostile = filtering(&[HOSTILE; 64]);
    let requests: Vec<_> = (0..4)
        .map(|_| {
            let request = server.request(reqwest::Method::PUT, JOBS).json(&hostile);
            tokio::spawn(async move { request.send().await.expect("an answer").status() })
        })
        .collect();
    let (mut slowest, machine) = (Duration::ZERO, Lateness::start());
    while requests.iter().any(|request| !request.is_finished()) {
        let begin = Instant::now();
        server.get("/livez").await.ok();
        slowest = slowest.max(begin.elapsed());
    }
    let late = machine.longest();
    assert!(slowest < MOST + late, "another request took {slowest:?}, of which {late:?} idle");
    for request in requests {
        assert_eq!(request.await.unwrap(), 400);
    }
}

#[tokio::test]
async fn a_filter_of_reasonable_size_is_accepted_and_a_larger_one_is_refused() {
    let server = Server::start().await;
    server.put(JOBS, &filtering(&[r"^data/part-\d+\.csv$"])).await.ok();
    let answer = server.put(JOBS, &filtering(&["(", HOSTILE, &"a".repeat(1025)])).await;
    answer.refused(400, "InvalidJob");
    for words in ["unclosed group", "size limit", "must be at most 1024 characters"] {
        assert!(answer.text.contains(words), "{words}: {}", answer.text);
    }
}
