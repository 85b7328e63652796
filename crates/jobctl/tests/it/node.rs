//! `jobctl node …`.

use api_types::node::Eligibility;
use insta::assert_snapshot;

use crate::fake_node::FakeNode;
use crate::service::Service;

#[tokio::test]
async fn nodes_are_listed_and_selected() {
    let service = Service::start().await;
    let alpha = FakeNode::idle(&service, 1).await;
    let beta = FakeNode::idle(&service, 2).await;
    service.client.act_on_node(beta.id, api_types::node::NodeAction::Cordon, "").await.unwrap();
    assert_snapshot!("nodes", service.run(&["node", "list", "-l", "zone"]).await.normal());
    let wide = service.run(&["node", "ls", "--selector", "zone=a", "-o", "wide"]).await;
    assert_snapshot!("nodes_wide", wide.normal());
    let names = service.run(&["node", "list", "-o", "name", "--sort", "available-cpu"]).await;
    // The orchestrator's own record has no CPU to offer.
    let expected = format!("{}\n{}\n{}\n", service.node_id(), alpha.id, beta.id);
    assert_eq!(names.stdout, expected);
}

#[tokio::test]
async fn a_node_is_described() {
    let service = Service::start().await;
    let alpha = FakeNode::idle(&service, 1).await;
    let id = alpha.id.to_string();
    assert_snapshot!(service.run(&["node", "describe", &id[..10]]).await.normal());
    let json = service.run(&["node", "describe", &id, "-o", "json"]).await;
    let node: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(node["PeerInfo"]["ID"], id.as_str());
}

#[tokio::test]
async fn an_operator_manages_nodes() {
    let service = Service::start_with(|settings| orchestrator::Settings {
        approve_new_nodes: false,
        ..settings
    })
    .await;
    let alpha = FakeNode::idle(&service, 1).await;
    let id = alpha.id.to_string();
    let mut transcript = String::new();
    for arguments in [
        &["node", "approve", &id[..10]][..],
        &["node", "cordon", &id, "--message", "new disk"],
        &["node", "uncordon", &id],
        &["node", "drain", &id, "--wait"],
        &["node", "reject", &id],
        &["node", "list", "-l", "zone"],
        &["node", "delete", &id],
    ] {
        transcript.push_str(&service.run(arguments).await.normal());
    }
    assert_snapshot!(transcript);
}

#[tokio::test]
async fn the_history_of_a_node_is_shown() {
    let service = Service::start().await;
    let alpha = FakeNode::idle(&service, 1).await;
    let id = alpha.id.to_string();
    service.run(&["node", "cordon", &id, "--message", "new disk"]).await;
    service.run(&["node", "drain", &id]).await;
    let history = service.run(&["node", "history", &id[..10]]).await;
    assert_snapshot!("history_of_a_node", history.normal());
    let wide = service.run(&["node", "history", &id, "-o", "wide", "--limit", "1"]).await;
    assert_snapshot!("history_of_a_node_wide", wide.normal());
    let names = service.run(&["node", "history", &id, "-o", "name", "--since", "1h"]).await;
    let expected: String = (1..=4).map(|revision| format!("{id}@{revision}\n")).collect();
    assert_eq!(names.stdout, expected);
    let json = service.run(&["node", "history", &id, "-o", "json"]).await;
    let events: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(events[0]["NodeState"]["New"], "CONNECTED");
    let unknown = service.run(&["node", "history", "n-12ab34cd"]).await;
    assert_ne!(unknown.code, Some(0), "{unknown}");
}

#[tokio::test]
async fn a_disconnected_node_can_be_deleted() {
    // The shortest lease: the node never renews it.
    let service =
        Service::start_with(|settings| orchestrator::Settings { node_ttl: 2, ..settings }).await;
    let alpha = FakeNode::idle(&service, 1).await;
    let id = alpha.id.to_string();
    let begin = std::time::Instant::now();
    loop {
        let deleted = service.run(&["node", "delete", &id]).await;
        if deleted.code == Some(0) {
            assert_eq!(deleted.stdout, format!("{id} is deleted\n"));
            break;
        }
        assert_eq!(deleted.code, Some(122), "{deleted}");
        assert!(begin.elapsed() < crate::service::TIMEOUT, "{deleted}");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert!(service.client.describe_node(&id).await.is_err());
}

#[tokio::test]
async fn an_unknown_node_is_reported_and_the_others_are_cordoned() {
    let service = Service::start().await;
    let alpha = FakeNode::idle(&service, 1).await;
    let cordoned = service.run(&["node", "cordon", "n-12ab34cd", &alpha.id.to_string()]).await;
    assert_snapshot!(cordoned.normal());
    let node = service.client.describe_node(alpha.id).await.unwrap();
    assert_eq!(node.eligibility, Eligibility::Cordoned);
}
