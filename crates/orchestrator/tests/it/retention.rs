//! Retention: finished jobs are removed, and event streams report the gap.

use std::time::Instant;

use api_types::execution::ComputeState;
use serde_json::{Value, json};

use crate::node::{FakeNode, completed_job};
use crate::server::{PATIENCE, Server, job_path, job_with, plain_job};
use crate::stream::Events;
use orchestrator::Settings;

/// Waits until the job is removed.
async fn gone(server: &Server, id: &str) {
    let began = Instant::now();
    while server.get(&job_path(id)).await.status != 404 {
        assert!(began.elapsed() < PATIENCE * 3, "it is still there");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn jobs_beyond_the_count_are_removed_and_leave_a_gap() {
    let server =
        Server::start_with(|settings| Settings { job_retention_count: 1, ..settings }).await;
    let node = FakeNode::join(&server).await;
    let (first, execution) = completed_job(&server, &node, plain_job()).await;
    let mut stream = Events::open(&server, "since=0").await;
    let count = stream_length(&mut stream, &first).await;
    let (second, _) = completed_job(&server, &node, plain_job()).await;
    let live = server.submit(plain_job()).await;
    gone(&server, &first).await;
    for part in ["", "/history", "/executions", "/results"] {
        let answer = server.get(&format!("{}{part}", job_path(&first))).await;
        answer.refused(404, "JobNotFound");
    }
    for kept in [&second, &live] {
        server.get(&job_path(kept)).await.ok();
    }
    let path = format!("{}/history?execution_id={execution}", job_path(&second));
    server.get(&path).await.refused(404, "ExecutionNotFound");

    // A reader that begins or resumes where events are missing gets a gap.
    // The first event is that of the node, which stays.
    for (after, from) in [(0, 2), (3, 4)] {
        let mut stream = Events::resume(&server, "event_type=job", Some(after)).await;
        stream.block().await.unwrap();
        let gap = stream.block().await.unwrap();
        assert_eq!((gap.id, gap.event.as_str()), (Some(count), "gap"));
        assert_eq!(gap.data, serde_json::json!({ "From": from, "To": count }));
        let (id, event) = stream.event().await;
        assert_eq!((id, &event["JobID"]), (count + 1, &Value::from(second.as_str())));
    }
    let mut stream = Events::open(&server, "since=0").await;
    stream.block().await.unwrap();
    assert_eq!(stream.block().await.unwrap().event, "gap");
    // A reader that already has them does not.
    let mut stream = Events::resume(&server, "", Some(count)).await;
    assert_eq!(stream.event().await.0, count + 1);
}

/// Reads until the job has ended; returns the id of its last event.
async fn stream_length(stream: &mut Events, job: &str) -> u64 {
    loop {
        let (id, event) = stream.event().await;
        assert_eq!(event["JobID"], job);
        if event["JobState"]["New"] == "Completed" {
            return id;
        }
    }
}

#[tokio::test]
async fn an_id_reused_after_removal_is_another_job() {
    let server =
        Server::start_with(|settings| Settings { job_retention_count: 1, ..settings }).await;
    let node = FakeNode::join(&server).await;
    let mut assignments = node.open(&server).await;
    let id = "j-12ab34cd-0000-4000-8000-0123456789ab";
    for image in ["image:1", "image:2"] {
        let mut job = job_with(json!({ "ID": id, "Type": "service" }));
        job["Tasks"][0]["Engine"]["Params"]["Image"] = json!(image);
        assert_eq!(server.submit(job).await, id);
        let offer = loop {
            let assignment = assignments.assignment().await;
            if assignment["Work"]["JobID"] == id {
                break assignment;
            }
        };
        assert_eq!(offer["Work"]["Task"]["Engine"]["Params"]["Image"], image);
        server.delete(&job_path(id)).await.ok();
        let cancelled = json!({
            "ExecutionID": offer["ExecutionID"], "Sequence": 1,
            "ComputeState": u8::from(ComputeState::Cancelled),
        });
        node.report(&server, cancelled).await;
        completed_job(&server, &node, plain_job()).await;
        gone(&server, id).await;
    }
}

#[tokio::test]
async fn jobs_that_are_too_old_are_removed_also_after_a_restart() {
    let mut server = Server::start_with(|settings| Settings { job_retention: 1, ..settings }).await;
    let node = FakeNode::join(&server).await;
    let (id, _) = completed_job(&server, &node, plain_job()).await;
    let live = server.submit(plain_job()).await;
    server.restart().await;
    gone(&server, &id).await;
    server.get(&job_path(&live)).await.ok();
    let answer = server.get("/api/v1/orchestrator/events?last_event_id=2000").await;
    answer.refused(400, "InvalidQuery");
}

#[tokio::test]
async fn the_stream_of_a_removed_job_ends() {
    let server = Server::start_with(|settings| Settings { job_retention: 1, ..settings }).await;
    let node = FakeNode::join(&server).await;
    let (id, _) = completed_job(&server, &node, plain_job()).await;
    let mut stream = Events::open(&server, &format!("job_id={id}")).await;
    gone(&server, &id).await;
    // The stream of a removed job ends with the next commit, and cannot be opened again.
    server.submit(plain_job()).await;
    while let Some(block) = stream.block().await {
        assert!(block.data.is_null() || block.event == "gap", "{block:?}");
    }
    let answer = server.get(&format!("/api/v1/orchestrator/events?job_id={id}")).await;
    answer.refused(404, "JobNotFound");
}
