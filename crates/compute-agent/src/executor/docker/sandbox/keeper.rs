//! Keeping the pool: it is read from Docker, filled, looked through and shrunk here.

use std::collections::HashMap;
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use bollard::models::{
    ContainerCreateBody, ContainerSummary, ContainerSummaryStateEnum, HostConfig,
    HostConfigLogConfig,
};
use bollard::query_parameters::{
    CreateContainerOptions, ListContainersOptions, RemoveContainerOptions,
};
use futures_util::future::join_all;
use tracing::{debug, info, warn};

use super::super::error::{chain, is_not_found};
use super::super::{LABEL_EXECUTION, LABEL_NODE};
use super::pool::Seen;
use super::{JOINS, LABEL_SANDBOX_OF, Sandboxes, image, look};
use crate::{clock, mint};

/// How often the pool is compared with Docker, and every idle place is looked into. A sandbox
/// that nobody looks into for half an hour ends by itself.
const ROUND: Duration = Duration::from_secs(60);

/// Between two looks at a place where connections linger.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Before it is tried again to make what the Engine would not make.
const RETRY: Duration = Duration::from_secs(5);

/// The program and what the kernel counts for it take less than a tenth of it.
const MEMORY_BYTES: i64 = 16 << 20;

/// It has two threads.
const MAX_PIDS: i64 = 8;

/// Nobody, by number: the image has no names.
const USER: &str = "65534:65534";

// === impl Sandboxes ===

impl Sandboxes {
    /// Keeps the pool, for ever. `docker` answers with the Engine once that has answered.
    pub(crate) async fn keep(&self, docker: impl Fn() -> Option<Docker>) {
        let mut compared_at = None;
        let mut complained = false;
        loop {
            let pause = match docker() {
                None => RETRY,
                Some(docker) => match self.turn(&docker, &mut compared_at).await {
                    Ok(()) => {
                        complained = false;
                        if self.pool().cooling().is_empty() { ROUND } else { LOOK_AGAIN }
                    }
                    Err(error) => {
                        // The Engine may be away, which others tell; once is enough for the rest.
                        let error = chain(&error);
                        if complained {
                            debug!(error, "the network sandboxes cannot be kept");
                        } else {
                            warn!(error, "the network sandboxes cannot be kept; trying again");
                        }
                        complained = true;
                        compared_at = None;
                        RETRY
                    }
                },
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.work.notified() => {}
            }
        }
    }

    async fn turn(
        &self,
        docker: &Docker,
        compared_at: &mut Option<tokio::time::Instant>,
    ) -> Result<(), Error> {
        if compared_at.is_none_or(|at| at.elapsed() >= ROUND) {
            let seen = self.see(docker).await?;
            let unneeded = self.pool().reconcile(&seen, clock::now());
            remove(docker, unneeded).await;
            self.pool().doubt(clock::now());
            *compared_at = Some(tokio::time::Instant::now());
        }
        self.look_through(docker).await;
        let surplus = self.pool().len().saturating_sub(self.size);
        let surplus = self.pool().take_idle(surplus);
        remove(docker, surplus).await;
        while self.pool().len() < self.size {
            let sandbox = self.make(docker).await?;
            self.pool().add(sandbox, clock::now());
            self.look_through(docker).await;
        }
        Ok(())
    }

    /// Looks into every place that was given back, at once.
    async fn look_through(&self, docker: &Docker) {
        let cooling = self.pool().cooling();
        let looks = cooling.into_iter().map(async |sandbox| {
            let found = look::into_sandbox(docker, &sandbox).await;
            if self.pool().looked(&sandbox, &found, clock::now()) {
                info!(sandbox, ?found, "a network sandbox is replaced");
                remove(docker, vec![sandbox]).await;
            }
        });
        join_all(looks).await;
    }

    async fn see(&self, docker: &Docker) -> Result<Seen, Error> {
        // Sandboxes first: one that is joined meanwhile is found held.
        let mut seen = Seen::default();
        for sandbox in list(docker, LABEL_SANDBOX_OF, &self.node_id.to_string()).await? {
            let runs = sandbox.state == Some(ContainerSummaryStateEnum::RUNNING);
            seen.sandboxes.extend(sandbox.id.map(|id| (id, runs)));
        }
        for task in list(docker, LABEL_NODE, &self.node_id.to_string()).await? {
            let id = task.labels.as_ref().and_then(|labels| labels.get(LABEL_EXECUTION));
            let Some(id) = id.and_then(|id| id.parse().ok()) else { continue };
            let mode = task.host_config.and_then(|config| config.network_mode);
            // One that has ended is never started again, and holds nothing.
            let mode = mode.filter(|_| task.state != Some(ContainerSummaryStateEnum::EXITED));
            let sandbox = mode.and_then(|mode| mode.strip_prefix(JOINS).map(str::to_owned));
            seen.executions.insert(id, sandbox);
        }
        Ok(seen)
    }

    async fn make(&self, docker: &Docker) -> Result<String, Error> {
        let image = image::ensure(docker).await?;
        let options = CreateContainerOptions {
            name: Some(format!("sandbox-{}", mint::request_id())),
            ..Default::default()
        };
        let labels = [(LABEL_SANDBOX_OF.to_owned(), self.node_id.to_string())];
        let body = ContainerCreateBody {
            image: Some(image),
            user: Some(USER.to_owned()),
            labels: Some(HashMap::from(labels)),
            // Questions come on its standard input, from one agent after the other.
            open_stdin: Some(true),
            stdin_once: Some(false),
            host_config: Some(host_config()),
            ..Default::default()
        };
        let sandbox = docker.create_container(Some(options), body).await?.id;
        match docker.start_container(&sandbox, None).await {
            Ok(()) => Ok(sandbox),
            Err(error) => {
                remove(docker, vec![sandbox]).await;
                Err(error)
            }
        }
    }
}

fn host_config() -> HostConfig {
    HostConfig {
        network_mode: Some("none".to_owned()),
        memory: Some(MEMORY_BYTES),
        memory_swap: Some(MEMORY_BYTES),
        pids_limit: Some(MAX_PIDS),
        readonly_rootfs: Some(true),
        security_opt: Some(vec!["no-new-privileges".to_owned()]),
        cap_drop: Some(vec!["ALL".to_owned()]),
        log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
        ..Default::default()
    }
}

pub(super) async fn list(
    docker: &Docker,
    label: &str,
    value: &str,
) -> Result<Vec<ContainerSummary>, Error> {
    let options = ListContainersOptions {
        all: true,
        filters: Some(HashMap::from([("label".to_owned(), vec![format!("{label}={value}")])])),
        ..Default::default()
    };
    docker.list_containers(Some(options)).await
}

/// What cannot be removed is found again by the next comparison.
async fn remove(docker: &Docker, sandboxes: Vec<String>) {
    for sandbox in sandboxes {
        let options = RemoveContainerOptions { v: true, force: true, link: false };
        match docker.remove_container(&sandbox, Some(options)).await {
            Err(error) if !is_not_found(&error) => {
                debug!(sandbox, error = chain(&error), "a network sandbox is removed later");
            }
            _ => {}
        }
    }
}
