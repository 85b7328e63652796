//! Queries of the store, off the threads that serve connections.
//!
//! Queries that agents need for their work never queue behind queries of users, and users take turns:
//! a caller that searches for long leaves readers to others.

use std::sync::Arc;
use std::time::Duration;

use control_plane::store::{Reads, StoreError, sqlite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::AbortOnDropHandle;

use crate::shares::permit_queue::{PermitQueue, QueuedPermit};
use crate::shares::{Owner, Pool, Refusals, Refused};

/// Concurrent queries of agents, which are short.
const AGENTS_AT_ONCE: usize = 2;

/// Concurrent queries of everybody else. Each holds a thread and a database connection, so that there
/// are as many as connections that agents leave. Beyond it requests queue.
const USERS_AT_ONCE: usize = sqlite::CONNECTIONS - AGENTS_AT_ONCE;

/// Requests of users that queue.
const PLACES: usize = 8192;

const POOL: Pool = Pool {
    name: "reader",
    what: "readers of the state database",
    serves_nodes: false,
    open_has_all: true,
};

/// How long a request queues before it is refused with 429.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub(crate) struct Reader {
    reads: Arc<dyn Reads>,
    users: PermitQueue,
    agents: Arc<Semaphore>,
    queue_timeout: Duration,
}

/// Whose work waits for the answer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AskedBy {
    User,
    Agent,
}

/// A read in progress.
enum Reading {
    OfUser { _turn: QueuedPermit },
    OfAgent { _permit: OwnedSemaphorePermit },
}

/// Why a read failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("all readers of the state database were busy for {} ms", .waited.as_millis())]
    Busy { waited: Duration },
    #[error("{0}")]
    TooMany(Refused),
    /// Only a bug in this program.
    #[error("a read of the state database failed: {cause}")]
    Failed { cause: String },
}

// === impl Reader ===

impl Reader {
    pub(crate) fn new(reads: Arc<dyn Reads>, refusals: &Refusals) -> Self {
        let users = PermitQueue::new(POOL, USERS_AT_ONCE, PLACES, refusals);
        Self::with_queue(reads, users, QUEUE_TIMEOUT)
    }

    fn with_queue(reads: Arc<dyn Reads>, users: PermitQueue, queue_timeout: Duration) -> Self {
        let agents = Arc::new(Semaphore::new(AGENTS_AT_ONCE));
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
        let (reader, owner) = (self.clone(), Owner::current());
        let span = tracing::Span::current();
        let read = async move {
            let (queue_timeout, reads) = (reader.queue_timeout, Arc::clone(&reader.reads));
            let permit = tokio::time::timeout(queue_timeout, reader.turn(asked_by, &owner))
                .await
                .map_err(|_| ReadError::Busy { waited: queue_timeout })??;
            let answer = tokio::task::spawn_blocking(move || {
                let _span = span.entered();
                // The query itself holds the permit, even if its caller goes away.
                let _turn = permit;
                question(&*reads)
            });
            answer.await.map_err(|error| ReadError::Failed { cause: error.to_string() })?
        };
        // A separate task: a caller that is not polled, like a response without a reader, would
        // be handed a permit and keep it from everybody else.
        AbortOnDropHandle::new(tokio::spawn(read))
            .await
            .map_err(|error| ReadError::Failed { cause: error.to_string() })?
    }

    async fn turn(&self, asked_by: AskedBy, owner: &Owner) -> Result<Reading, ReadError> {
        match asked_by {
            AskedBy::User => {
                let turn = self.users.take(owner).await.map_err(ReadError::TooMany)?;
                Ok(Reading::OfUser { _turn: turn })
            }
            AskedBy::Agent => {
                let permit = Arc::clone(&self.agents).acquire_owned().await;
                let permit = permit.map_err(|error| ReadError::Failed { cause: error.to_string() });
                Ok(Reading::OfAgent { _permit: permit? })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use axum::response::IntoResponse;
    use control_plane::store::sqlite;

    use super::*;
    use crate::http::error::Failure;

    fn with_readers(reads: Arc<dyn Reads>, users: usize, queue_timeout: Duration) -> Reader {
        let users = PermitQueue::new(POOL, users, 100, &Refusals::default());
        Reader::with_queue(reads, users, queue_timeout)
    }

    #[tokio::test]
    async fn one_caller_that_searches_for_long_leaves_readers_to_others() {
        let directory = tempfile::tempdir().unwrap();
        let (_store, reads) = sqlite::open(directory.path()).unwrap();
        let reader = with_readers(reads, 4, Duration::from_secs(60));
        let (disk, hangs) = mpsc::channel::<()>();
        let hangs = Arc::new(std::sync::Mutex::new(hangs));
        let mut searches = Vec::new();
        for _ in 0..20 {
            let (reader, hangs) = (reader.clone(), Arc::clone(&hangs));
            let question =
                move |_: &dyn Reads| Ok::<_, ReadError>(hangs.lock().unwrap().recv().is_err());
            let one = Owner::unknown("192.0.2.1".parse().ok());
            let search = one.within(async move { reader.run(AskedBy::User, question).await });
            searches.push(tokio::spawn(search));
        }
        while reader.users.permits().used() < 2 {
            tokio::task::yield_now().await;
        }
        let last_event = |reads: &dyn Reads| Ok::<_, ReadError>(reads.last_event()?);
        for _ in 0..10 {
            let read = reader.run(AskedBy::User, last_event);
            assert_eq!(Owner::service().within(read).await.ok(), Some(0));
        }
        assert!(searches.iter().all(|search| !search.is_finished()));
        drop(disk);
        for search in searches {
            assert!(search.await.unwrap().is_ok_and(|released| released));
        }
    }

    #[tokio::test]
    async fn a_hanging_disk_refuses_callers_and_gets_a_bounded_number_of_queries() {
        let directory = tempfile::tempdir().unwrap();
        let (_store, reads) = sqlite::open(directory.path()).unwrap();
        let reader = with_readers(reads, 2, Duration::from_millis(50));
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
                Owner::everyone().within(reader.run(AskedBy::User, question)).await
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
        let reader = with_readers(reads, 1, Duration::from_millis(500));
        let (disk, hangs) = mpsc::channel::<()>();
        let question = move |_: &dyn Reads| Ok::<_, ReadError>(hangs.recv().is_err());
        let everyone = Owner::everyone;
        let mut first = Box::pin(everyone().within(reader.run(AskedBy::User, question)));
        let last_event = |reads: &dyn Reads| Ok::<_, ReadError>(reads.last_event()?);
        let mut stalled = Box::pin(everyone().within(reader.run(AskedBy::User, last_event)));
        assert!(futures_util::poll!(&mut first).is_pending());
        assert!(futures_util::poll!(&mut stalled).is_pending(), "it queues");
        drop(disk);
        first.await.unwrap();
        everyone().within(reader.run(AskedBy::User, last_event)).await.unwrap();
        stalled.await.unwrap();
    }
}
