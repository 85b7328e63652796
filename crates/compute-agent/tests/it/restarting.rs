//! The agent crashes and restarts: nothing is lost, nothing runs twice, nothing is left.

use std::collections::{BTreeSet, HashMap};

use api_types::execution::{ComputeState, DesiredState};
use api_types::protocol::FailureCause;
use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{
    CreateContainerOptions, InspectContainerOptions, RemoveContainerOptions,
};

use crate::node::{DockerNode, Node, eventually, work};

async fn started_at(node: &DockerNode, id: api_types::ExecutionId) -> String {
    let name = format!("execution-{id}");
    let container = node.docker.inspect_container(&name, None::<InspectContainerOptions>).await;
    let state = container.expect("inspect the container").state;
    state.and_then(|state| state.started_at).expect("a moment")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_task_is_adopted_with_all_its_output() {
    let Some(mut node) = DockerNode::start().await else { return };
    let steps = ["out", "before", "await", "out", "after", "exit", "5"];
    let id = node.orchestrator().run(node.work(&steps)).await;
    node.orchestrator().reported(id, ComputeState::BidAccepted).await;
    node.node.printed(id, "before\nwaiting\n").await;
    let before = started_at(&node, id).await;
    let node_id = node.node.id();
    node.node.kill_agent().await;
    node.node.start_agent().await;
    assert_eq!(node.node.id(), node_id);
    assert_eq!(started_at(&node, id).await, before);
    node.signal(id).await;
    let report = node.orchestrator().reported(id, ComputeState::Failed).await;
    let output = report.run_output.unwrap();
    assert_eq!((output.stdout.as_str(), output.exit_code), ("before\nwaiting\nafter\n", 5));
    let starts = node.orchestrator().all_reports(id);
    let starts = starts.iter().filter(|report| report.compute_state == ComputeState::BidAccepted);
    // One that was not acknowledged before the kill is sent again, and is the same.
    let starts: BTreeSet<_> = starts.map(|report| report.sequence).collect();
    assert_eq!(starts.len(), 1);
    node.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_ended_without_its_agent_is_reported_with_its_outcome() {
    let Some(mut node) = DockerNode::start().await else { return };
    let id = node.orchestrator().run(node.work(&["await", "out", "late", "exit", "7"])).await;
    node.orchestrator().reported(id, ComputeState::BidAccepted).await;
    node.node.printed(id, "waiting\n").await;
    node.node.shut_down_agent().await;
    node.signal(id).await;
    let name = format!("execution-{id}");
    eventually("the task to end without its agent", async || {
        let container = node.docker.inspect_container(&name, None).await.unwrap();
        container.state.unwrap().running == Some(false)
    })
    .await;
    node.node.start_agent().await;
    let report = node.orchestrator().reported(id, ComputeState::Failed).await;
    assert_eq!(report.message, "exit code 7");
    assert_eq!(report.run_output.unwrap().stdout, "waiting\nlate\n");
    node.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_at_any_moment_of_the_start_runs_the_task_once() {
    let Some(mut node) = DockerNode::start().await else { return };
    for moment_ms in [0, 30, 80, 150, 250, 400, 600] {
        let id = node.orchestrator().run(node.work(&["out", "once"])).await;
        tokio::time::sleep(std::time::Duration::from_millis(moment_ms)).await;
        node.node.kill_agent().await;
        node.node.start_agent().await;
        let report = node.orchestrator().reported(id, ComputeState::Completed).await;
        assert_eq!(report.run_output.unwrap().stdout, "once\n", "killed after {moment_ms} ms");
    }
    node.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_stop_is_completed() {
    let Some(mut node) = DockerNode::start_with(|settings| settings.stop_grace_seconds = 3).await
    else {
        return;
    };
    let id = node.orchestrator().run(node.work(&["ignore-sigterm", "sleep", "60000"])).await;
    node.orchestrator().reported(id, ComputeState::BidAccepted).await;
    node.node.printed(id, "ignoring\n").await;
    node.orchestrator().want_state(id, DesiredState::Stopped, "enough");
    node.node.wait_for_phase(id, "Stopping").await;
    node.node.kill_agent().await;
    node.node.start_agent().await;
    let report = node.orchestrator().reported(id, ComputeState::Cancelled).await;
    assert_eq!(report.message, "enough");
    node.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_leftovers_of_this_node_are_removed() {
    let Some(mut node) = DockerNode::start().await else { return };
    let own = node.node.id();
    let other = "n-00000000-0000-4000-8000-000000000000".to_owned();
    let make = async |owner: String| {
        let id = crate::orchestrator::new_id();
        let name = format!("execution-{id}");
        let options = CreateContainerOptions { name: Some(name.clone()), ..Default::default() };
        let labels = [("service.org/execution", id.to_string()), ("service.org/node", owner)]
            .map(|(key, value)| (key.to_owned(), value));
        let body = ContainerCreateBody {
            image: Some(node.image.clone()),
            labels: Some(HashMap::from(labels)),
            ..Default::default()
        };
        node.docker.create_container(Some(options), body).await.unwrap();
        name
    };
    let theirs = make(other).await;
    make(own.to_string()).await;
    let dir = node.node.execution_dir(crate::orchestrator::new_id());
    std::fs::create_dir_all(&dir).unwrap();
    node.node.kill_agent().await;
    node.node.start_agent().await;
    node.nothing_is_left().await;
    eventually("the directory without an execution to go", async || !dir.exists()).await;
    node.docker.remove_container(&theirs, None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_removed_by_someone_else_is_a_failure_of_the_node() {
    let Some(mut node) = DockerNode::start().await else { return };
    let id = node.orchestrator().run(node.work(&["sleep", "60000"])).await;
    node.orchestrator().reported(id, ComputeState::BidAccepted).await;
    node.node.kill_agent().await;
    let options = RemoveContainerOptions { force: true, ..Default::default() };
    node.docker.remove_container(&format!("execution-{id}"), Some(options)).await.unwrap();
    node.node.start_agent().await;
    let report = node.orchestrator().reported(id, ComputeState::Failed).await;
    assert_eq!(report.cause, FailureCause::Node);
    assert!(report.message.contains("removed by someone else"), "{}", report.message);
    node.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unacknowledged_reports_are_sent_again() {
    let mut node = Node::start(|_| ()).await;
    node.orchestrator.acknowledge_reports(false);
    let id = node.orchestrator.run(work(api_types::engine::EngineType::Noop, json())).await;
    node.orchestrator.reported(id, ComputeState::Completed).await;
    node.kill_agent().await;
    node.orchestrator.acknowledge_reports(true);
    let before = node.orchestrator.all_reports(id).len();
    node.start_agent().await;
    eventually("the reports to come again", async || {
        node.orchestrator.all_reports(id).len() >= before + 3
    })
    .await;
    let again = node.orchestrator.all_reports(id).split_off(before);
    let sequences: Vec<_> = again.iter().map(|report| report.sequence).collect();
    assert_eq!(sequences, [1, 2, 3]);
    // Acknowledged now: another restart has nothing to say.
    crate::metrics::all_reports_are_acknowledged(&node).await;
    node.shut_down_agent().await;
    node.start_agent().await;
    node.orchestrator.heartbeat(|heartbeat| heartbeat.session >= 3).await;
    assert_eq!(node.orchestrator.all_reports(id).len(), before + 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_report_keeps_no_others_from_being_told() {
    let node = Node::start(|_| ()).await;
    node.orchestrator.refuse_outputs();
    for _ in 0..3 {
        let id = node.orchestrator.run(work(api_types::engine::EngineType::Noop, json())).await;
        let report = node.orchestrator.reported(id, ComputeState::Completed).await;
        assert_eq!(report.run_output, None);
        let words = "its node cannot report more of it: ";
        assert!(report.message.starts_with(words), "{}", report.message);
    }
    crate::metrics::all_reports_are_acknowledged(&node).await;
}

fn json() -> serde_json::Value {
    serde_json::json!({})
}
