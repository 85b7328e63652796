//! `GET /api/v1/orchestrator/jobs/:jobID/explain`.

use serde_json::{Value, json};

use crate::node::{FakeNode, executions, node_path};
use crate::server::{Server, job_path, job_with, list, plain_job, redacted, task_with, text};

crate::covers! {
    "explainJob" => a_waiting_job_is_explained_by_its_place_and_by_node;
}

async fn explained(server: &Server, job: &str) -> Value {
    server.get(&format!("{}/explain", job_path(job))).await.ok().clone()
}

/// A job that fills a node.
fn large(name: &str, fields: Value) -> Value {
    let mut job = task_with(json!({ "Resources": { "CPU": "4" } }));
    job["Name"] = name.into();
    let (Some(job), Value::Object(fields)) = (job.as_object_mut(), fields) else { unreachable!() };
    job.extend(fields);
    Value::from(job.clone())
}

#[tokio::test]
async fn a_waiting_job_is_explained_by_its_place_and_by_node() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let other = FakeNode::join_with(&server, |node| {
        node["ComputeNodeInfo"]["ExecutionEngines"] = json!(["wasm"]);
    })
    .await;
    let first = server.submit(large("first", json!({}))).await;
    executions(&server, &first, 1).await;
    for name in ["second", "third"] {
        server.submit(large(name, json!({}))).await;
    }
    server.submit(large("urgent", json!({ "Priority": 90 }))).await;
    server.submit(large("later", json!({ "Priority": 10 }))).await;
    // Another kind of node: not ahead of it.
    let mut elsewhere = large("elsewhere", json!({ "Priority": 99 }));
    elsewhere["Constraints"] = json!([{ "Key": "gpu", "Operator": "exists" }]);
    server.submit(elsewhere).await;
    let job = server.submit(large("fourth", json!({ "Count": 2 }))).await;
    server.submit(large("fifth", json!({}))).await;

    let mut found = explained(&server, &job[..10]).await;
    let mut nodes = list(&found["Nodes"]).clone();
    nodes.sort_by_key(|entry| entry["NodeID"] != json!(node.id));
    assert_eq!(nodes[0]["NodeID"], json!(node.id));
    assert_eq!(nodes[1]["NodeID"], json!(other.id));
    found["Nodes"] = json!(nodes);
    let expected = json!({
        "JobID": "j-…", "State": "Queued",
        "Message": "1 of 2 nodes: no docker engine; 1: not enough CPU (in use)",
        "Title": "Waits for room: 3 jobs ahead",
        "Hopeless": false,
        "Groups": [
            {
                "Reason": "CPU", "Nodes": 1, "NodeIDs": ["n-…"], "Asked": 4.0, "Largest": 4.0,
                "Message": "1 node has too little: 4 cores are asked for, 0 are free", "Free": 0.0,
            },
            {
                "Reason": "Engine", "Nodes": 1, "NodeIDs": ["n-…"], "Key": "docker",
                "Message": "1 node has no docker engine",
            },
        ],
        "Executions": { "Total": 2, "Waiting": 2, "Running": 0, "Completed": 0, "Failed": 0 },
        "FailedCount": 0, "FailedIndexes": "",
        "Waiting": {
            "Since": "T", "Slots": 2, "Ahead": 3, "AheadIsMore": false, "ReservedNode": "",
        },
        "Gates": [],
        "Nodes": [
            { "NodeID": "n-…", "Chosen": false, "Reason": "not enough CPU (in use)" },
            { "NodeID": "n-…", "Chosen": false, "Reason": "no docker engine" },
        ],
        "Failures": [],
    });
    assert_eq!(redacted(&found), expected);
}

