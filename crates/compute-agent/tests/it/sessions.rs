//! Joining, heartbeats, and an orchestrator that comes and goes.

use std::time::{Duration, Instant};

use agent_core::session::SILENCE;
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

/// The streams of an orchestrator that lost the lead may stay open and say nothing.
#[tokio::test(flavor = "multi_thread")]
async fn the_stream_is_opened_again_when_another_orchestrator_leads() {
    let node = Node::start(|_| ()).await;
    node.orchestrator.heartbeat(|_| true).await;
    node.orchestrator.leads_under("b");
    let began = Instant::now();
    let id = node.orchestrator.run(work(EngineType::Noop, json!({}))).await;
    node.orchestrator.reported(id, ComputeState::Completed).await;
    // A heartbeat a second and a second of delay; without the term, the silence would have to last.
    assert!(began.elapsed() < SILENCE - Duration::from_secs(3), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_that_a_former_leader_never_answers_are_sent_to_the_next_one() {
    let node = Node::start(|_| ()).await;
    node.orchestrator.heartbeat(|_| true).await;
    node.orchestrator.lose_a_batch();
    let id = node.orchestrator.offer(work(EngineType::Noop, json!({})));
    node.orchestrator.lost_a_batch().await;
    let began = Instant::now();
    node.orchestrator.leads_under("b");
    node.orchestrator.reported(id, ComputeState::AskForBidAccepted).await;
    // A heartbeat a second and a second of delay.
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_on_a_connection_that_is_dead_without_a_word_are_sent_again_in_time() {
    let node = Node::start(|_| ()).await;
    node.orchestrator.lose_a_batch();
    let id = node.orchestrator.offer(work(EngineType::Noop, json!({})));
    node.orchestrator.lost_a_batch().await;
    let began = Instant::now();
    node.orchestrator.reported(id, ComputeState::AskForBidAccepted).await;
    // The offer would fail after 15 s.
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

/// As after the promotion of a standby that lagged behind.
#[tokio::test(flavor = "multi_thread")]
async fn what_runs_is_reported_again_to_an_orchestrator_that_knows_less() {
    let Some(node) = DockerNode::start().await else { return };
    let orchestrator = node.orchestrator();
    let id = orchestrator.run(node.work(&["sleep", "60000"])).await;
    orchestrator.reported(id, ComputeState::BidAccepted).await;
    let before = orchestrator.all_reports(id).len();
    orchestrator.forgets_reports(id, ComputeState::AskForBid);
    let again = orchestrator.report_after(id, before).await;
    assert_eq!(again.compute_state, ComputeState::BidAccepted);
    orchestrator.want_state(id, DesiredState::Stopped, "");
    orchestrator.reported(id, ComputeState::Cancelled).await;
    node.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_uses_the_orchestrator_of_its_list_that_answers() {
    let nothing = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let node = Node::start(|settings| {
        settings.orchestrator = format!("http://{nothing},{}", settings.orchestrator);
    })
    .await;
    let id = node.orchestrator.run(work(EngineType::Noop, json!({}))).await;
    node.orchestrator.reported(id, ComputeState::Completed).await;
    node.orchestrator.heartbeat(|_| true).await;
}
