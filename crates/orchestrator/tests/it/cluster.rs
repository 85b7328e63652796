//! `GET /api/v1/orchestrator/cluster` and `…/cluster/load`.

use serde_json::{Value, json};

use crate::node::{FakeNode, completed_job, executions, node_path};
use crate::server::{PATIENCE, Server, job_path, list, plain_job, redacted, task_with};

crate::covers! {
    "listMembers" => an_orchestrator_with_a_store_of_its_own_is_the_only_member;
    "describeCluster" => the_cluster_is_counted;
    "readClusterLoad" => a_load_is_answered_in_steps;
}

const CLUSTER: &str = "/api/v1/orchestrator/cluster";

#[tokio::test]
async fn the_cluster_is_counted() {
    let mut server = Server::start().await;
    let nothing = server.get(CLUSTER).await.ok().clone();
    assert_eq!((&nothing["Nodes"]["Total"], &nothing["OldestWait"]), (&json!(0), &json!("")));
    let node = FakeNode::join(&server).await;
    completed_job(&server, &node, plain_job()).await;
    let cordoned = FakeNode::join(&server).await;
    let cordon = json!({ "Action": "cordon" });
    server.put(&node_path(&cordoned.id, ""), &cordon).await.ok();
    let stopped = server.submit(task_with(json!({ "Resources": { "CPU": "100" } }))).await;
    server.delete(&job_path(&stopped)).await.ok();
    let running = server.submit(plain_job()).await;
    let execution = executions(&server, &running, 1).await[0]["ID"].clone();
    for (sequence, state) in [(1, 3), (2, 5)] {
        let report =
            json!({ "ExecutionID": execution, "Sequence": sequence, "ComputeState": state });
        node.report(&server, report).await;
    }
    server.submit(plain_job()).await;
    server.submit(task_with(json!({ "Resources": { "CPU": "100" } }))).await;

    let expected = json!({
        "Time": "T",
        "Jobs": {
            "Pending": 1, "Queued": 1, "Running": 1, "Completed": 1, "Failed": 0, "Stopped": 1,
        },
        "Executions": { "Starting": 1, "Running": 1 },
        "Nodes": {
            "Total": 2, "Connected": 2, "Disconnected": 0, "Pending": 0, "Rejected": 0,
            "Cordoned": 1, "Draining": 0, "Unhealthy": 0, "Reserved": 0,
        },
        "Capacity": { "CPU": 8.0, "Memory": 16_000_000_000_u64, "Disk": 200_000_000_000_u64, "GPU": 0 },
        "Allocated": { "CPU": 1.0, "Memory": 1_024_000_000, "Disk": 0, "GPU": 0 },
        "OldestWait": "T",
    });
    // What is over is counted once a second.
    let begin = std::time::Instant::now();
    let mut found = Value::Null;
    while begin.elapsed() < PATIENCE && found != expected {
        found = redacted(server.get(CLUSTER).await.ok());
    }
    assert_eq!(found, expected);

    server.restart().await;
    let after = server.get(CLUSTER).await.ok().clone();
    assert_eq!(after["Jobs"], expected["Jobs"]);
    assert_eq!(after["Executions"], expected["Executions"]);
}

#[tokio::test]
async fn a_load_is_answered_in_steps() {
    let server = Server::start().await;
    let load = format!("{CLUSTER}/load");
    let empty = server.get(&load).await;
    assert_eq!(empty.ok(), &json!({ "Step": 10, "Samples": [] }));
    let coarse = server.get(&format!("{load}?since=24h&step=61")).await;
    assert_eq!(coarse.ok()["Step"], 70);
    server.get(&format!("{load}?step=short")).await.refused(400, "InvalidQuery");
    server.get(&format!("{load}?since=soon")).await.refused(400, "InvalidQuery");
}

#[tokio::test]
async fn an_orchestrator_with_a_store_of_its_own_is_the_only_member() {
    let server = Server::start().await;
    let found = server.get("/api/v1/orchestrator/cluster/members").await;
    assert_eq!(found.ok()["Store"], json!({ "Kind": "sqlite", "Server": "" }));
    let members = list(&found.ok()["Members"]);
    assert_eq!(members.len(), 1);
    assert_eq!((&members[0]["Leads"], &members[0]["Ready"]), (&json!(true), &json!(true)));
    assert_eq!(members[0]["ID"], server.node_id());
    let scraped = server.get("/metrics").await.text;
    assert!(scraped.contains("orchestrator_members 1.0\n"), "{scraped}");
    assert!(scraped.contains("orchestrator_ready_standbys 0.0\n"), "{scraped}");
}
