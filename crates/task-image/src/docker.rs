//! Access of demo and tests to the Docker Engine: to load the image, and to list and remove the
//! containers of nodes.

use std::collections::HashMap;
use std::time::Duration;

use bollard::Docker;
use bollard::query_parameters::{ListContainersOptionsBuilder, RemoveContainerOptionsBuilder};

/// The label of an agent's containers; its value is the node id.
pub const NODE_LABEL: &str = "service.org/node";

/// The labels of an agent's network sandboxes, without and with a network; their value is the node
/// id.
pub const SANDBOX_LABELS: [&str; 2] = ["service.org/sandbox-of", "service.org/guarded-sandbox-of"];

/// The label with the execution id.
pub const EXECUTION_LABEL: &str = "service.org/execution";

/// Time limit for the Docker Engine to report its version.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// No Docker Engine responds; `Display` says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no Docker Engine responds at {host}: {reason}\n\
     Install it (Debian, Ubuntu: `apt install docker.io`; others: https://docs.docker.com/engine/install/),\n\
     start it (`systemctl start docker`), and give this user access (`usermod -aG docker $USER`).\n\
     For another address set DOCKER_HOST, as in `DOCKER_HOST=unix:///run/user/1000/docker.sock`."
)]
pub struct NoDocker {
    pub host: String,
    pub reason: String,
}

/// A container with a node's label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelledContainer {
    pub id: String,
    pub node_id: String,
    pub execution_id: String,
    /// `created`, `running`, `exited`…
    pub state: String,
}

/// Connects to the Docker Engine at `DOCKER_HOST` or the default socket, and checks that it responds.
pub async fn connect() -> Result<Docker, NoDocker> {
    let host = std::env::var("DOCKER_HOST")
        .ok()
        .filter(|host| !host.is_empty())
        .unwrap_or_else(|| "unix:///var/run/docker.sock".to_owned());
    let missing = |reason: String| NoDocker { host: host.clone(), reason };
    let docker = Docker::connect_with_host(&host).map_err(|error| missing(cause(&error)))?;
    tokio::time::timeout(RESPONSE_TIMEOUT, docker.negotiate_version())
        .await
        .map_err(|_| missing(format!("no response within {} s", RESPONSE_TIMEOUT.as_secs())))?
        .map_err(|error| missing(cause(&error)))
}

/// The root cause of an error, which is more specific than its wrappers.
fn cause(error: &bollard::errors::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

/// The containers of a node, including ended ones.
pub async fn containers_of_node(
    docker: &Docker,
    node_id: &str,
) -> Result<Vec<LabelledContainer>, bollard::errors::Error> {
    containers_labelled(docker, NODE_LABEL, node_id).await
}

/// The network sandboxes of a node, idle or in use.
pub async fn sandboxes_of_node(
    docker: &Docker,
    node_id: &str,
) -> Result<Vec<LabelledContainer>, bollard::errors::Error> {
    let [without, with] = SANDBOX_LABELS;
    let mut found = containers_labelled(docker, without, node_id).await?;
    found.extend(containers_labelled(docker, with, node_id).await?);
    Ok(found)
}

async fn containers_labelled(
    docker: &Docker,
    label: &str,
    value: &str,
) -> Result<Vec<LabelledContainer>, bollard::errors::Error> {
    let label = format!("{label}={value}");
    let filters = HashMap::from([("label", vec![label.as_str()])]);
    let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
    let found = docker.list_containers(Some(options)).await?;
    Ok(found
        .into_iter()
        .map(|container| {
            let labels = container.labels.unwrap_or_default();
            let label = |name: &str| labels.get(name).cloned().unwrap_or_default();
            LabelledContainer {
                id: container.id.unwrap_or_default(),
                node_id: label(NODE_LABEL),
                execution_id: label(EXECUTION_LABEL),
                state: container.state.map(|state| state.to_string()).unwrap_or_default(),
            }
        })
        .collect())
}

/// Removes all containers of a node, including running ones and sandboxes; returns their number.
pub async fn remove_containers_of_node(
    docker: &Docker,
    node_id: &str,
) -> Result<usize, bollard::errors::Error> {
    let mut containers = containers_of_node(docker, node_id).await?;
    containers.extend(sandboxes_of_node(docker, node_id).await?);
    for container in &containers {
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        match docker.remove_container(&container.id, Some(options)).await {
            // Another process has removed the container, or is removing it.
            Ok(())
            | Err(bollard::errors::Error::DockerResponseServerError {
                status_code: 404 | 409,
                ..
            }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(containers.len())
}
