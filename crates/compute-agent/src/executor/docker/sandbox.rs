//! A bounded pool of idle network sandboxes for tasks without network.
//!
//! Half of what a container without network costs is the making of its network namespace. So
//! some are made ahead: containers of a tiny program of our own that holds a namespace open. A
//! task without network joins the namespace of one (`NetworkMode: container:…`) that is lent to
//! it alone. Everything else is the task's own: processes, IPC, `/dev/shm`, files, limits.
//!
//! A place goes to the next task only after the container of the last one has ended, so that
//! every process of it is gone, and after the program inside has found no socket left (a
//! connection that lingers in TIME_WAIT would keep its port from the next task) and the files
//! that the Engine shares along with the network (`/etc/hosts` and its like) as they were. The
//! container itself may still be there: what is left of it has nothing of the network.
//!
//! Who holds which place stands in Docker alone: in the network mode of the task's container, as
//! long as that has not ended. An agent that comes back reads it there. When no place is free, a
//! task gets a namespace of its own in the ordinary way, at once.
//!
//! Rejected: handing namespaces over by path, which the Engine does not take; looking into
//! `/proc/PID/net` from the agent, which may run in a container itself; exec into the sandbox,
//! which costs more than the namespace.

mod image;
mod keeper;
mod look;
mod pool;

use std::sync::{Mutex, MutexGuard, PoisonError};

use api_types::{ExecutionId, NodeId};
use bollard::Docker;
use tokio::sync::Notify;

use crate::clock;
use pool::Pool;

/// What a task's network mode begins with when it joins a sandbox; the container's id follows.
pub(super) const JOINS: &str = "container:";

/// Marks a sandbox; its value is the id of the node whose agent made it.
pub(super) const LABEL_SANDBOX_OF: &str = "service.org/sandbox-of";

/// The sandboxes of one node.
pub(crate) struct Sandboxes {
    node_id: NodeId,
    /// Places at most; 0 when the pool is switched off.
    size: usize,
    pool: Mutex<Pool>,
    /// There is something to do for the keeper.
    work: Notify,
}

// === impl Sandboxes ===

impl Sandboxes {
    pub(crate) fn new(node_id: NodeId, size: u16) -> Self {
        Self { node_id, size: size.into(), pool: Mutex::default(), work: Notify::new() }
    }

    /// A place for this execution alone, as the id of its container; none when none is free.
    pub(super) fn lend(&self, id: ExecutionId) -> Option<String> {
        self.pool().lend(id, clock::now())
    }

    /// Whether the execution may keep the place that its container was made in, by an agent that
    /// died before it knew.
    pub(super) fn claim(&self, sandbox: &str, id: ExecutionId) -> bool {
        self.pool().claim(sandbox, id, clock::now())
    }

    /// Every process of the execution is gone.
    pub(super) fn give_back(&self, id: ExecutionId) {
        if self.pool().give_back(id, clock::now()) {
            self.work.notify_one();
        }
    }

    /// The Engine was away, and with it may have gone what nobody uses.
    pub(super) fn doubt(&self) {
        self.pool().doubt(clock::now());
        self.work.notify_one();
    }

    /// Starts again the place of a task that was made and not started, after the Engine came
    /// back without it; answers whether there is one.
    pub(super) async fn revive(&self, docker: &Docker, id: ExecutionId) -> bool {
        let Some(sandbox) = self.pool().place_of(id) else { return false };
        self.doubt();
        docker.start_container(&sandbox, None).await.is_ok()
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
