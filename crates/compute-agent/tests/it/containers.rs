//! The containers that an agent made for its executions and their networks.

use std::collections::HashMap;

use api_types::NodeId;
use bollard::Docker;
use bollard::models::ContainerSummary;
use bollard::query_parameters::{ListContainersOptions, RemoveContainerOptions};

/// The label of a container that runs a task; its value is the node, as with the other two.
pub(crate) const TASK: &str = "service.org/node";

/// The label of a sandbox without a network.
pub(crate) const SANDBOX: &str = "service.org/sandbox-of";

/// The label of a sandbox that restricts what its task reaches.
pub(crate) const GUARDED_SANDBOX: &str = "service.org/guarded-sandbox-of";

/// The containers of the node with this label, whether they run or not.
pub(crate) async fn labelled(docker: &Docker, label: &str, node: NodeId) -> Vec<ContainerSummary> {
    let options = ListContainersOptions {
        all: true,
        filters: Some(HashMap::from([("label".to_owned(), vec![format!("{label}={node}")])])),
        ..Default::default()
    };
    docker.list_containers(Some(options)).await.expect("list containers")
}

/// Removes all that the node left in the Docker Engine. Its agent must have ended.
pub(crate) async fn remove_all(node: NodeId) {
    let Ok(docker) = Docker::connect_with_unix_defaults() else { return };
    // A sandbox outlasts the tasks in it.
    for label in [TASK, GUARDED_SANDBOX, SANDBOX] {
        for container in labelled(&docker, label, node).await {
            let options = RemoveContainerOptions { force: true, ..Default::default() };
            // It may be gone already.
            let _ = docker.remove_container(&container.id.expect("an id"), Some(options)).await;
        }
    }
}