/// Release 0.1.0 knows none of the fields that came later.
#[tokio::test]
async fn an_older_client_reads_the_answer_of_a_hopeless_job() {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Older {
        message: String,
        nodes: Vec<api_types::job::DryRunNode>,
        failures: Vec<api_types::explanation::ExecutionFailure>,
    }
    let server = Server::start().await;
    FakeNode::join(&server).await;
    let mut picky = large("picky", json!({}));
    picky["Constraints"] = json!([{ "Key": "region", "Operator": "in", "Values": ["a", "b"] }]);
    let job = server.submit(picky).await;
    let mut found = explained(&server, &job).await;
    let begin = std::time::Instant::now();
    while found["Message"] == "" && begin.elapsed() < crate::server::PATIENCE {
        found = explained(&server, &job).await;
    }
    let older: Older = serde_json::from_value(found.clone()).unwrap();
    assert_eq!((older.nodes.len(), older.failures.len()), (1, 0));
    assert!(older.message.contains("label region"), "{}", older.message);
    assert_eq!(found["Hopeless"], true);
    let title = "No node matches: needs region in (a, b); it has no label region";
    assert_eq!(
        (&found["Title"], &found["Groups"][0]["Wanted"]),
        (&json!(title), &json!("region in (a, b)"))
    );
}

#[tokio::test]
async fn a_failed_job_is_explained_by_its_executions() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let fields = json!({ "RetryPolicy": { "Attempts": 2, "Delay": 0 } });
    let job = server.submit(job_with(fields)).await;
    for attempt in 1..=2 {
        let found = executions(&server, &job, attempt).await;
        let last = found.iter().find(|execution| execution["ComputeState"]["StateType"] == 2);
        let execution = &last.expect("one is offered")["ID"];
        for (sequence, state) in [(1, 3), (2, 5), (3, 8)] {
            let message = format!("exit code {attempt}");
            let report = json!({
                "ExecutionID": execution, "Sequence": sequence, "ComputeState": state,
                "Message": if state == 8 { message.as_str() } else { "" },
            });
            node.report(&server, report).await;
        }
    }
    let found = explained(&server, &job).await;
    assert_eq!((&found["State"], &found["Waiting"]), (&json!("Failed"), &Value::Null));
    assert_eq!(found["Nodes"], json!([]));
    assert_eq!(found["Executions"]["Failed"], 2);
    let failures = list(&found["Failures"]);
    let reasons: Vec<_> = failures.iter().map(|failure| text(&failure["Reason"])).collect();
    assert_eq!(reasons, ["exit code 2", "exit code 1"]);
    let expected = json!({
        "ExecutionID": "e-…", "NodeID": "n-…", "State": 8, "Reason": "exit code 2", "Time": "T",
    });
    assert_eq!(redacted(&failures[0]), expected);
}

#[tokio::test]
async fn a_job_that_waits_for_nothing_shows_where_it_would_fit() {
    let server = Server::start().await;
    let node = FakeNode::join(&server).await;
    let job = server.submit(plain_job()).await;
    executions(&server, &job, 1).await;
    let found = explained(&server, &job).await;
    assert_eq!(found["Waiting"], Value::Null);
    let expected = json!([{ "NodeID": node.id, "Chosen": true, "Reason": "has room" }]);
    assert_eq!(found["Nodes"], expected);
    let cordon = json!({ "Action": "cordon" });
    server.put(&node_path(&node.id, ""), &cordon).await.ok();
    let found = explained(&server, &job).await;
    assert_eq!(found["Nodes"][0]["Chosen"], false);
    let absent = job_path("j-00000000-0000-4000-8000-000000000000/explain");
    server.get(&absent).await.refused(404, "JobNotFound");
    server.get(&job_path("j-1/explain")).await.refused(404, "JobNotFound");
}

#[tokio::test]
async fn a_job_at_its_limit_is_explained_by_its_gate() {
    let server = Server::start().await;
    let _node = FakeNode::join(&server).await;
    let job = server.submit(job_with(json!({ "Count": 3, "MaxRunning": 2 }))).await;
    executions(&server, &job, 2).await;
    let found = explained(&server, &job).await;
    let message = "2 of 2 executions run, as MaxRunning allows";
    assert_eq!(found["Message"], message);
    assert_eq!(found["Waiting"], Value::Null);
    let gate = json!({ "Type": "MaxRunning", "Slots": 1, "Since": "T", "Message": message });
    assert_eq!(redacted(&found)["Gates"], json!([gate]));
    let reason = "has room, but MaxRunning holds executions back";
    assert_eq!(found["Nodes"][0]["Reason"], reason);
}
