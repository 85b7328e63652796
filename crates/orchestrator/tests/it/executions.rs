//! `GET /api/v1/orchestrator/jobs/:jobID/executions`.

use serde_json::json;

use crate::node::{FakeNode, completed_job, executions};
use crate::server::{Server, job_path, job_with, list, plain_job, redacted, text};

crate::covers! {
    "listExecutions" => a_completed_execution_is_listed_in_full;
    "listLiveExecutions" => live_executions_are_listed_by_node;
    "describeExecution" => an_execution_is_found_by_its_id_alone;
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
    // Other words for two of them; their tokens are interchangeable.
    for (other, order) in [("created_at", "create_time"), ("modified_at", "modify_time")] {
        let token = async |order: &str| {
            let page = server.get(&format!("{path}?limit=2&order_by={order}")).await;
            text(&page.ok()["NextToken"])
        };
        assert_eq!(token(other).await, token(order).await, "{other}");
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

const EXECUTIONS: &str = "/api/v1/orchestrator/executions";

async fn live(server: &Server, query: &str) -> Vec<String> {
    let answer = server.get(&format!("{EXECUTIONS}?{query}")).await;
    list(&answer.ok()["Executions"]).iter().map(|execution| text(&execution["Name"])).collect()
}

#[tokio::test]
async fn an_execution_is_found_by_its_id_alone() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let (id, execution) = completed_job(&server, &node, plain_job()).await;
    let listed = server.get(&format!("{}/executions", job_path(&id))).await;
    for text in [&execution[..10], &execution] {
        let found = server.get(&format!("{EXECUTIONS}/{text}")).await;
        assert_eq!(found.ok()["Execution"], listed.ok()["Executions"][0], "{text}");
    }
    let absent = "e-00000000-0000-4000-8000-000000000000";
    for text in [absent, "e-1", "j-12ab34cd", "x"] {
        let path = format!("{EXECUTIONS}/{text}");
        server.get(&path).await.refused(404, "ExecutionNotFound");
    }
}

#[tokio::test]
async fn live_executions_are_listed_by_node() {
    let server = Server::start().await;
    let here = FakeNode::join(&server).await;
    let (_, _) = completed_job(&server, &here, job_with(json!({ "Name": "done" }))).await;
    for name in ["a", "b", "c"] {
        let job = server.submit(job_with(json!({ "Name": name }))).await;
        executions(&server, &job, 1).await;
    }
    let there = FakeNode::join_with(&server, |node| node["Labels"] = json!({ "zone": "b" })).await;
    let constraint = json!([{ "Key": "zone", "Operator": "=", "Values": ["b"] }]);
    let job = json!({ "Name": "d", "Namespace": "other", "Constraints": constraint });
    let job = server.submit(job_with(job)).await;
    executions(&server, &job, 1).await;

    assert_eq!(live(&server, "").await, ["a[0]", "b[0]", "c[0]", "d[0]"]);
    assert_eq!(live(&server, "state=live&reverse=1").await, ["d[0]", "c[0]", "b[0]", "a[0]"]);
    assert_eq!(live(&server, &format!("node_id={}", there.id)).await, ["d[0]"]);
    let on_one = format!("node_id={}", &here.id[..10]);
    assert_eq!(live(&server, &on_one).await, ["a[0]", "b[0]", "c[0]"]);
    for (reverse, expected) in [("0", ["a[0]", "b[0]", "c[0]"]), ("1", ["c[0]", "b[0]", "a[0]"])] {
        let (mut seen, mut token) = (Vec::new(), String::new());
        loop {
            let query = format!("{on_one}&limit=1&reverse={reverse}&next_token={token}");
            let page = server.get(&format!("{EXECUTIONS}?{query}")).await;
            seen.extend(list(&page.ok()["Executions"]).iter().map(|one| text(&one["Name"])));
            token = text(&page.body["NextToken"]);
            if token.is_empty() {
                break;
            }
            // It belongs to the list of this node.
            let other = format!("{EXECUTIONS}?limit=1&reverse={reverse}&next_token={token}");
            server.get(&other).await.refused(400, "InvalidNextToken");
        }
        assert_eq!(seen, expected);
    }
    server.get(&format!("{EXECUTIONS}?state=all")).await.refused(400, "InvalidQuery");
    let unknown = format!("{EXECUTIONS}?node_id=n-00000000-0000-4000-8000-000000000000");
    server.get(&unknown).await.refused(404, "NodeNotFound");
}
