//! Maintains the pool: reads it from Docker, fills, inspects and shrinks it.

use std::collections::HashMap;
use std::time::Duration;

use bollard::errors::Error;
use bollard::models::{ContainerCreateBody, ContainerSummaryStateEnum};
use bollard::query_parameters::CreateContainerOptions;
use futures_util::FutureExt;
use futures_util::future::join_all;
use tracing::{debug, info, warn};

use super::super::engine::Engine;
use super::super::error::chain;
use super::super::{LABEL_EXECUTION, LABEL_NODE};
use super::containers::{NOBODY, ROOT, abandoned, guarded, hardened, list, remove};
use super::host_addresses::Labels;
use super::inspect::{hold, inspect};
use super::pool::Seen;
use super::{JOINS, LABEL_GUARDED_OF, LABEL_POLICY, LABEL_SANDBOX_OF, Sandboxes, image};
use crate::host::{clock, mint};

/// Interval at which the pool is reconciled with Docker and every idle sandbox is inspected, which
/// also prevents it from ending by itself.
const ROUND: Duration = Duration::from_secs(60);

/// Delay between two inspections of a sandbox with lingering connections.
const INSPECT_AGAIN: Duration = Duration::from_secs(1);

/// Delay before the next attempt after the Engine failed to create a sandbox.
const RETRY: Duration = Duration::from_secs(5);

// === impl Sandboxes ===

impl Sandboxes {
    /// Maintains the pool, until the agent stops. `docker` returns the Engine once it has
    /// responded.
    pub(crate) async fn keep(&self, docker: impl Fn() -> Option<Engine>) {
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
        docker: &Engine,
        compared_at: &mut Option<tokio::time::Instant>,
    ) -> Result<(), Error> {
        let is_round = compared_at.is_none_or(|at| at.elapsed() >= ROUND);
        if is_round {
            let alone = self.making.write().await;
            let seen = self.see(docker).await?;
            let mut unneeded = self.pool().reconcile(&seen, clock::steady());
            // Whatever the wall clock says, none of these is one that this agent is about to start.
            unneeded.extend(abandoned(docker, self.label(), clock::now()).await?);
            drop(alone);
            unneeded.extend(self.take_outdated(docker, &seen).await?);
            remove(docker, unneeded).await;
            self.pool().doubt(clock::steady());
            *compared_at = Some(tokio::time::Instant::now());
        }
        self.inspect_cooling(docker).await;
        self.hold_leased(docker).await;
        let surplus = self.take_surplus(is_round);
        remove(docker, surplus).await;
        while self.kept() < self.wanted() {
            let _making = self.making.read().await;
            let sandbox = self.make(docker).await?;
            self.pool().add(sandbox.clone(), clock::steady());
            self.inspect_cooling(docker).await;
            if !self.pool().has(&sandbox) {
                // Another one would end like it.
                break;
            }
        }
        Ok(())
    }

    /// Sandboxes whose restrictions are no longer those of the settings and the node, for removal.
    ///
    /// Every round, as the node's addresses may change; a restarted agent, with other settings,
    /// does it before any sandbox that it finds gets a task.
    async fn take_outdated(&self, docker: &Engine, seen: &Seen) -> Result<Vec<String>, Error> {
        let Some(guard) = &self.guard else { return Ok(Vec::new()) };
        if self.wanted() == 0 && seen.sandboxes.is_empty() {
            return Ok(Vec::new());
        }
        let policy = guard.policy(docker, self.labels()).await?;
        Ok(self.pool().take_outdated(seen, &policy.stamp()))
    }

    /// Sandboxes without a task that are too many, for removal.
    fn take_surplus(&self, is_round: bool) -> Vec<String> {
        let (wanted, mut pool) = (self.wanted(), self.pool());
        match &self.guard {
            Some(_) => {
                // A task that talks to a slow peer leaves its sandbox busy for a minute; many such
                // tasks must not leave many.
                let mut surplus = pool.take_busy(wanted);
                // A task that found none ready had one made: as many as run at a time come
                // together, and stay while they do.
                if is_round && wanted > 0 {
                    surplus.extend(pool.take_spare(wanted));
                }
                if wanted == 0 {
                    surplus.extend(pool.take_idle(usize::MAX));
                }
                surplus
            }
            None => {
                let surplus = pool.len().saturating_sub(wanted);
                pool.take_idle(surplus)
            }
        }
    }

