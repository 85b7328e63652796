//! `GET /api/v1/orchestrator/jobs/:jobID?wait=…&after_revision=…`.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::node::{FakeNode, executions};
use crate::server::{Answer, PATIENCE, Server, job_path, plain_job, task_with, text};

async fn waits(server: &Server, id: &str, query: &str) -> Answer {
    server.get(&format!("{}?{query}", job_path(id))).await
}

fn revision(answer: &Answer) -> u64 {
    answer.ok()["Job"]["Revision"].as_u64().expect("a number")
}

async fn current(server: &Server, id: &str) -> u64 {
    revision(&server.get(&job_path(id)).await)
}

#[tokio::test]
async fn a_newer_record_is_returned_at_once() {
    let server = Server::start().await;
    let id = server.submit(plain_job()).await;
    let began = Instant::now();
    for query in ["wait=200s&after_revision=0", "after_revision=0", "wait=0", "wait=0s", "wait="] {
        assert!(revision(&waits(&server, &id, query).await) > 0);
    }
    assert!(began.elapsed() < PATIENCE);
}

#[tokio::test]
async fn a_read_waits_for_a_change_of_its_job() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let id = server.submit(plain_job()).await;
    let execution = text(&executions(&server, &id, 1).await[0]["ID"]);
    let before = current(&server, &id).await;
    let short = id[..10].to_owned();
    let queries = [
        format!("wait=200s&after_revision={before}"),
        format!("wait=200000ms&after_revision={before}"),
        format!("wait=3m&after_revision={before}"),
        format!("wait=200&after_revision={before}"),
        "wait=200s".to_owned(),
    ];
    let reads = queries
        .iter()
        .flat_map(|query| [waits(&server, &id, query), waits(&server, &short, query)]);
    let all = futures_util::future::join_all(reads);
    let (answers, ()) = tokio::join!(all, node.complete(&server, &execution, Value::Null));
    for answer in answers {
        assert!(revision(&answer) > before);
    }
    // Reading one revision after the other leads to the end, without a pause in between.
    let mut seen = before;
    while current(&server, &id).await > seen {
        let query = format!("wait=200s&after_revision={seen}");
        seen = revision(&waits(&server, &id, &query).await);
    }
    let last = waits(&server, &id, &format!("after_revision={}", seen - 1)).await;
    assert_eq!(last.ok()["Job"]["State"]["StateType"], "Completed");
}

#[tokio::test]
async fn an_expired_wait_returns_the_current_record() {
    let server = Server::start().await;
    let id = server.submit(plain_job()).await;
    let other = server.submit(plain_job()).await;
    let before = current(&server, &id).await;
    let began = Instant::now();
    let query = format!("wait=1500ms&after_revision={before}");
    let (answer, _) = tokio::join!(waits(&server, &id, &query), async {
        // Changes of another job do not matter.
        server.delete(&job_path(&other)).await
    });
    assert_eq!(revision(&answer), before);
    assert!(began.elapsed() >= Duration::from_millis(1500));
}

/// A job may have 10 MB, and thousands of reads may wait for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_read_keeps_no_copy_of_its_job() {
    const READS: usize = 60;
    const BYTES: usize = 9_000_000;
    let resident = || {
        let status = std::fs::read_to_string("/proc/self/status").expect("procfs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
        let number = line.trim().trim_end_matches(" kB");
        number.parse::<usize>().expect("a number") * 1024
    };
    let server = Server::start().await;
    let url = format!("data:text/plain,{}", "x".repeat(BYTES));
    let source = json!({ "Type": "inline", "Params": { "URL": url } });
    let id = server
        .submit(task_with(json!({ "InputSources": [{ "Source": source, "Target": "/in" }] })))
        .await;
    let before = resident();
    let reads = (0..READS).map(|_| {
        let path = format!("{}?wait=200s", job_path(&id));
        // The first answers while a slow machine still makes the last ones wait.
        let request = server.request(reqwest::Method::GET, &path).timeout(10 * PATIENCE).send();
        tokio::spawn(async move { request.await.expect("an answer").status() })
    });
    let reads: Vec<_> = reads.collect();
    let all_wait = format!("{{kind=\"waiting_read\"}} {READS}");
    while !server.get("/metrics").await.text.contains(&all_wait) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < READS * BYTES / 2, "{READS} waiting reads keep {} MB", grown / 1_000_000);
    server.delete(&job_path(&id)).await.ok();
    for read in reads {
        assert_eq!(read.await.unwrap(), 200);
    }
}

#[tokio::test]
async fn an_invalid_wait_is_refused_at_once() {
    let server = Server::start().await;
    let id = server.submit(plain_job()).await;
    for query in ["wait=soon", "wait=-1s", "wait=1h", "after_revision=x", "wait=1s&wait=2s"] {
        waits(&server, &id, query).await.refused(400, "InvalidQuery");
    }
    waits(&server, "j-00000000", "wait=200s").await.refused(404, "JobNotFound");
}
