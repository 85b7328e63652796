//! A waiting read costs only a permit, and a stop answers it.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::Value;

use super::service::{PATIENCE, Service};

/// Concurrent waiting reads; enough that one thread or query for each would be noticeable.
const MANY: usize = 1000;

async fn revision(response: reqwest::Response) -> u64 {
    assert_eq!(response.status(), 200);
    let body: Value = response.json().await.unwrap();
    body["Job"]["Revision"].as_u64().unwrap()
}

/// This many reads that wait for the next change of a job, all in progress.
async fn many(
    service: &Service,
    job: &str,
    after: u64,
) -> Vec<tokio::task::JoinHandle<reqwest::Result<reqwest::Response>>> {
    let before = service.api.pools.waiting.used();
    let path = format!("{job}?wait=5m&after_revision={after}");
    let reads =
        (0..MANY).map(|_| tokio::spawn(service.request(Method::GET, &path).send())).collect();
    let begun = async {
        while service.api.pools.waiting.used() < before + MANY {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, begun).await.expect("all of them wait");
    reads
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_reads_wait_at_once_and_are_woken_by_a_change_and_by_a_stop() {
    let service = Service::start().await;
    let created: Value = service.submit().send().await.unwrap().json().await.unwrap();
    let job = format!("/jobs/{}", created["JobID"].as_str().unwrap());
    let before = revision(service.request(Method::GET, &job).send().await.unwrap()).await;
    let reads = many(&service, &job, before).await;
    // A change of another job wakes none of them.
    service.submit().send().await.unwrap();
    assert!(reads.iter().all(|read| !read.is_finished()));
    service.request(Method::DELETE, &job).send().await.unwrap();
    let mut after = 0;
    for read in reads {
        after = revision(read.await.unwrap().unwrap()).await;
        assert!(after > before);
    }

    let reads = many(&service, &job, after).await;
    let began = Instant::now();
    service.api.stopping.cancel();
    for read in reads {
        assert_eq!(revision(read.await.unwrap().unwrap()).await, after);
    }
    // They would have waited five minutes.
    assert!(began.elapsed() < PATIENCE);
    assert_eq!(service.api.pools.waiting.used(), 0);
}
