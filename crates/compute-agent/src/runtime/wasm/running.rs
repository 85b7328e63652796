//! A run in progress, or one that has ended, for everybody who waits for its end.

use agent_core::execution::{Exit, Failure};
use api_types::Timestamp;
use tokio_util::sync::CancellationToken;

use super::process::Ended;

#[derive(Clone)]
pub(super) struct Running {
    /// By the steady clock.
    pub(super) started_at: Timestamp,
    /// Its process was gone when this agent looked for it.
    pub(super) was_gone: bool,
    pub(super) stop: CancellationToken,
    pub(super) ended: Ended,
}

// === impl Running ===

impl Running {
    pub(super) fn has_ended(&self) -> bool {
        self.was_gone || self.ended.borrow().is_some()
    }

    pub(super) async fn end(mut self) -> Result<Exit, Failure> {
        match self.ended.wait_for(Option::is_some).await.map(|end| end.clone()) {
            Ok(Some(end)) => end,
            // Its watcher ended because the agent stops. The run continues, and everyone who waits
            // for its end is cancelled as well.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }
}
