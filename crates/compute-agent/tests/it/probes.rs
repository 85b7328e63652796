//! Probes of a node: those that confirm its failures, and those that an orchestrator requests.

use std::path::Path;
use std::time::{Duration, Instant};

use api_types::engine::{EngineType, NetworkType};
use api_types::execution::ComputeState;
use api_types::protocol::{FailureCause, ProbeOutcome, Report, Work};
use peers::engine::{Broken, EngineProxy};
use serde_json::json;

use crate::containers;
use crate::node::{DockerNode, Node};
use crate::programs::{inline, printing, wasm_work};

/// The label of a twin.
const TWIN: &str = "service.org/twin-of";

async fn behind(proxy: &EngineProxy) -> Option<DockerNode> {
    DockerNode::start_with(|settings| {
        settings.docker.host = proxy.host();
        settings.allow_network = true;
    })
    .await
}

async fn fails(node: &Node, work: Work) -> Report {
    let id = node.orchestrator.run(work).await;
    node.orchestrator.reported(id, ComputeState::Failed).await
}

fn with_network(mut work: Work) -> Work {
    work.task.network.network_type = NetworkType::Full;
    work
}

fn with_input(mut work: Work) -> Work {
    let mut input = inline(b"x", "/inputs/x");
    let params = json!({ "URL": "data:text/plain,x" });
    input.source.params = serde_json::from_value(params).expect("an object");
    work.task.input_sources.push(input);
    work
}

