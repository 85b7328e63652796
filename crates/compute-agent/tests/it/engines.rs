//! A Docker Engine that is missing, appears and disappears.

use api_types::engine::EngineType;
use api_types::execution::ComputeState;

use crate::image;
use crate::node::{Node, work};

#[tokio::test(flavor = "multi_thread")]
async fn docker_is_offered_while_reachable_and_its_tasks_wait_for_it() {
    let Some(docker) = image::docker().await else { return };
    let image = image::ensure(&docker).await;
    let engine = std::env::var("DOCKER_HOST")
        .ok()
        .and_then(|host| host.strip_prefix("unix://").map(str::to_owned))
        .unwrap_or_else(|| "/var/run/docker.sock".to_owned());
    let links = tempfile::tempdir().unwrap();
    // A symbolic link to its socket makes the Engine reachable or not.
    let link = links.path().join("docker.sock");
    let node = Node::start(|settings| {
        settings.engines = vec![EngineType::Docker, EngineType::Noop];
        settings.docker.host = format!("unix://{}", link.display());
    })
    .await;
    let with = |wanted: &'static [EngineType]| {
        move |request: &api_types::protocol::SessionRequest| {
            request.compute_node_info.execution_engines == wanted
        }
    };
    node.orchestrator.joined(with(&[EngineType::Noop])).await;
    let task = |steps: &[&str]| {
        work(EngineType::Docker, serde_json::json!({"Image": image, "Parameters": steps}))
    };
    let early = node.orchestrator.offer(task(&[]));
    let report = node.orchestrator.reported(early, ComputeState::AskForBidRejected).await;
    assert_eq!(report.message, "engine 'docker' does not answer on this node");

    std::os::unix::fs::symlink(&engine, &link).unwrap();
    node.orchestrator.joined(with(&[EngineType::Docker, EngineType::Noop])).await;
    let id = node.orchestrator.run(task(&["sleep", "1000", "out", "survived"])).await;
    node.orchestrator.reported(id, ComputeState::BidAccepted).await;

    std::fs::remove_file(&link).unwrap();
    node.orchestrator.joined(with(&[EngineType::Noop])).await;
    std::os::unix::fs::symlink(&engine, &link).unwrap();
    let report = node.orchestrator.reported(id, ComputeState::Completed).await;
    assert_eq!(report.run_output.unwrap().stdout, "survived\n");
    let name = format!("execution-{id}");
    crate::node::eventually("the container to be removed", async || {
        docker.inspect_container(&name, None).await.is_err()
    })
    .await;
}
