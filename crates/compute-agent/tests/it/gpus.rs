//! GPUs from a fake `nvidia-smi`: advertised, allocated, and never shared.

use std::os::unix::fs::PermissionsExt;

use api_types::engine::EngineType;
use api_types::execution::{ComputeState, DesiredState};
use api_types::protocol::{FailureCause, Work};
use serde_json::json;

use crate::node::{DockerNode, Node, work};
use crate::programs::{endless, wasm_work};

const IDS: [&str; 2] = ["GPU-aaaaaaaa-0000", "GPU-bbbbbbbb-0000"];

/// A directory with a fake `nvidia-smi` that reports two GPUs.
fn played() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    let program = dir.path().join("nvidia-smi");
    let [first, second] = IDS;
    let script = format!(
        "#!/bin/sh\necho '0, Tesla T4, 15360, {first}'\necho '1, Tesla V100, 16384, {second}'\n"
    );
    std::fs::write(&program, script).expect("write a program");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    dir
}

async fn node_with_gpus(dir: &tempfile::TempDir) -> Node {
    Node::start(|settings| {
        settings.engines = vec![EngineType::Noop];
        settings.gpu.nvidia_smi = dir.path().join("nvidia-smi").display().to_string();
    })
    .await
}

fn needs(gpus: u64) -> Work {
    let mut work = work(EngineType::Noop, json!({}));
    work.resources.gpu = gpus;
    work
}

#[tokio::test(flavor = "multi_thread")]
async fn detected_gpus_are_advertised() {
    let dir = played();
    let node = node_with_gpus(&dir).await;
    let wanted = [
        ("GPU-0", "Tesla-T4"),
        ("GPU-0-Memory", "15360"),
        ("GPU-1", "Tesla-V100"),
        ("GPU-1-Memory", "16384"),
    ];
    node.orchestrator
        .joined(|request| {
            request.compute_node_info.max_capacity.gpu == 2
                && wanted.iter().all(|(key, value)| {
                    request.labels.get(*key).is_some_and(|label| label == value)
                })
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_gpu_is_given_to_no_other_execution_even_after_a_restart() {
    let dir = played();
    let mut node = node_with_gpus(&dir).await;
    node.orchestrator.joined(|_| true).await;
    // Accepted and not yet ordered to run: it holds its GPU nevertheless.
    let first = node.orchestrator.offer(needs(1));
    node.orchestrator.reported(first, ComputeState::AskForBidAccepted).await;
    let said = "the task needs 2 GPUs; 1 of this node's 2 are free";
    for _ in 0..2 {
        let both = node.orchestrator.offer(needs(2));
        let report = node.orchestrator.reported(both, ComputeState::AskForBidRejected).await;
        assert_eq!((report.message.as_str(), report.cause), (said, FailureCause::Room));
        node.kill_agent().await;
        node.start_agent().await;
    }
    // A noop task ends immediately, and gives its GPU back.
    node.orchestrator.want_state(first, DesiredState::Running, "");
    node.orchestrator.reported(first, ComputeState::Completed).await;
    let both = node.orchestrator.offer(needs(2));
    node.orchestrator.reported(both, ComputeState::AskForBidAccepted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wasm_engine_declines_them() {
    let dir = played();
    let node = Node::start(|settings| {
        settings.engines = vec![EngineType::Wasm];
        settings.gpu.nvidia_smi = dir.path().join("nvidia-smi").display().to_string();
    })
    .await;
    let mut work = wasm_work(&endless(), json!({}));
    work.resources.gpu = 1;
    let id = node.orchestrator.offer(work);
    let report = node.orchestrator.reported(id, ComputeState::AskForBidRejected).await;
    assert_eq!(report.message, "the wasm engine gives programs no GPU");
}

/// The test machine has no GPUs: only docker's response to the request is visible.
#[tokio::test(flavor = "multi_thread")]
async fn docker_is_requested_the_allocated_gpus() {
    let dir = played();
    let program = dir.path().join("nvidia-smi").display().to_string();
    let Some(node) = DockerNode::start_with(|settings| settings.gpu.nvidia_smi = program).await
    else {
        return;
    };
    let mut work = node.work(&["out", "hello"]);
    work.resources.gpu = 1;
    let id = node.orchestrator().run(work).await;
    let report = node.orchestrator().reported(id, ComputeState::Failed).await;
    assert!(report.message.contains("gpu"), "{}", report.message);
    node.nothing_is_left().await;
}
