//! The noop engine, and offers that the node declines.

use api_types::engine::{EngineType, NetworkType, PublisherType};
use api_types::execution::{ComputeState, DesiredState};
use api_types::protocol::{Assignment, FailureCause, Work};
use api_types::source::{InputSource, ResultPath, SourceSpec, SourceType};
use serde_json::json;

use crate::node::{DockerNode, Node, work};
use crate::orchestrator::new_id;

fn noop() -> Work {
    work(EngineType::Noop, json!({}))
}

#[tokio::test(flavor = "multi_thread")]
async fn many_executions_complete_each_with_three_reports() {
    const COUNT: usize = 2000;
    let node = Node::start(|_| ()).await;
    node.orchestrator.joined(|_| true).await;
    let ids: Vec<_> = (0..COUNT).map(|_| node.orchestrator.offer(noop())).collect();
    node.orchestrator.wait_for_reports(ComputeState::AskForBidAccepted, COUNT).await;
    for id in &ids {
        node.orchestrator.want_state(*id, DesiredState::Running, "");
    }
    node.orchestrator.wait_for_reports(ComputeState::Completed, COUNT).await;
    assert_eq!(node.orchestrator.count_reports(ComputeState::BidAccepted), COUNT);
    for id in ids {
        let sequences: Vec<_> =
            node.orchestrator.all_reports(id).iter().map(|report| report.sequence).collect();
        assert_eq!(sequences, [1, 2, 3]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_waits_and_then_fails_if_it_is_its_turn() {
    let node = Node::start(|_| ()).await;
    // Of three executions, this is the last.
    let params = |every: u32| json!({"WaitMilliseconds": 300, "FailEvery": every});
    let begin = std::time::Instant::now();
    let fails = node.orchestrator.run(work(EngineType::Noop, params(3))).await;
    let completes = node.orchestrator.run(work(EngineType::Noop, params(2))).await;
    let report = node.orchestrator.reported(fails, ComputeState::Failed).await;
    assert_eq!((report.message.as_str(), report.cause), ("exit code 1", FailureCause::Task));
    node.orchestrator.reported(completes, ComputeState::Completed).await;
    assert!(begin.elapsed() >= std::time::Duration::from_millis(300));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_task_ends_when_it_is_stopped_or_runs_too_long() {
    let node = Node::start(|_| ()).await;
    let mut endless = work(EngineType::Noop, json!({"WaitMilliseconds": 86_400_000}));
    let id = node.orchestrator.run(endless.clone()).await;
    node.orchestrator.reported(id, ComputeState::BidAccepted).await;
    node.orchestrator.want_state(id, DesiredState::Stopped, "enough");
    let report = node.orchestrator.reported(id, ComputeState::Cancelled).await;
    assert_eq!(report.message, "enough");
    assert_eq!(report.run_output.expect("its output").exit_code, 143);
    endless.task.timeouts.execution_timeout = 1;
    let id = node.orchestrator.run(endless).await;
    let report = node.orchestrator.reported(id, ComputeState::Failed).await;
    assert_eq!(report.message, "execution timeout: still running after 1 s");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_task_outlives_its_agent_and_fails_as_before() {
    let mut node = Node::start(|_| ()).await;
    let params = |milliseconds: u32| json!({"WaitMilliseconds": milliseconds, "FailEvery": 1});
    let id = node.orchestrator.run(work(EngineType::Noop, params(500))).await;
    let endless = node.orchestrator.run(work(EngineType::Noop, params(86_400_000))).await;
    node.orchestrator.reported(id, ComputeState::BidAccepted).await;
    node.orchestrator.reported(endless, ComputeState::BidAccepted).await;
    node.kill_agent().await;
    node.start_agent().await;
    let report = node.orchestrator.reported(id, ComputeState::Failed).await;
    assert_eq!(report.message, "exit code 1");
    node.wait_for_phase(endless, "Running").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsupported_task_is_declined_with_the_reason() {
    let node = Node::start(|_| ()).await;
    let input = |kind, target: &str| InputSource {
        source: SourceSpec { source_type: kind, params: Default::default() },
        target: target.to_owned(),
        alias: String::new(),
    };
    let mut large = noop();
    large.resources.memory = u64::MAX / 2;
    let mut publishes = noop();
    publishes.task.publisher.publisher_type = PublisherType::Ipfs;
    let mut reads = noop();
    reads.task.input_sources = vec![input(SourceType::S3, "/inputs")];
    let mut no_data_url = noop();
    no_data_url.task.input_sources = vec![input(SourceType::Inline, "/inputs")];
    let mut escapes = noop();
    escapes.task.result_paths =
        vec![ResultPath { name: "../x".to_owned(), path: "/outputs".to_owned() }];
    for (offered, reason) in [
        (work(EngineType::Wasm, json!({})), "this node has no engine 'wasm'"),
        (work(EngineType::Docker, json!({})), "this node has no engine 'docker'"),
        (
            work(EngineType::Noop, json!({"FailEvery": "two"})),
            "the Params of the noop engine are invalid: invalid type: string",
        ),
        (large, "this node has"),
        (publishes, "publisher 'ipfs' is not supported on this node; supported: noop, local"),
        (reads, "input 0 (s3): not supported on this node; supported: inline, urldownload"),
        (no_data_url, "input 0 (inline): its URL is not a data URL"),
        (escapes, "its Name must be a plain directory name"),
    ] {
        let id = node.orchestrator.offer(offered);
        let report = node.orchestrator.reported(id, ComputeState::AskForBidRejected).await;
        assert!(report.message.contains(reason), "{}", report.message);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_docker_work_is_declined() {
    let Some(node) = DockerNode::start().await else { return };
    let mut relative = node.work(&[]);
    relative.task.engine.params.insert("WorkingDirectory".to_owned(), json!("here"));
    let mut filtered = node.work(&[]);
    filtered.task.network.network_type = NetworkType::Http;
    for (offered, reason) in [
        (work(EngineType::Docker, json!({})), "needs an Image"),
        (work(EngineType::Docker, json!({"Image": 5})), "are invalid"),
        (relative, "'here' is not an absolute path"),
        (filtered, "network type 'HTTP' is not supported"),
    ] {
        let id = node.orchestrator().offer(offered);
        let report = node.orchestrator().reported(id, ComputeState::AskForBidRejected).await;
        assert!(report.message.contains(reason), "{}", report.message);
    }
    node.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_execution_is_reported() {
    let node = Node::start(|_| ()).await;
    let assignment = |desired_state, compute_state| Assignment {
        execution_id: new_id(),
        desired_state,
        compute_state,
        message: String::new(),
        work: Some(noop()),
    };
    let stopped = assignment(DesiredState::Stopped, ComputeState::AskForBid);
    let lost = assignment(DesiredState::Running, ComputeState::BidAccepted);
    let (stopped_id, lost_id) = (stopped.execution_id, lost.execution_id);
    node.orchestrator.want(stopped);
    node.orchestrator.want(lost);
    node.orchestrator.reported(stopped_id, ComputeState::Cancelled).await;
    let report = node.orchestrator.reported(lost_id, ComputeState::Failed).await;
    assert_eq!(report.cause, FailureCause::Node);
    assert!(report.message.contains("no record"), "{}", report.message);
}
