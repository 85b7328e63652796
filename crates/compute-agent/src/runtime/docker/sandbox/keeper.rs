//! Maintains the pool: reads it from Docker, fills, inspects and shrinks it.

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
use super::inspect::{hold, inspect};
use super::pool::Seen;
use super::{JOINS, LABEL_SANDBOX_OF, Sandboxes, image};
use crate::host::{clock, mint};

/// Interval at which the pool is reconciled with Docker and every idle sandbox is inspected, which
/// also prevents it from ending by itself.
const ROUND: Duration = Duration::from_secs(60);

/// Delay between two inspections of a sandbox with lingering connections.
const INSPECT_AGAIN: Duration = Duration::from_secs(1);

/// Delay before the next attempt after the Engine failed to create a sandbox.
const RETRY: Duration = Duration::from_secs(5);

/// The program and its kernel overhead use less than a tenth of it.
const MEMORY_BYTES: i64 = 16 << 20;

/// It has two threads.
const MAX_PIDS: i64 = 8;

/// An unprivileged user, by number: the image has no user names.
const USER: &str = "65534:65534";

// === impl Sandboxes ===

impl Sandboxes {
    /// Maintains the pool, until the agent stops. `docker` returns the Engine once it has
    /// responded.
    pub(crate) async fn keep(&self, docker: impl Fn() -> Option<Docker>) {
        let mut compared_at = None;
        let mut complained = false;
        loop {
            let pause = match docker() {
                None => RETRY,
                Some(docker) => match self.turn(&docker, &mut compared_at).await {
                    Ok(()) => {
                        complained = false;
                        self.pause()
                    }
                    Err(error) => {
                        // An unreachable Engine is reported elsewhere; for the rest one warning is
                        // enough.
                        let error = chain(&error);
                        if complained {
                            debug!(error, "cannot maintain the network sandboxes");
                        } else {
                            warn!(error, "cannot maintain the network sandboxes; retrying");
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
            let unneeded = self.pool().reconcile(&seen, clock::steady());
            remove(docker, unneeded).await;
            self.pool().doubt(clock::steady());
            *compared_at = Some(tokio::time::Instant::now());
        }
        self.inspect_cooling(docker).await;
        self.hold_leased(docker).await;
        let surplus = self.pool().len().saturating_sub(self.size);
        let surplus = self.pool().take_idle(surplus);
        remove(docker, surplus).await;
        while self.pool().len() < self.size {
            let sandbox = self.make(docker).await?;
            self.pool().add(sandbox, clock::steady());
            self.inspect_cooling(docker).await;
        }
        Ok(())
    }

    fn pause(&self) -> Duration {
        let pool = self.pool();
        if pool.awaits_hold() || !pool.cooling().is_empty() { INSPECT_AGAIN } else { ROUND }
    }

    /// Removes the idle sandboxes, and notifies the others to wait for the next agent.
    ///
    /// Twice: the Engine may still be creating one for the cancelled keeper.
    pub(crate) async fn close(&self, docker: &Docker) {
        for _ in 0..2 {
            let seen = match self.see(docker).await {
                Ok(seen) => seen,
                Err(error) => {
                    let error = chain(&error);
                    return warn!(
                        error,
                        "cannot remove the network sandboxes; they end by themselves"
                    );
                }
            };
            let mut free = self.pool().reconcile(&seen, clock::steady());
            free.extend(self.pool().take_free(&seen));
            remove(docker, free).await;
        }
        let leased = self.pool().leased();
        join_all(leased.iter().map(|sandbox| hold(docker, sandbox))).await;
    }

    /// Notifies sandboxes with longer leases.
    async fn hold_leased(&self, docker: &Docker) {
        let due = self.pool().to_hold(clock::steady());
        let holds = due.into_iter().map(async |sandbox| {
            // One that does not confirm has ended, and its namespace lives on in its task.
            hold(docker, &sandbox).await;
            self.pool().held(&sandbox, clock::steady());
        });
        join_all(holds).await;
    }

    /// Inspects every returned sandbox, concurrently.
    async fn inspect_cooling(&self, docker: &Docker) {
        let cooling = self.pool().cooling();
        let looks = cooling.into_iter().map(async |sandbox| {
            let found = inspect(docker, &sandbox).await;
            if self.pool().inspected(&sandbox, &found, clock::steady()) {
                info!(sandbox, ?found, "replacing a network sandbox");
                remove(docker, vec![sandbox]).await;
            }
        });
        join_all(looks).await;
    }

    async fn see(&self, docker: &Docker) -> Result<Seen, Error> {
        // Sandboxes first: one that is joined in between is then found held.
        let mut seen = Seen::default();
        for sandbox in list(docker, LABEL_SANDBOX_OF, &self.node_id.to_string()).await? {
            let runs = sandbox.state == Some(ContainerSummaryStateEnum::RUNNING);
            seen.sandboxes.extend(sandbox.id.map(|id| (id, runs)));
        }
        for task in list(docker, LABEL_NODE, &self.node_id.to_string()).await? {
            let id = task.labels.as_ref().and_then(|labels| labels.get(LABEL_EXECUTION));
            let Some(id) = id.and_then(|id| id.parse().ok()) else { continue };
            let mode = task.host_config.and_then(|config| config.network_mode);
            // An ended container never starts again, and holds nothing.
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
            cmd: Some(self.silence.arguments()),
            user: Some(USER.to_owned()),
            labels: Some(HashMap::from(labels)),
            // Requests come on its standard input, from one agent after another.
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
        // It ends by itself when its agent never returns, and nothing else would remove it.
        auto_remove: Some(true),
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

/// The next reconciliation finds what could not be removed.
async fn remove(docker: &Docker, sandboxes: Vec<String>) {
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