    /// Slots of the pool: all of them, or those without a task where a task waits if there is none.
    fn kept(&self) -> usize {
        match &self.guard {
            Some(_) => self.pool().free(),
            None => self.pool().len(),
        }
    }

    /// Slots to keep.
    fn wanted(&self) -> usize {
        match &self.guard {
            Some(guard) if !guard.is_warm(clock::steady()) => 0,
            Some(_) | None => self.size,
        }
    }

    fn pause(&self) -> Duration {
        let pool = self.pool();
        if pool.awaits_hold() || !pool.cooling().is_empty() { INSPECT_AGAIN } else { ROUND }
    }

    /// Removes the idle sandboxes, and notifies the others to wait for the next agent.
    ///
    /// Twice: the Engine may still be creating one for the cancelled keeper.
    pub(crate) async fn close(&self, docker: &Engine) {
        for _ in 0..2 {
            let _alone = self.making.write().await;
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
        // One that does not confirm has ended.
        join_all(leased.iter().map(|sandbox| hold(docker, sandbox).map(drop))).await;
    }

    /// Notifies sandboxes with longer leases.
    async fn hold_leased(&self, docker: &Engine) {
        let due = self.pool().to_hold(clock::steady());
        let holds = due.into_iter().map(async |sandbox| {
            // One that does not confirm has ended, and its namespace lives on in its task.
            let _ = hold(docker, &sandbox).await;
            self.pool().held(&sandbox, clock::steady());
        });
        join_all(holds).await;
    }

    /// Inspects every returned sandbox, concurrently.
    async fn inspect_cooling(&self, docker: &Engine) {
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

    async fn see(&self, docker: &Engine) -> Result<Seen, Error> {
        // Sandboxes first: one that is joined in between is then found held.
        let mut seen = Seen::default();
        for sandbox in list(docker, self.label(), &self.node_id.to_string()).await? {
            let runs = sandbox.state == Some(ContainerSummaryStateEnum::RUNNING);
            let stamp = sandbox.labels.unwrap_or_default().remove(LABEL_POLICY);
            seen.stamps.extend(sandbox.id.clone().zip(stamp));
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

    fn label(&self) -> &'static str {
        match &self.guard {
            Some(_) => LABEL_GUARDED_OF,
            None => LABEL_SANDBOX_OF,
        }
    }

    fn labels(&self) -> Labels {
        HashMap::from([(self.label().to_owned(), self.node_id.to_string())])
    }

    /// The caller holds `making`.
    pub(super) async fn make(&self, docker: &Engine) -> Result<String, Error> {
        self.make_with(docker, self.labels()).await
    }

    pub(super) async fn make_with(
        &self,
        docker: &Engine,
        mut labels: Labels,
    ) -> Result<String, Error> {
        let image = image::ensure(docker).await?;
        let options = CreateContainerOptions {
            name: Some(format!("sandbox-{}", mint::request_id())),
            ..Default::default()
        };
        let mut arguments = self.silence.arguments();
        let (user, host_config) = match &self.guard {
            None => (NOBODY, hardened()),
            Some(guard) => {
                let policy = guard.policy(docker, labels.clone()).await?;
                labels.insert(LABEL_POLICY.to_owned(), policy.stamp());
                arguments.extend([policy.denied, policy.allowed]);
                (ROOT, guarded())
            }
        };
        let body = ContainerCreateBody {
            image: Some(image),
            cmd: Some(arguments),
            user: Some(user.to_owned()),
            labels: Some(labels),
            // Requests come on its standard input, from one agent after another.
            open_stdin: Some(true),
            stdin_once: Some(false),
            host_config: Some(host_config),
            ..Default::default()
        };
        let sandbox = docker.create_container(Some(options), body).await?.id;
        match docker.start_container(&sandbox).await {
            Ok(()) => Ok(sandbox),
            Err(error) => {
                remove(docker, vec![sandbox]).await;
                Err(error)
            }
        }
    }
}
