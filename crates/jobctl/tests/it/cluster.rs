//! `jobctl cluster` and the live executions.

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

async fn cluster_node(service: &Service) -> String {
    let nodes = service.run(&["node", "list", "-o", "json"]).await;
    let nodes: Value = serde_json::from_str(&nodes.stdout).expect("JSON");
    let nodes = nodes.as_array().expect("a list").iter();
    let compute = nodes.filter(|node| node["NodeType"] == "Compute");
    let ids: Vec<_> = compute.map(|node| node["PeerInfo"]["ID"].as_str().expect("an ID")).collect();
    ids[0].to_owned()
}
