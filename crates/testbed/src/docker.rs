//! The Docker Engine of this machine, as demo and tests use it themselves: to load their image,
//! and to see and remove what a node left behind.

use std::collections::HashMap;
use std::time::Duration;

use bollard::Docker;
use bollard::query_parameters::{ListContainersOptionsBuilder, RemoveContainerOptionsBuilder};

/// The label by which an agent marks its containers; its value is the node id.
pub const NODE_LABEL: &str = "service.org/node";

/// The label of an agent's network sandboxes; its value is the node id.
pub const SANDBOX_LABEL: &str = "service.org/sandbox-of";

/// The label that carries the execution id.
pub const EXECUTION_LABEL: &str = "service.org/execution";

/// How long an answering engine may take to say its version.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// No engine answers; `Display` says what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no Docker Engine answers at {host}: {reason}\n\
     Install it (Debian, Ubuntu: `apt install docker.io`; others: https://docs.docker.com/engine/install/),\n\
     start it (`systemctl start docker`), and let this user reach it (`usermod -aG docker $USER`).\n\
     An engine elsewhere is named by DOCKER_HOST, as in `DOCKER_HOST=unix:///run/user/1000/docker.sock`."
)]
pub struct NoDocker {
    pub host: String,
    pub reason: String,
}

/// A container that bears a node's label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelledContainer {
    pub id: String,
    pub node_id: String,
    pub execution_id: String,
    /// `created`, `running`, `exited`…
    pub state: String,
}

/// Connects to the engine that `DOCKER_HOST` names, or to the usual socket, and makes sure that
/// it answers.
pub async fn connect() -> Result<Docker, NoDocker> {
    let host = std::env::var("DOCKER_HOST")
        .ok()
        .filter(|host| !host.is_empty())
        .unwrap_or_else(|| "unix:///var/run/docker.sock".to_owned());
    let missing = |reason: String| NoDocker { host: host.clone(), reason };
    let docker = Docker::connect_with_host(&host).map_err(|error| missing(cause(&error)))?;
    tokio::time::timeout(ANSWER_TIMEOUT, docker.negotiate_version())
        .await
        .map_err(|_| missing(format!("silent for {} s", ANSWER_TIMEOUT.as_secs())))?
        .map_err(|error| missing(cause(&error)))
}

/// What is at the bottom of an error: here that says more than what wraps it.
fn cause(error: &bollard::errors::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

/// Containers of one node, ended ones included.
pub async fn containers_of_node(
    docker: &Docker,
    node_id: &str,
) -> Result<Vec<LabelledContainer>, bollard::errors::Error> {
    containers_labelled(docker, NODE_LABEL, node_id).await
}

/// The idle network sandboxes of one node, and those in use.
pub async fn sandboxes_of_node(
    docker: &Docker,
    node_id: &str,
) -> Result<Vec<LabelledContainer>, bollard::errors::Error> {
    containers_labelled(docker, SANDBOX_LABEL, node_id).await
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

/// Removes every container of one node, running ones and sandboxes included; answers how many
/// there were.
pub async fn remove_containers_of_node(
    docker: &Docker,
    node_id: &str,
) -> Result<usize, bollard::errors::Error> {
    let mut containers = containers_of_node(docker, node_id).await?;
    containers.extend(sandboxes_of_node(docker, node_id).await?);
    for container in &containers {
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        match docker.remove_container(&container.id, Some(options)).await {
            // Somebody else is removing it, or has.
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
