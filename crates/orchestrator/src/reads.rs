//! Queries of the store, off the threads that serve connections.
//!
//! Queries that agents need for their work never queue behind queries of users.

use std::sync::Arc;
use std::time::Duration;

use control_plane::store::{Reads, StoreError, sqlite};
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;

/// Concurrent queries of agents, which are short.
const AGENTS_AT_ONCE: usize = 2;

/// Concurrent queries of everybody else. Each holds a thread and a database connection, so that there
/// are as many as connections that agents leave. Beyond it requests queue.
const USERS_AT_ONCE: usize = sqlite::CONNECTIONS - AGENTS_AT_ONCE;

/// How long a request queues before it is refused with 429.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub(crate) struct Reader {
    reads: Arc<dyn Reads>,
    users: Arc<Semaphore>,
    agents: Arc<Semaphore>,
    queue_timeout: Duration,
}

/// Whose work waits for the answer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AskedBy {
    User,
    Agent,
}

/// Why a read failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("all readers of the state database were busy for {waited:?}")]
    Busy { waited: Duration },
    /// Only a bug in this program.
    #[error("a read of the state database failed: {cause}")]
    Failed { cause: String },
}

// === impl Reader ===

impl Reader {
    pub(crate) fn new(reads: Arc<dyn Reads>) -> Self {
        Self::with_permits(reads, USERS_AT_ONCE, QUEUE_TIMEOUT)
    }

    fn with_permits(reads: Arc<dyn Reads>, users: usize, queue_timeout: Duration) -> Self {
        let [users, agents] =
            [users, AGENTS_AT_ONCE].map(|at_once| Arc::new(Semaphore::new(at_once)));
        Self { reads, users, agents, queue_timeout }
    }

    /// Runs one read, which may be several queries.
    pub(crate) async fn run<T, E>(
        &self,
        asked_by: AskedBy,
        question: impl FnOnce(&dyn Reads) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<ReadError> + Send + 'static,
    {
        let permits = match asked_by {
            AskedBy::User => &self.users,
            AskedBy::Agent => &self.agents,
        };
        let (permits, reads) = (Arc::clone(permits), Arc::clone(&self.reads));
        let queue_timeout = self.queue_timeout;
        let span = tracing::Span::current();
        let read = async move {
            let permit = tokio::time::timeout(queue_timeout, permits.acquire_owned())
                .await
                .map_err(|_| ReadError::Busy { waited: queue_timeout })?
                .map_err(|_| ReadError::Failed {
                    cause: "the readers' semaphore is closed".to_owned(),
                })?;
            let answer = tokio::task::spawn_blocking(move || {
                let _span = span.entered();
                // The query itself holds the permit, even if its caller goes away.
                let _turn = permit;
                question(&*reads)
            });
            answer.await.map_err(|error| ReadError::Failed { cause: error.to_string() })?
        };
        // A task of its own: a caller that is not polled, like a response that nobody reads, would
        // be handed a permit and keep it from everybody else.
        AbortOnDropHandle::new(tokio::spawn(read))
            .await
            .map_err(|error| ReadError::Failed { cause: error.to_string() })?
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use axum::response::IntoResponse;
    use control_plane::store::sqlite;

    use super::*;
    use crate::http::error::Failure;

    #[tokio::test]
    async fn a_hanging_disk_refuses_callers_and_gets_a_bounded_number_of_queries() {
        let directory = tempfile::tempdir().unwrap();
        let (_store, reads) = sqlite::open(directory.path()).unwrap();
        let reader = Reader::with_permits(reads, 2, Duration::from_millis(50));
        let (began, begun) = mpsc::channel();
        let mut hanging = Vec::new();
        let mut disks = Vec::new();
        for _ in 0..2 {
            let (disk, hangs) = mpsc::channel::<()>();
            disks.push(disk);
            let (reader, began) = (reader.clone(), began.clone());
            hanging.push(tokio::spawn(async move {
                let question = move |_: &dyn Reads| {
                    began.send(()).ok();
                    Ok::<_, ReadError>(hangs.recv().is_err())
                };
                reader.run(AskedBy::User, question).await
            }));
        }
        for _ in 0..2 {
            while begun.try_recv().is_err() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        for _ in 0..3 {
            let asked =
                reader.run::<_, Failure>(AskedBy::User, |reads| Ok(reads.last_event()?)).await;
            let response = asked.unwrap_err().into_response();
            assert_eq!(
                (response.status().as_u16(), response.headers()["retry-after"].as_bytes()),
                (429, &b"1"[..])
            );
        }
        // Users have every permit that is theirs, and none of the agents'.
        let read = reader.run::<_, ReadError>(AskedBy::Agent, |reads| Ok(reads.last_event()?));
        assert_eq!(read.await.ok(), Some(0));
        drop(disks);
        for task in hanging {
            assert!(task.await.unwrap().is_ok_and(|released| released));
        }
        let read = reader.run::<_, ReadError>(AskedBy::User, |reads| Ok(reads.last_event()?));
        assert_eq!(read.await.ok(), Some(0));
    }

    #[tokio::test]
    async fn a_caller_that_is_not_polled_holds_no_permit() {
        let directory = tempfile::tempdir().unwrap();
        let (_store, reads) = sqlite::open(directory.path()).unwrap();
        let reader = Reader::with_permits(reads, 1, Duration::from_millis(500));
        let (disk, hangs) = mpsc::channel::<()>();
        let question = move |_: &dyn Reads| Ok::<_, ReadError>(hangs.recv().is_err());
        let mut first = Box::pin(reader.run(AskedBy::User, question));
        let last_event = |reads: &dyn Reads| Ok::<_, ReadError>(reads.last_event()?);
        let mut stalled = Box::pin(reader.run(AskedBy::User, last_event));
        assert!(futures_util::poll!(&mut first).is_pending());
        assert!(futures_util::poll!(&mut stalled).is_pending(), "it queues");
        drop(disk);
        first.await.unwrap();
        reader.run(AskedBy::User, last_event).await.unwrap();
        stalled.await.unwrap();
    }
}
