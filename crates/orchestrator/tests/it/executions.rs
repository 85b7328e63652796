//! `GET /api/v1/orchestrator/jobs/:jobID/executions`.

use serde_json::json;

use crate::node::{FakeNode, completed_job, executions};
use crate::server::{Server, job_path, job_with, list, redacted, text};

crate::covers! {
    "listExecutions" => a_completed_execution_is_listed_in_full;
}

#[tokio::test]
async fn a_completed_execution_is_listed_in_full() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let job = job_with(json!({ "Name": "count" }));
    let (id, execution) = completed_job(&server, &node, job).await;
    let answer = server.get(&format!("{}/executions", job_path(&id))).await;
    assert_eq!(answer.ok()["Executions"][0]["ID"], execution);
    assert_eq!(answer.body["Executions"][0]["NodeID"], node.id);
    let mut body = redacted(answer.ok());
    let desired = text(&body["Executions"][0]["DesiredState"]["Message"].take());
    let observed = text(&body["Executions"][0]["ComputeState"]["Message"].take());
    assert!(!desired.is_empty() && observed == "done", "{desired:?}, {observed:?}");
    let expected = json!({
        "Executions": [{
            "ID": "e-…", "Namespace": "default", "EvalID": "v-…", "Name": "count[0]",
            "NodeID": "n-…", "JobID": "j-…",
            "AllocatedResources": { "Tasks": {
                "main": { "CPU": 0.5, "Memory": 512_000_000, "Disk": 0, "GPU": 0 },
            } },
            "DesiredState": { "StateType": 2, "Message": null },
            "ComputeState": { "StateType": 7, "Message": null },
            "PublishedResult": { "Type": "", "Params": {} },
            "RunOutput": {
                "stdout": "hello\n", "stdouttruncated": false,
                "stderr": "", "stderrtruncated": false, "exitCode": 0, "runnerError": "",
            },
            "PreviousExecution": "", "NextExecution": "", "FollowupEvalID": "",
            "Revision": 6, "CreateTime": "T", "ModifyTime": "T",
        }],
        "NextToken": "",
    });
    assert_eq!(body, expected);
}

#[tokio::test]
async fn executions_are_paged_in_every_order() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let id = server.submit(job_with(json!({ "Count": 5 }))).await;
    let placed = executions(&server, &id, 5).await;
    node.complete(&server, &text(&placed[2]["ID"]), json!(null)).await;
    let path = format!("{}/executions", job_path(&id));
    for order in ["", "modify_time", "create_time", "id", "state"] {
        for reverse in ["false", "true"] {
            let query = format!("order_by={order}&reverse={reverse}");
            let whole = server.get(&format!("{path}?{query}")).await;
            assert_eq!(whole.ok()["NextToken"], "");
            let whole = list(&whole.body["Executions"]).clone();
            assert_eq!(whole.len(), 5);
            let (mut paged, mut token) = (Vec::new(), String::new());
            loop {
                let page = server.get(&format!("{path}?limit=2&{query}&next_token={token}")).await;
                paged.extend(list(&page.ok()["Executions"]).clone());
                token = text(&page.body["NextToken"]);
                if token.is_empty() {
                    break;
                }
            }
            assert_eq!(paged, whole, "{query}");
        }
    }
    let last = server.get(&format!("{path}?order_by=state&reverse=1&limit=1")).await;
    assert_eq!(last.ok()["Executions"][0]["ComputeState"]["StateType"], 7);
    let newest = server.get(&format!("{path}?reverse=1&limit=1")).await;
    assert_eq!(newest.ok()["Executions"][0]["ID"], placed[2]["ID"], "the last one modified");
}

#[tokio::test]
async fn a_job_that_waits_has_no_executions() {
    let server = Server::start().await;
    let id = server.submit(job_with(json!({}))).await;
    let answer = server.get(&format!("{}/executions", job_path(&id))).await;
    assert_eq!(answer.ok(), &json!({ "Executions": [], "NextToken": "" }));
}
