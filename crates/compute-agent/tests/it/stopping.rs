//! Executions that are no longer wanted, in every part of their lifecycle.

use std::time::Duration;

use api_types::execution::{ComputeState, DesiredState};

use crate::node::DockerNode;

#[tokio::test(flavor = "multi_thread")]
async fn a_running_task_is_stopped_and_its_output_is_kept() {
    let Some(node) = DockerNode::start_with(|settings| settings.stop_grace_seconds = 50).await
    else {
        return;
    };
    let id = node.orchestrator().run(node.work(&["out", "begun", "sleep", "60000"])).await;
    node.orchestrator().reported(id, ComputeState::BidAccepted).await;
    node.node.printed(id, "begun\n").await;
    node.orchestrator().want_state(id, DesiredState::Stopped, "enough");
    let report = node.orchestrator().reported(id, ComputeState::Cancelled).await;
    assert_eq!(report.message, "enough");
    let output = report.run_output.unwrap();
    // SIGTERM was enough: the agent did not wait for the grace period.
    assert_eq!((output.exit_code, output.stdout.as_str()), (143, "begun\n"));
    node.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_ignores_sigterm_is_killed_after_the_grace() {
    let Some(node) = DockerNode::start().await else { return };
    let id = node.orchestrator().run(node.work(&["ignore-sigterm", "sleep", "60000"])).await;
    node.orchestrator().reported(id, ComputeState::BidAccepted).await;
    node.node.printed(id, "ignoring\n").await;
    let asked = std::time::Instant::now();
    node.orchestrator().want_state(id, DesiredState::Stopped, "enough");
    let report = node.orchestrator().reported(id, ComputeState::Cancelled).await;
    assert!(asked.elapsed() >= Duration::from_secs(1), "{:?}", asked.elapsed());
    assert_eq!(report.run_output.unwrap().exit_code, 137);
    node.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_execution_not_ordered_to_run_is_cancelled() {
    let Some(node) = DockerNode::start().await else { return };
    let id = node.orchestrator().offer(node.work(&["out", "never"]));
    node.orchestrator().reported(id, ComputeState::AskForBidAccepted).await;
    node.orchestrator().want_state(id, DesiredState::Stopped, "changed our mind");
    let report = node.orchestrator().reported(id, ComputeState::Cancelled).await;
    assert_eq!((report.sequence, report.message.as_str()), (2, "changed our mind"));
    assert_eq!(report.run_output, None);
    node.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_during_the_start_leaves_nothing_behind() {
    let Some(node) = DockerNode::start().await else { return };
    let id = node.orchestrator().run(node.work(&["sleep", "60000"])).await;
    // At an arbitrary step.
    node.orchestrator().want_state(id, DesiredState::Stopped, "immediately");
    let report = node.orchestrator().reported(id, ComputeState::Cancelled).await;
    assert_eq!(report.message, "immediately");
    node.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn executions_missing_from_a_snapshot_are_stopped() {
    let Some(node) = DockerNode::start().await else { return };
    let keep = node.orchestrator().run(node.work(&["sleep", "60000"])).await;
    let drop = node.orchestrator().run(node.work(&["sleep", "60000"])).await;
    for id in [keep, drop] {
        node.orchestrator().reported(id, ComputeState::BidAccepted).await;
    }
    node.orchestrator().forget(drop);
    node.orchestrator().break_streams();
    let report = node.orchestrator().reported(drop, ComputeState::Cancelled).await;
    assert_eq!(report.message, "no longer wanted by the orchestrator");
    assert_eq!(node.node.phase(keep).await.as_deref(), Some("Running"));
    node.orchestrator().want_state(keep, DesiredState::Stopped, "");
    node.orchestrator().reported(keep, ComputeState::Cancelled).await;
    node.nothing_is_left().await;
}
