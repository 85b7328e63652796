//! Queries of the store, off the threads that serve connections.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::error::Failure;
use crate::store::Reads;

/// Queries that run at the same time. Each is short and holds a thread and a connection to the
/// database; more would only wait for the same disk. Beyond it requests wait their turn.
const READS_AT_ONCE: usize = 16;

/// How long a request waits for its turn; then it is told to come again (429).
const TURN_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub(crate) struct Reader {
    reads: Arc<dyn Reads>,
    turns: Arc<Semaphore>,
}

// === impl Reader ===

impl Reader {
    pub(crate) fn new(reads: Arc<dyn Reads>) -> Self {
        Self { reads, turns: Arc::new(Semaphore::new(READS_AT_ONCE)) }
    }

    /// Runs one question, which may be several queries.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Reads) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let turn = tokio::time::timeout(TURN_TIMEOUT, Arc::clone(&self.turns).acquire_owned())
            .await
            .map_err(|_| Failure::ReadersBusy { waited: TURN_TIMEOUT })?
            .map_err(|_| Failure::Internal { cause: "the readers' turns are closed".to_owned() })?;
        let reads = Arc::clone(&self.reads);
        let answer = tokio::task::spawn_blocking(move || {
            // The turn ends with the query, not with a caller that went away.
            let _turn = turn;
            question(&*reads)
        });
        answer.await.map_err(|error| Failure::Internal { cause: format!("read: {error}") })?
    }
}
