//! Disk work outside the event loop, and the errors of this engine.

use std::io;

use agent_core::execution::Failure;

use crate::runtime::ExecutorError;

/// Runs disk work outside the event loop.
pub(super) async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, ExecutorError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(io::Error::other(error)))
        .map_err(|error| failed(format!("the node's disk: {error}")))
}

pub(super) fn unavailable(reason: String) -> ExecutorError {
    ExecutorError::Unreachable { engine: "wasm", reason }
}

pub(super) fn failed(reason: String) -> ExecutorError {
    ExecutorError::Failed(Failure::node(reason))
}
