//! `DELETE /api/v1/orchestrator/jobs/:jobID`.

use reqwest::Method;
use serde_json::json;

use crate::node::{FakeNode, completed_job, executions};
use crate::server::{Answer, Server, answer, job_path, list, plain_job, redacted, text};

crate::covers! {
    "stopJob" => a_stop_returns_an_evaluation_and_takes_effect_at_once;
}

async fn state(server: &Server, id: &str) -> String {
    text(&server.get(&job_path(id)).await.ok()["Job"]["State"]["StateType"])
}

/// Whether some job-level event of the history contains the reason.
async fn has_reason(server: &Server, id: &str, reason: &str) -> bool {
    let path = format!("{}/history?event_type=job", job_path(id));
    let answer: Answer = server.get(&path).await;
    list(&answer.ok()["History"]).iter().any(|event| text(&event["Comment"]).contains(reason))
}

#[tokio::test]
async fn a_stop_returns_an_evaluation_and_takes_effect_at_once() {
    let server = Server::start().await;
    let id = server.submit(plain_job()).await;
    let answer = server.delete(&job_path(&id)).await;
    assert_eq!(redacted(answer.ok()), json!({ "EvaluationID": "v-…" }));
    assert_eq!(state(&server, &id).await, "Stopped");
}

#[tokio::test]
async fn a_stopped_job_is_stopped_again_without_an_evaluation() {
    let server = Server::start().await;
    let id = server.submit(plain_job()).await;
    server.delete(&job_path(&id)).await.ok();
    for _ in 0..2 {
        let again = server.delete(&job_path(&id)).await;
        assert_eq!(again.ok(), &json!({ "EvaluationID": "" }));
    }
}

#[tokio::test]
async fn a_stopping_job_counts_as_stopped() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let id = server.submit(plain_job()).await;
    let execution = text(&executions(&server, &id, 1).await[0]["ID"]);
    for (sequence, state) in [(1, 3), (2, 5)] {
        let report =
            json!({ "ExecutionID": execution, "Sequence": sequence, "ComputeState": state });
        node.report(&server, report).await;
    }
    assert_eq!(state(&server, &id).await, "Running");
    server.delete(&job_path(&id)).await.ok();
    let again = server.delete(&job_path(&id)).await;
    assert_eq!(again.ok(), &json!({ "EvaluationID": "" }));
    let report = json!({ "ExecutionID": execution, "Sequence": 3, "ComputeState": 9 });
    node.report(&server, report).await;
    assert_eq!(server.delete(&job_path(&id)).await.ok(), &json!({ "EvaluationID": "" }));
}

#[tokio::test]
async fn a_finished_job_cannot_be_stopped() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let (id, _) = completed_job(&server, &node, plain_job()).await;
    server.delete(&job_path(&id)).await.refused(409, "JobFinished").says("Completed");

    let id = server.submit(plain_job()).await;
    let execution = text(&executions(&server, &id, 1).await[0]["ID"]);
    for (sequence, state) in [(1, 3), (2, 5), (3, 8)] {
        let report =
            json!({ "ExecutionID": execution, "Sequence": sequence, "ComputeState": state });
        node.report(&server, report).await;
    }
    server.delete(&job_path(&id)).await.refused(409, "JobFinished").says("Failed");
}

#[tokio::test]
async fn the_reason_is_stored_from_the_query_and_the_body() {
    let server = Server::start().await;
    let in_query = server.submit(plain_job()).await;
    server.delete(&format!("{}?reason=too+slow", job_path(&in_query))).await.ok();
    assert!(has_reason(&server, &in_query, "too slow").await);

    let in_body = server.submit(plain_job()).await;
    let request = server.request(Method::DELETE, &job_path(&in_body));
    answer(request.json(&json!({ "reason": "too big" }))).await.ok();
    assert!(has_reason(&server, &in_body, "too big").await);
}

#[tokio::test]
async fn a_reason_of_the_wrong_type_stops_nothing() {
    let server = Server::start().await;
    let id = server.submit(plain_job()).await;
    let request = server.request(Method::DELETE, &job_path(&id)).json(&json!({ "Reason": 5 }));
    let answer = answer(request).await;
    assert_eq!(answer.problems(), ["Reason: expected a string, got the number 5"]);
    assert_ne!(state(&server, &id).await, "Stopped");
}
