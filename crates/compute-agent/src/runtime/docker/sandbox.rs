//! A bounded pool of idle network sandboxes for tasks without network.
//!
//! The network namespace is half the cost of a container without network. So the agent creates
//! some in advance: containers with a tiny program of our own that holds a namespace open. A task
//! without network joins such a namespace (`NetworkMode: container:…`), which is leased to it
//! alone. Everything else is the task's own: processes, IPC, `/dev/shm`, files, limits.
//!
//! A slot goes to the next task only after the container of the last one has ended, which ends all
//! its processes, and after the program inside has verified that no socket is left (a connection
//! in TIME_WAIT would keep its port from the next task) and that the files that the Engine shares
//! along with the network (`/etc/hosts` and its like) are unchanged. The container itself may
//! still exist: it holds nothing of the network.
//!
//! Docker alone records the leases: in the network mode of the task's container, until that
//! container ends. A restarted agent reads them from there. When no slot is free, a task gets a
//! separate namespace in the ordinary way, without waiting.
//!
//! A stopping agent removes the idle sandboxes. If an agent does not come back, an idle sandbox
//! ends by itself after ten minutes without a request, and Docker removes it (`AutoRemove`); a
//! leased one has been notified, and waits for the next agent. If a sandbox ends although its task
//! was created but not started, the task's container is recreated with a separate namespace.
//!
//! A task with a network has a sandbox as well, on the Engine's bridge: there the program inside
//! restricts what the namespace reaches, and gives up its rights before any task joins. Such a
//! sandbox serves one task after another: in between, the program removes what connections left in
//! the kernel. A task for which none is ready waits until one is created, since it must not run
//! without restrictions.
//!
//! Rejected: passing namespaces by path, which the Engine does not support; reading
//! `/proc/PID/net` from the agent, which may itself run in a container; exec into the sandbox,
//! which costs more than the namespace.

mod containers;
mod guard;
mod host_addresses;
mod image;
mod inspect;
mod keeper;
mod pool;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent_core::execution::Failure;
use api_types::{ExecutionId, NodeId};
use bollard::query_parameters::InspectContainerOptions;
use tokio::sync::{Notify, RwLock};

use super::engine::Engine;
use super::error::{is_not_found, of_engine};
use crate::host::clock;
use crate::host::settings::Settings;
use crate::runtime::ExecutorError;
use guard::Guard;
pub(super) use host_addresses::Labels;
pub(super) use image::ensure as ensure_image;
use pool::Pool;

/// The prefix of a task's network mode when it joins a sandbox; the container's id follows.
pub(super) const JOINS: &str = "container:";

/// Marks a sandbox; its value is the id of the node whose agent created it.
pub(super) const LABEL_SANDBOX_OF: &str = "service.org/sandbox-of";

/// The same for sandboxes with a network.
pub(super) const LABEL_GUARDED_OF: &str = "service.org/guarded-sandbox-of";

/// The stamp of the policy of a sandbox with a network.
pub(super) const LABEL_POLICY: &str = "service.org/policy";

/// Time without a request after which a sandbox ends by itself.
#[derive(Debug, Clone, Copy)]
struct Silence {
    /// Its agent sends one every minute; a restart or upgrade takes less than this.
    idle: Duration,
    /// Longer than a node is down for repairs. If a leased sandbox ends nevertheless, its task
    /// keeps the namespace.
    leased: Duration,
}

/// The sandboxes of one node.
pub(crate) struct Sandboxes {
    node_id: NodeId,
    /// The maximum number of slots; 0 when the pool is disabled.
    size: usize,
    silence: Silence,
    /// What tasks reach from inside; none where they have no network at all.
    guard: Option<Guard>,
    pool: Mutex<Pool>,
    /// Shared by those who make sandboxes: one that is being made must not be taken for an ended
    /// one.
    making: RwLock<()>,
    /// Wakes the keeper.
    work: Notify,
}

// === impl Silence ===

impl Silence {
    const LONG: Self =
        Self { idle: Duration::from_secs(10 * 60), leased: Duration::from_secs(24 * 60 * 60) };

