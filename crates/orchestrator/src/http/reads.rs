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
    turn_timeout: Duration,
}

// === impl Reader ===

impl Reader {
    pub(crate) fn new(reads: Arc<dyn Reads>) -> Self {
        Self::with_turns(reads, READS_AT_ONCE, TURN_TIMEOUT)
    }

    fn with_turns(reads: Arc<dyn Reads>, turns: usize, turn_timeout: Duration) -> Self {
        Self { reads, turns: Arc::new(Semaphore::new(turns)), turn_timeout }
    }

    /// Runs one question, which may be several queries.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Reads) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let turn = tokio::time::timeout(self.turn_timeout, Arc::clone(&self.turns).acquire_owned())
            .await
            .map_err(|_| Failure::ReadersBusy { waited: self.turn_timeout })?
            .map_err(|_| Failure::Internal { cause: "the readers' turns are closed".to_owned() })?;
        let reads = Arc::clone(&self.reads);
        let span = tracing::Span::current();
        let answer = tokio::task::spawn_blocking(move || {
            let _span = span.entered();
            // The turn ends with the query, not with a caller that went away.
            let _turn = turn;
            question(&*reads)
        });
        answer.await.map_err(|error| Failure::Internal { cause: format!("read: {error}") })?
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use axum::response::IntoResponse;

    use super::*;
    use crate::store::sqlite;

    #[tokio::test]
    async fn a_disk_that_hangs_makes_callers_come_again_and_is_asked_no_more_than_it_can_take() {
        let directory = tempfile::tempdir().unwrap();
        let (_store, reads) = sqlite::open(directory.path()).unwrap();
        let reader = Reader::with_turns(reads, 2, Duration::from_millis(50));
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
                    Ok(hangs.recv().is_err())
                };
                reader.run(question).await
            }));
        }
        for _ in 0..2 {
            while begun.try_recv().is_err() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        for _ in 0..3 {
            let failure = reader.run(|reads| Ok(reads.last_event()?)).await.unwrap_err();
            let response = failure.into_response();
            assert_eq!(
                (response.status().as_u16(), response.headers()["retry-after"].as_bytes()),
                (429, &b"1"[..])
            );
        }
        drop(disks);
        for task in hanging {
            assert!(task.await.unwrap().is_ok_and(|released| released));
        }
        assert_eq!(reader.run(|reads| Ok(reads.last_event()?)).await.ok(), Some(0));
    }
}
