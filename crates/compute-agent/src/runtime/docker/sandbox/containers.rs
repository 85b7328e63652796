//! Sandboxes as containers of the Engine: their restrictions, their list, their removal.

use std::collections::HashMap;
use std::time::Duration;

use api_types::Timestamp;
use bollard::errors::Error;
use bollard::models::{ContainerSummary, HostConfig, HostConfigLogConfig};
use bollard::query_parameters::{ListContainersOptions, RemoveContainerOptions};
use futures_util::future::join_all;
use tracing::debug;

use super::super::engine::Engine;
use super::super::error::{chain, is_not_found};

/// The program and its kernel overhead use less than a tenth of it.
const MEMORY_BYTES: i64 = 16 << 20;

/// An agent starts immediately what it has created. That of another agent is left alone for as long
/// as an idle sandbox waits for its agent.
const NEVER_STARTED: Duration = Duration::from_secs(10 * 60);

/// It has two threads.
const MAX_PIDS: i64 = 8;

/// An unprivileged user, by number: the image has no user names.
pub(super) const NOBODY: &str = "65534:65534";

/// Who may restrict a network namespace, and afterwards become another user that keeps only
/// `NET_ADMIN`.
pub(super) const ROOT: &str = "0:0";
const CAPABILITIES: [&str; 4] = ["NET_ADMIN", "SETUID", "SETGID", "SETPCAP"];

/// On the Engine's bridge, with the rights to restrict what can be reached from there.
pub(super) fn guarded() -> HostConfig {
    HostConfig {
        network_mode: Some("bridge".to_owned()),
        cap_add: Some(CAPABILITIES.map(str::to_owned).into()),
        ..hardened()
    }
}

/// Without network and rights.
pub(super) fn hardened() -> HostConfig {
    HostConfig {
        network_mode: Some("none".to_owned()),
        memory: Some(MEMORY_BYTES),
        memory_swap: Some(MEMORY_BYTES),
        pids_limit: Some(MAX_PIDS),
        readonly_rootfs: Some(true),
        security_opt: Some(vec!["no-new-privileges".to_owned()]),
        cap_drop: Some(vec!["ALL".to_owned()]),
        // It ends by itself when its agent never returns, and nothing else would remove it.
        auto_remove: Some(true),
        log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
        ..Default::default()
    }
}

pub(super) async fn list(
    docker: &Engine,
    label: &str,
    value: &str,
) -> Result<Vec<ContainerSummary>, Error> {
    find(docker, HashMap::from([("label", format!("{label}={value}"))])).await
}

/// Sandboxes of whatever agent that were created long ago and never started, because their agent died
/// in between and has not come back. None of them ends by itself.
pub(super) async fn abandoned(
    docker: &Engine,
    label: &str,
    now: Timestamp,
) -> Result<Vec<String>, Error> {
    let filters = HashMap::from([("label", label.to_owned()), ("status", "created".to_owned())]);
    let created = find(docker, filters).await?;
    let old = created.into_iter().filter(|sandbox| {
        let made = sandbox.created.and_then(|seconds| u64::try_from(seconds).ok());
        made.is_some_and(|made| Timestamp::ZERO + Duration::from_secs(made) + NEVER_STARTED < now)
    });
    Ok(old.filter_map(|sandbox| sandbox.id).collect())
}

async fn find(
    docker: &Engine,
    filters: HashMap<&str, String>,
) -> Result<Vec<ContainerSummary>, Error> {
    let filters = filters.into_iter().map(|(key, value)| (key.to_owned(), vec![value])).collect();
    let options = ListContainersOptions { all: true, filters: Some(filters), ..Default::default() };
    docker.list_containers(Some(options)).await
}

/// The next reconciliation finds what could not be removed.
pub(super) async fn remove(docker: &Engine, sandboxes: Vec<String>) {
    let removals = sandboxes.into_iter().map(async |sandbox| {
        let options = RemoveContainerOptions { v: true, force: true, link: false };
        match docker.remove_container(&sandbox, Some(options)).await {
            Err(error) if !is_not_found(&error) => {
                debug!(
                    sandbox,
                    error = chain(&error),
                    "cannot remove a network sandbox; retrying later"
                );
            }
            _ => {}
        }
    });
    join_all(removals).await;
}
