//! The addresses of the machine that the Engine runs on.
//!
//! The agent may run in a container, or elsewhere. So a container with the host's network reads
//! them and ends.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::Duration;

use bollard::errors::Error;
use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{AttachContainerOptions, CreateContainerOptions};
use futures_util::StreamExt;

use super::super::engine::Engine;
use super::containers::{NOBODY, hardened, remove};
use super::image;
use crate::host::mint;

/// The container reads two files; starting it on a busy machine takes seconds.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The labels of the container.
pub(in crate::runtime::docker) type Labels = HashMap<String, String>;

pub(super) async fn read(docker: &Engine, labels: Labels) -> Result<BTreeSet<IpAddr>, Error> {
    let image = image::ensure(docker).await?;
    let options = CreateContainerOptions {
        name: Some(format!("sandbox-{}", mint::request_id())),
        ..Default::default()
    };
    let body = ContainerCreateBody {
        image: Some(image),
        cmd: Some(vec!["addresses".to_owned()]),
        user: Some(NOBODY.to_owned()),
        labels: Some(labels),
        host_config: Some(HostConfig {
            network_mode: Some("host".to_owned()),
            // An Engine that maps users refuses the host's network otherwise.
            userns_mode: Some("host".to_owned()),
            ..hardened()
        }),
        ..Default::default()
    };
    let container = docker.create_container(Some(options), body).await?.id;
    let text = match tokio::time::timeout(TIMEOUT, output(docker, &container)).await {
        Ok(text) => text,
        Err(_) => Err(Error::RequestTimeoutError),
    };
    // It is gone already, unless something failed.
    remove(docker, vec![container]).await;
    let addresses: BTreeSet<IpAddr> = text?.lines().filter_map(|line| line.parse().ok()).collect();
    match addresses.is_empty() {
        false => Ok(addresses),
        // Every machine has a loopback address.
        true => Err(Error::DockerStreamError {
            error: "a container with the host's network sees no address".to_owned(),
        }),
    }
}

/// What the container prints, from its start to its end.
async fn output(docker: &Engine, container: &str) -> Result<String, Error> {
    let options = AttachContainerOptions { stream: true, stdout: true, ..Default::default() };
    let mut attached = docker.attach_container(container, Some(options)).await?;
    docker.start_container(container).await?;
    let mut text = String::new();
    while let Some(piece) = attached.output.next().await {
        text.push_str(&String::from_utf8_lossy(&piece?.into_bytes()));
    }
    Ok(text)
}
