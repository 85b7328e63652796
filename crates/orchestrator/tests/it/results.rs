//! `GET /api/v1/orchestrator/jobs/:jobID/results`.

use serde_json::json;

use crate::node::{FakeNode, completed_job, executions};
use crate::server::{Server, job_path, job_with, list, plain_job, task_with, text};

crate::covers! {
    "listResults" => results_are_listed_while_other_executions_run;
}

#[tokio::test]
async fn results_are_listed_while_other_executions_run() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let mut job = task_with(json!({ "Publisher": { "Type": "local" } }));
    job["Count"] = json!(3);
    let id = server.submit(job).await;
    let path = format!("{}/results", job_path(&id));
    assert_eq!(server.get(&path).await.ok(), &json!({ "Results": [], "NextToken": "" }));

    let placed = executions(&server, &id, 3).await;
    let result =
        |number: usize| json!({ "Type": "local", "Params": { "URL": format!("u{number}") } });
    for (number, execution) in placed.iter().enumerate().skip(1) {
        node.complete(&server, &text(&execution["ID"]), result(number)).await;
    }
    let answer = server.get(&path).await;
    assert_eq!(list(&answer.ok()["Results"]).len(), 2);
    for result in list(&answer.body["Results"]) {
        assert_eq!(result["Type"], "local");
        assert!(["u1", "u2"].contains(&text(&result["Params"]["URL"]).as_str()));
    }
    let first = server.get(&format!("{path}?limit=1")).await;
    let token = text(&first.ok()["NextToken"]);
    let second = server.get(&format!("{path}?limit=1&next_token={token}")).await;
    assert_eq!(second.ok()["NextToken"], "");
    let both = [first.body["Results"][0].clone(), second.body["Results"][0].clone()];
    assert_eq!(list(&answer.body["Results"])[..], both);
}

#[tokio::test]
async fn an_execution_that_published_nothing_is_left_out() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let (id, _) = completed_job(&server, &node, plain_job()).await;
    let answer = server.get(&format!("{}/results", job_path(&id))).await;
    assert_eq!(answer.ok(), &json!({ "Results": [], "NextToken": "" }));
}

#[tokio::test]
async fn jobs_that_do_not_end_have_no_results() {
    let server = Server::start().await;
    for job_type in ["service", "daemon"] {
        let id = server.submit(job_with(json!({ "Type": job_type }))).await;
        let answer = server.get(&format!("{}/results", job_path(&id))).await;
        answer.refused(400, "NoResultsForType").says(job_type);
    }
}
