//! What tasks use, as their last report says it.

use api_types::engine::EngineType;
use api_types::execution::ComputeState;
use api_types::usage::Usage;
use serde_json::json;

use crate::node::{DockerNode, Node};
use crate::programs::{program, wasm_work};

const MIB: u64 = 1 << 20;

/// Within ten percent, and some overhead of the container or the runner.
fn is_about(measured: f64, expected: f64, overhead: f64) -> bool {
    (0.9 * expected..=1.1 * expected + overhead).contains(&measured)
}

async fn used(node: &DockerNode, steps: &[&str], end: ComputeState) -> Usage {
    let id = node.orchestrator().run(node.work(steps)).await;
    let report = node.orchestrator().reported(id, end).await;
    node.nothing_is_left().await;
    report.usage.expect("it was measured")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_uses_known_amounts_is_measured_as_such() {
    let Some(node) = DockerNode::start().await else { return };
    // On a busy machine the kernel's counters may be gone before they are read once more at the end.
    // A sample has all of it by then.
    let steps = ["hold-memory", "32", "burn", "1000", "sleep", "6000"];
    let usage = used(&node, &steps, ComputeState::Completed).await;
    assert!(is_about(usage.cpu_seconds, 1.0, 0.1), "{usage:?}");
    assert!(is_about(usage.memory_peak as f64, (32 * MIB) as f64, 4e6), "{usage:?}");
    assert_eq!((usage.cpu, usage.memory), (0.0, 0), "it has ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_ends_at_once_is_measured_too() {
    let Some(node) = DockerNode::start().await else { return };
    let usage = used(&node, &["out", "hello"], ComputeState::Completed).await;
    assert!(usage.cpu_seconds > 0.0 && usage.cpu_seconds < 1.0, "{usage:?}");
    assert!((100_000..32 * MIB).contains(&usage.memory_peak), "{usage:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_killed_for_its_memory_had_used_all_of_it() {
    let Some(node) = DockerNode::start().await else { return };
    // On a busy machine the kernel's counters may be gone before they are read once more at the end.
    // A sample has most of it by then.
    let steps = ["hold-memory", "56", "sleep", "3000", "fill-memory"];
    let usage = used(&node, &steps, ComputeState::Failed).await;
    assert!(is_about(usage.memory_peak as f64, 64e6, 0.0), "{usage:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_forgotten_when_the_agent_restarts_in_between() {
    let Some(mut node) = DockerNode::start().await else { return };
    // The last sleep is longer than the interval between two readings.
    let steps = "hold-memory 32 burn 600 out half sleep 4000 burn 600 sleep 2000";
    let steps: Vec<_> = steps.split(' ').collect();
    let id = node.orchestrator().run(node.work(&steps)).await;
    node.orchestrator().reported(id, ComputeState::BidAccepted).await;
    node.node.printed(id, "holds memory\nhalf\n").await;
    node.node.kill_agent().await;
    node.node.start_agent().await;
    let report = node.orchestrator().reported(id, ComputeState::Completed).await;
    let usage = report.usage.expect("it was measured");
    assert!(is_about(usage.cpu_seconds, 1.2, 0.1), "{usage:?}");
    assert!(is_about(usage.memory_peak as f64, (32 * MIB) as f64, 4e6), "{usage:?}");
    node.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ends_while_the_agent_is_down_has_the_last_sample() {
    let Some(mut node) = DockerNode::start().await else { return };
    let id = node.orchestrator().run(node.work(&["burn", "600", "await"])).await;
    node.orchestrator().reported(id, ComputeState::BidAccepted).await;
    node.node.printed(id, "waiting\n").await;
    let sample = node.node.execution_dir(id).join("usage.json");
    crate::node::eventually("a sample of all it burns", async || {
        let read = std::fs::read(&sample).ok();
        let usage: Option<Usage> = read.and_then(|json| serde_json::from_slice(&json).ok());
        usage.is_some_and(|usage| is_about(usage.cpu_seconds, 0.6, 0.1))
    })
    .await;
    node.node.kill_agent().await;
    node.signal(id).await;
    let name = format!("execution-{id}");
    crate::node::eventually("the task to end without its agent", async || {
        let container = node.docker.inspect_container(&name, None).await.unwrap();
        container.state.unwrap().running == Some(false)
    })
    .await;
    node.node.start_agent().await;
    let report = node.orchestrator().reported(id, ComputeState::Completed).await;
    let usage = report.usage.expect("it was measured");
    assert!(is_about(usage.cpu_seconds, 0.6, 0.1), "{usage:?}");
    assert_eq!((usage.cpu, usage.memory), (0.0, 0), "it has ended");
    node.nothing_is_left().await;
}

/// Fills 32 MiB of memory, then counts to this number.
fn wasm_program(count: u64) -> Vec<u8> {
    program(&format!(
        r#"(func (export "_start") (local $left i64)
          (drop (memory.grow (i32.const 512)))
          (memory.fill (i32.const 65536) (i32.const 7) (i32.const 33554432))
          (local.set $left (i64.const {count}))
          (loop $again
            (local.set $left (i64.sub (local.get $left) (i64.const 1)))
            (br_if $again (i64.ne (local.get $left) (i64.const 0)))))"#
    ))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wasm_program_is_measured() {
    let node = Node::start(|settings| settings.engines = vec![EngineType::Wasm]).await;
    let used = async |count| {
        let id = node.orchestrator.run(wasm_work(&wasm_program(count), json!({}))).await;
        let report = node.orchestrator.reported(id, ComputeState::Completed).await;
        report.usage.expect("it was measured")
    };
    let (some, more) = (used(1_000_000_000).await, used(3_000_000_000).await);
    // Twice as much, and each of the two is up to twice as slow while the core's other thread works.
    let ratio = (more.cpu_seconds - some.cpu_seconds) / some.cpu_seconds;
    assert!((0.4..5.5).contains(&ratio), "{some:?} {more:?}");
    for usage in [some, more] {
        assert!(is_about(usage.memory_peak as f64, (32 * MIB) as f64, 8e6), "{usage:?}");
        assert_eq!((usage.cpu, usage.memory), (0.0, 0), "it has ended");
        assert!(usage.disk.is_some(), "{usage:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_wasm_program_has_what_it_used_until_then() {
    let node = Node::start(|settings| settings.engines = vec![EngineType::Wasm]).await;
    let mut work = wasm_work(&wasm_program(u64::MAX >> 1), json!({}));
    work.task.timeouts.execution_timeout = 2;
    let id = node.orchestrator.run(work).await;
    let report = node.orchestrator.reported(id, ComputeState::Failed).await;
    let usage = report.usage.expect("it was measured");
    // Half a core for two seconds, on a machine that may have had less for it.
    assert!((0.02..1.3).contains(&usage.cpu_seconds), "{usage:?}");
}