/// The outcome of the probe with this number.
async fn probed(node: &Node, probe: u64) -> Option<String> {
    node.orchestrator.request_probe(Some(probe));
    let is = |outcome: &ProbeOutcome| outcome.probe == probe;
    let heartbeat = node.orchestrator.heartbeat(|it| it.probed.as_ref().is_some_and(is)).await;
    heartbeat.probed.expect("it has one").failure
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_of_the_node_is_confirmed_by_a_twin_and_a_request_finds_it_repaired() {
    let Some(proxy) = EngineProxy::open() else { return };
    let Some(node) = behind(&proxy).await else { return };
    let plain = || node.work(&["out", "done"]);
    let data_dir = std::fs::canonicalize(&node.node.settings.data_dir).unwrap();
    let cases = [
        (Broken::Starts, plain()),
        (Broken::Network, with_network(plain())),
        (Broken::Mounts(data_dir), with_input(plain())),
    ];
    for (number, (broken, work)) in (1..).zip(cases) {
        proxy.breaks(broken.clone());
        let report = fails(&node.node, work.clone()).await;
        assert_eq!(
            (report.cause, report.confirmed),
            (FailureCause::Node, true),
            "{broken:?}: {report:?}"
        );
        assert!(report.message.contains("the node is at fault"), "{}", report.message);
        let failure = probed(&node.node, number * 2).await;
        assert!(failure.is_some_and(|reason| reason.contains("docker answers 500")), "{broken:?}");
        proxy.is_repaired();
        assert_eq!(probed(&node.node, number * 2 + 1).await, None, "{broken:?}");
        let id = node.orchestrator().run(work).await;
        node.orchestrator().reported(id, ComputeState::Completed).await;
    }
    assert_eq!(proxy.most_twins(), 1);
    node.nothing_is_left().await;
    assert!(containers::labelled(&node.docker, TWIN, node.node.id()).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_is_damaged_here_says_nothing_of_the_node() {
    let Some(proxy) = EngineProxy::open() else { return };
    let Some(node) = behind(&proxy).await else { return };
    proxy.breaks(Broken::Image(node.image.clone()));
    let report = fails(&node.node, node.work(&["out", "never"])).await;
    assert_eq!((report.cause, report.confirmed), (FailureCause::Refused, false), "{report:?}");
    assert!(report.message.contains("is damaged"), "{}", report.message);
    assert_eq!(probed(&node.node, 1).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_failures_costs_two_twins() {
    let Some(proxy) = EngineProxy::open() else { return };
    let Some(node) = behind(&proxy).await else { return };
    let mut ids = Vec::new();
    for _ in 0..20 {
        let mut work = node.work(&[]);
        work.resources.cpu = 0.01;
        work.task.engine.params.insert("WorkingDirectory".to_owned(), json!("/task"));
        ids.push(node.orchestrator().offer(work));
    }
    for id in &ids {
        node.orchestrator().reported(*id, ComputeState::AskForBidAccepted).await;
    }
    for id in &ids {
        node.orchestrator().want_state(*id, api_types::execution::DesiredState::Running, "");
    }
    for id in ids {
        let report = node.orchestrator().reported(id, ComputeState::Failed).await;
        assert_eq!(report.cause, FailureCause::Refused, "{report:?}");
    }
    let twins = proxy.twins_made();
    // Eight starts are made at a time, so that there is more than one burst.
    assert!((1..=6).contains(&twins), "{twins} twins for 20 failures");
    assert_eq!(proxy.most_twins(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_twin_that_a_killed_agent_left_is_removed_by_the_next() {
    let Some(mut node) = DockerNode::start().await else { return };
    node.node.kill_agent().await;
    let labels = [TWIN, containers::TASK].map(|it| (it.to_owned(), node.node.id().to_string()));
    let options = bollard::query_parameters::CreateContainerOptions::default();
    let body = bollard::models::ContainerCreateBody {
        image: Some(node.image.clone()),
        labels: Some(labels.into()),
        ..Default::default()
    };
    node.docker.create_container(Some(options), body).await.expect("a container");
    node.node.start_agent().await;
    node.nothing_is_left().await;
}

/// A runner that describes itself, and does nothing else while a file says so.
fn wrapper(directory: &Path, runner: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = directory.join("wasm-runner");
    let broken = directory.join("broken");
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = run ] && [ -e {} ]; then echo damaged >&2; exit 3; fi\nexec {runner} \"$@\"\n",
        broken.display()
    );
    std::fs::write(&path, script).expect("a script");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("its mode");
    path.display().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_fails_is_the_nodes_fault_and_a_request_finds_it_repaired() {
    let directory = tempfile::tempdir().unwrap();
    let runner = tokio::task::spawn_blocking(|| programs::binary("wasm-runner")).await.unwrap();
    let runner = wrapper(directory.path(), &runner.display().to_string());
    let node = Node::start(|settings| {
        settings.engines = vec![EngineType::Wasm];
        settings.wasm.runner = runner;
    })
    .await;
    assert_eq!(probed(&node, 1).await, None);
    std::fs::write(directory.path().join("broken"), "").unwrap();
    let report = fails(&node, wasm_work(&printing("x", "", 0), json!({}))).await;
    assert_eq!((report.cause, report.confirmed), (FailureCause::Node, true), "{report:?}");
    assert!(report.message.contains("damaged"), "{}", report.message);
    assert!(probed(&node, 2).await.is_some_and(|reason| reason.contains("damaged")));
    std::fs::remove_file(directory.path().join("broken")).unwrap();
    assert_eq!(probed(&node, 3).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_do_not_wait_for_a_probe_and_repeat_its_outcome_until_it_is_not_requested() {
    let directory = tempfile::tempdir().unwrap();
    let node = Node::start(|settings| {
        settings.engines = vec![EngineType::Noop];
        settings.data_dir = directory.path().join("data");
    })
    .await;
    assert!(node.orchestrator.joined(|_| true).await.probes);
    // The agent's own user may do anything where the tests run as root.
    let probe = directory.path().join("data/probe");
    std::fs::write(&probe, "in the way").unwrap();
    let begun = Instant::now();
    let failure = probed(&node, 5).await.expect("it cannot write there");
    assert!(failure.starts_with("cannot write to its data directory"), "{failure}");
    assert!(begun.elapsed() < Duration::from_secs(20));
    let repeated = node.orchestrator.later_heartbeat(|_| true).await;
    assert_eq!(repeated.probed.expect("it is repeated").probe, 5);
    node.orchestrator.request_probe(None);
    node.orchestrator.later_heartbeat(|it| it.probed.is_none()).await;
    std::fs::remove_file(&probe).unwrap();
    assert_eq!(probed(&node, 6).await, None);
}
