//! The set of all tasks that one agent has spawned; they end with it.

use std::future::Future;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The spawned tasks of one agent: they end with it, however it ends.
#[derive(Debug, Clone)]
pub(crate) struct Tasks {
    runtime: Handle,
    tracker: TaskTracker,
    stopping: CancellationToken,
}

// === impl Tasks ===

impl Tasks {
    pub(crate) fn new(runtime: Handle) -> Self {
        Self { runtime, tracker: TaskTracker::new(), stopping: CancellationToken::new() }
    }

    /// Runs until it is done or the agent ends. The future must be safe to cancel at any point.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stopping = self.stopping.clone();
        let task = async move {
            stopping.run_until_cancelled_owned(task).await;
        };
        self.tracker.spawn_on(task, &self.runtime);
    }

    /// Cancels every task and waits until all have ended.
    pub(crate) async fn stop(&self) {
        self.stopping.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }

    pub(crate) fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }
}
