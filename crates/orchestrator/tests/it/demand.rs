//! `GET /api/v1/orchestrator/cluster/demand`.

use std::time::Instant;

use reqwest::Method;
use serde_json::{Value, json};

use crate::access::Guarded;
use crate::node::{FakeNode, node_path};
use crate::server::{JOBS, PATIENCE, Server, job_with, list, redacted, task_with};

crate::covers! {
    "readClusterDemand" => what_waits_is_shown_with_what_a_node_needs_to_run_it;
}

const DEMAND: &str = "/api/v1/orchestrator/cluster/demand";

#[tokio::test]
async fn what_waits_is_shown_with_what_a_node_needs_to_run_it() {
    let server = Server::start().await;
    let nothing = json!({ "Time": "T", "Classes": [], "More": false });
    assert_eq!(redacted(server.get(DEMAND).await.ok()), nothing);
    let node = FakeNode::join(&server).await;
    server.submit(task_with(json!({ "Resources": { "CPU": "4" } }))).await;
    let mut many = task_with(json!({ "Resources": { "CPU": "2", "Memory": "1gb" } }));
    many["Count"] = json!(3);
    server.submit(many).await;
    let zone = json!([{ "Key": "zone", "Operator": "=", "Values": ["b"] }]);
    server.submit(job_with(json!({ "Constraints": zone, "Priority": 10 }))).await;

    let class = |slots: u64, message: &str, open: u64| {
        json!({
            "Namespace": "default", "Engine": "docker", "Publisher": "", "StorageSources": [],
            "Constraints": [], "Resources": { "CPU": 2.0, "Memory": 1_000_000_000, "Disk": 0, "GPU": 0 },
            "Priority": 50, "Jobs": 1, "Slots": slots, "SlotsIsMore": false, "Since": "T",
            "Message": message, "CapableNodes": 1, "OpenNodes": open,
        })
    };
    let mut elsewhere =
        class(1, "1 of 1 node: label zone (no node that has joined can ever take it)", 0);
    elsewhere["Constraints"] = json!([{ "Key": "zone", "Operator": "in", "Values": ["b"] }]);
    // The node decides what a job leaves open.
    elsewhere["Resources"] = json!({ "Disk": 0, "GPU": 0 });
    elsewhere["Priority"] = json!(10);
    elsewhere["CapableNodes"] = json!(0);
    let expected = json!([class(3, "1 of 1 node: not enough CPU (in use)", 1), &elsewhere]);
    assert_eq!(eventually(&server, &expected).await, expected);

    let first = server.get(&format!("{DEMAND}?limit=1")).await.ok().clone();
    assert_eq!((list(&first["Classes"]).len(), &first["More"]), (1, &json!(true)));
    let empty = server.get(&format!("{DEMAND}?namespace=other")).await;
    assert_eq!(redacted(empty.ok()), nothing);
    server.get(&format!("{DEMAND}?limit=-1")).await.refused(400, "InvalidQuery");

    // It could run the work, and takes none.
    server.put(&node_path(&node.id, ""), &json!({ "Action": "cordon" })).await.ok();
    let why = "1 of 1 node: cordoned (no node that has joined can ever take it)";
    elsewhere["Message"] = json!(why);
    let expected = json!([class(3, "1 of 1 node: cordoned", 0), elsewhere]);
    assert_eq!(eventually(&server, &expected).await, expected);
}

/// The classes, once they are the expected ones: reasons are refreshed at intervals.
async fn eventually(server: &Server, expected: &Value) -> Value {
    let begin = Instant::now();
    loop {
        let found = redacted(&server.get(DEMAND).await.ok()["Classes"]);
        if found == *expected || begin.elapsed() > PATIENCE {
            return found;
        }
    }
}

#[tokio::test]
async fn a_caller_sees_what_waits_in_its_namespaces_and_operators_see_what_nodes_lack() {
    let guarded = Guarded::start().await;
    let zone = json!([{ "Key": "zone", "Operator": "=", "Values": ["hidden-zone"] }]);
    let job = job_with(json!({ "Namespace": "home", "Constraints": zone }));
    let body = json!({ "Job": job });
    guarded.ask(Method::PUT, JOBS, &guarded.admin, Some(&body)).await.ok();
    for (role, namespaces, sees_constraints) in [
        ("viewer", &["home"][..], false),
        ("submitter", &["home"], true),
        ("operator", &[], true),
        ("admin", &[], true),
    ] {
        let token = match role {
            "admin" => guarded.admin.clone(),
            role => guarded.token(role, namespaces).await,
        };
        let seen = guarded.ask(Method::GET, DEMAND, &token, None).await;
        let classes = list(&seen.ok()["Classes"]);
        assert!(classes.iter().all(|class| class["Namespace"] == "home"), "{}", seen.text);
        assert_eq!(seen.text.contains("hidden-zone"), sees_constraints, "{role}: {}", seen.text);
    }
    let outsider = guarded.token("owner", &["away"]).await;
    let seen = guarded.ask(Method::GET, DEMAND, &outsider, None).await;
    assert_eq!(seen.ok()["Classes"], json!([]));
    let elsewhere = format!("{DEMAND}?namespace=home");
    let refused = guarded.ask(Method::GET, &elsewhere, &outsider, None).await;
    refused.refused(404, "NamespaceNotFound");
}
