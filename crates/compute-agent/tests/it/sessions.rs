//! Joining, heartbeats, and an orchestrator that comes and goes.

use api_types::engine::{EngineType, PublisherType};
use api_types::execution::{ComputeState, DesiredState};
use api_types::source::SourceType;
use serde_json::json;

use crate::node::{DockerNode, Node, work};

#[tokio::test(flavor = "multi_thread")]
async fn the_node_reports_its_record() {
    let node = Node::start(|settings| {
        settings.labels = [("zone".to_owned(), "a".to_owned())].into();
        settings.capacity.cpu = Some(2500);
        settings.capacity.memory = Some(1_000_000_000);
    })
    .await;
    let request = node.orchestrator.joined(|_| true).await;
    assert_eq!(request.labels["zone"], "a");
    assert_eq!(request.labels["Operating-System"], "linux");
    let info = request.compute_node_info;
    assert_eq!(info.execution_engines, [EngineType::Noop]);
    assert_eq!(info.publishers, [PublisherType::Noop, PublisherType::Local]);
    // Whether there is git depends on the machine; the others need settings that are not there.
    let sources = &info.storage_sources;
    assert_eq!(sources[..2], [SourceType::Inline, SourceType::UrlDownload]);
    for absent in [SourceType::LocalDirectory, SourceType::Ipfs] {
        assert!(!sources.contains(&absent), "{sources:?}");
    }
    assert_eq!((info.max_capacity.cpu, info.max_capacity.memory), (2.5, 1_000_000_000));
    assert!(info.max_capacity.disk > 0);
    assert_eq!(request.default_resources.cpu, 0.5);
    assert_eq!(request.default_resources.memory, 512_000_000);
    assert!(request.addrs[0].starts_with("/ip4/127.0.0.1/tcp/"), "{:?}", request.addrs);
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_report_used_resources() {
    let Some(node) = DockerNode::start().await else { return };
    let mut waiting = node.work(&[]);
    waiting.resources.cpu = 0.25;
    let waiting = node.orchestrator().offer(waiting);
    let running = node.orchestrator().run(node.work(&["sleep", "60000"])).await;
    node.orchestrator().reported(running, ComputeState::BidAccepted).await;
    node.orchestrator()
        .heartbeat(|beat| {
            (beat.running_executions, beat.enqueued_executions) == (1, 1)
                && beat.used_capacity.cpu == 0.75
                && beat.used_capacity.memory == 128_000_000
        })
        .await;
    for id in [waiting, running] {
        node.orchestrator().want_state(id, DesiredState::Stopped, "");
        node.orchestrator().reported(id, ComputeState::Cancelled).await;
    }
    node.orchestrator().heartbeat(|beat| beat.used_capacity.cpu == 0.0).await;
    node.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_session_is_joined_again() {
    let node = Node::start(|_| ()).await;
    let first = node.orchestrator.heartbeat(|_| true).await.session;
    node.orchestrator.forget_session();
    node.orchestrator.heartbeat(|beat| beat.session >= first + 2).await;
    let id = node.orchestrator.run(work(EngineType::Noop, json!({}))).await;
    node.orchestrator.reported(id, ComputeState::Completed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_orchestrator_stops_no_work_and_gets_all_reports_later() {
    let Some(mut node) = DockerNode::start().await else { return };
    let id = node.orchestrator().run(node.work(&["sleep", "1000", "out", "done"])).await;
    node.orchestrator().reported(id, ComputeState::BidAccepted).await;
    node.node.orchestrator.go_away().await;
    node.node.wait_for_phase(id, "Completed").await;
    node.node.orchestrator.come_back().await;
    let report = node.orchestrator().reported(id, ComputeState::Completed).await;
    assert_eq!(report.run_output.unwrap().stdout, "done\n");
    node.nothing_is_left().await;
}
