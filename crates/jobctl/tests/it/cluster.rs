//! `jobctl cluster` and the live executions.

use api_types::job::JobStateType;
use insta::assert_snapshot;
use serde_json::Value;

use crate::fake_node::FakeNode;
use crate::service::Service;

const JOB: &str = "\
Type: batch
Name: words
Tasks:
- {Name: main, Engine: {Type: docker, Params: {Image: ok}}}
";

#[tokio::test]
async fn a_cluster_is_shown_with_what_is_allocated() {
    let service = Service::start().await;
    assert_snapshot!("nothing", service.run(&["cluster"]).await.normal());
    let _node = FakeNode::idle(&service, 1).await;
    service.submit(JOB).await;
    let live = async || {
        let json = service.run(&["executions", "--live", "-o", "json"]).await;
        serde_json::from_str::<Value>(&json.stdout).expect("JSON").as_array().map_or(0, Vec::len)
    };
    let begin = std::time::Instant::now();
    while live().await == 0 {
        assert!(begin.elapsed() < crate::service::TIMEOUT, "the job was not placed");
    }
    assert_snapshot!("busy", service.run(&["cluster"]).await.normal());
    let json = service.run(&["cluster", "-o", "json"]).await;
    let cluster: Value = serde_json::from_str(&json.stdout).expect("JSON");
    assert_eq!(cluster["Executions"]["Starting"], 1);

    let node = cluster_node(&service).await;
    assert_snapshot!("on_a_node", service.run(&["executions", "--node", &node]).await.normal());
    let neither = service.run(&["executions"]).await;
    assert!(neither.stderr.contains("required"), "{neither}");
}

#[tokio::test]
async fn what_waits_for_room_is_shown_by_what_it_needs() {
    let service = Service::start().await;
    assert_snapshot!("no_demand", service.run(&["cluster", "demand"]).await.normal());
    let _node = FakeNode::idle(&service, 1).await;
    let needs = ["--cpu", "64", "--memory", "1gb", "--gpu", "1", "--constraint", "zone in (a,b)"];
    for arguments in [
        &[&["run", "--detach", "--count", "40"], &needs[..], &["ok"]].concat()[..],
        &["run", "--detach", "--priority", "10", "--constraint", "zone=c", "ok"],
    ] {
        let id = service.run(arguments).await.stdout;
        service.until(id.trim(), JobStateType::Queued).await;
    }
    assert_snapshot!("demand", service.run(&["cluster", "demand"]).await.normal());
    assert_snapshot!(
        "demand_wide",
        service.run(&["cluster", "demand", "-o", "wide"]).await.normal()
    );
    let first = service.run(&["cluster", "demand", "--limit", "1", "-o", "json"]).await;
    let classes: Value = serde_json::from_str(&first.stdout).expect("JSON");
    assert_eq!(classes.as_array().map(Vec::len), Some(1));
    assert_eq!(first.stderr, "more classes wait; --limit shows up to 1000\n");
    let other = service.run(&["cluster", "demand", "-n", "other"]).await;
    assert_eq!(other.stderr, "no executions that wait for room\n");
}

#[tokio::test]
async fn the_orchestrators_are_listed() {
    let service = Service::start().await;
    let list = service.run(&["cluster", "members"]).await;
    assert!(list.stdout.starts_with("ID "), "{list}");
    let row = list.stdout.lines().nth(1).expect("one orchestrator");
    assert!(row.contains(" leads ") && row.ends_with('-'), "{row}");
    let wide = service.run(&["cluster", "members", "-o", "wide"]).await;
    assert!(wide.stdout.contains("loopback") && wide.stdout.contains("localhost"), "{wide}");
    let json = service.run(&["cluster", "members", "-o", "json"]).await;
    let found: Value = serde_json::from_str(&json.stdout).expect("JSON");
    assert_eq!(found["Store"]["Kind"], "sqlite");
    assert_eq!(found["Members"].as_array().map(Vec::len), Some(1));
}

async fn cluster_node(service: &Service) -> String {
    let nodes = service.run(&["node", "list", "-o", "json"]).await;
    let nodes: Value = serde_json::from_str(&nodes.stdout).expect("JSON");
    let nodes = nodes.as_array().expect("a list").iter();
    let compute = nodes.filter(|node| node["NodeType"] == "Compute");
    let ids: Vec<_> = compute.map(|node| node["PeerInfo"]["ID"].as_str().expect("an ID")).collect();
    ids[0].to_owned()
}