    /// The arguments of the program inside.
    fn arguments(self) -> Vec<String> {
        [self.idle, self.leased].map(|silence| silence.as_secs().to_string()).into()
    }
}

// === impl Sandboxes ===

impl Sandboxes {
    /// For tasks without network.
    pub(crate) fn new(node_id: NodeId, settings: &Settings) -> Self {
        Self {
            node_id,
            size: settings.docker.sandbox_pool.into(),
            silence: Silence::LONG,
            guard: None,
            pool: Mutex::default(),
            making: RwLock::default(),
            work: Notify::new(),
        }
    }

    /// For tasks with a network.
    pub(crate) fn guarded(node_id: NodeId, settings: &Settings) -> Self {
        let size = settings.docker.network_pool.into();
        let guard = Some(Guard::new(settings));
        Self { size, guard, ..Self::new(node_id, settings) }
    }

    /// A slot for this execution alone, made if none is free.
    pub(super) async fn lease_or_make(
        &self,
        docker: &Engine,
        id: ExecutionId,
    ) -> Result<String, ExecutorError> {
        if let Some(guard) = &self.guard {
            guard.is_used(clock::steady());
        }
        while let Some(sandbox) = self.lease(id) {
            if inspect::hold(docker, &sandbox).await.is_ok() {
                self.pool().held(&sandbox, clock::steady());
                return Ok(sandbox);
            }
            // It has ended.
            self.pool().discard(&sandbox);
            containers::remove(docker, vec![sandbox]).await;
        }
        let _making = self.making.read().await;
        let sandbox = self.make(docker).await.map_err(of_engine)?;
        let sandbox = restricted(docker, sandbox).await?;
        self.pool().add_leased(sandbox.clone(), id, clock::steady());
        self.work.notify_one();
        Ok(sandbox)
    }

    /// A sandbox outside the pool; the caller removes it.
    pub(super) async fn make_apart(
        &self,
        docker: &Engine,
        labels: Labels,
    ) -> Result<String, ExecutorError> {
        let sandbox = self.make_with(docker, labels).await.map_err(of_engine)?;
        restricted(docker, sandbox).await
    }

    /// A slot for this execution alone, as the id of its container; none when none is free.
    pub(super) fn lease(&self, id: ExecutionId) -> Option<String> {
        let leased = self.pool().lease(id, clock::steady());
        if leased.is_some() {
            self.work.notify_one();
        }
        leased
    }

    /// Whether the execution may keep the slot of a container that an earlier agent created before
    /// it crashed.
    pub(super) fn claim(&self, sandbox: &str, id: ExecutionId) -> bool {
        self.pool().claim(sandbox, id, clock::steady())
    }

    /// Every process of the execution has ended.
    pub(super) fn give_back(&self, id: ExecutionId) {
        if self.pool().give_back(id, clock::steady()) {
            self.work.notify_one();
        }
    }

    /// The Engine was unreachable, and unused sandboxes may have ended with it.
    pub(super) fn doubt(&self) {
        self.pool().doubt(clock::steady());
        self.work.notify_one();
    }

    /// Whether the sandbox can be joined.
    pub(super) async fn runs(&self, docker: &Engine, sandbox: &str) -> Result<bool, ExecutorError> {
        match docker.inspect_container(sandbox, None::<InspectContainerOptions>).await {
            Ok(found) => Ok(found.state.and_then(|state| state.running) == Some(true)),
            Err(error) if is_not_found(&error) => Ok(false),
            Err(error) => Err(of_engine(error)),
        }
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sandbox, once its program has confirmed the restrictions.
async fn restricted(docker: &Engine, sandbox: String) -> Result<String, ExecutorError> {
    let Err(reason) = inspect::hold(docker, &sandbox).await else { return Ok(sandbox) };
    containers::remove(docker, vec![sandbox]).await;
    Err(ExecutorError::Failed(Failure::node(format!(
        "cannot restrict what the task reaches by its network: {reason}; see 'Networks of tasks' in \
         the operations manual, or set allow_network = false on this node"
    ))))
}

#[cfg(test)]
mod tests;
