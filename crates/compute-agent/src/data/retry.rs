//! Retries of operations that may fail temporarily.

use std::future::Future;
use std::io;
use std::time::Duration;

use agent_core::execution::Failure;
use tracing::debug;

use crate::host::backoff::Backoff;
use crate::host::disk;

/// Why one attempt failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AttemptError {
    /// Another attempt may succeed.
    Transient(Failure),
    /// Another attempt would fail the same way.
    Permanent(Failure),
}

/// The number of attempts, and the delays between them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RetryPolicy {
    pub(crate) tries: u32,
    pub(crate) first: Duration,
    pub(crate) longest: Duration,
}

// === impl RetryPolicy ===

impl RetryPolicy {
    /// For network operations: about half a minute of delays, so that a service that restarts is
    /// back; after that another node may try.
    pub(crate) const NETWORK: Self =
        Self { tries: 7, first: Duration::from_millis(500), longest: Duration::from_secs(10) };

    /// For results: a run that went well is worth ten minutes of tries, since the task is not run
    /// again for them.
    pub(crate) const PUBLISHING: Self =
        Self { tries: 16, first: Duration::from_millis(500), longest: Duration::from_secs(60) };

    /// Retries until success, a permanent error, or the last attempt.
    pub(crate) async fn run<T, F: Future<Output = Result<T, AttemptError>>>(
        &self,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, Failure> {
        let mut backoff = self.backoff();
        for _ in 1..self.tries {
            match attempt().await {
                Ok(done) => return Ok(done),
                Err(AttemptError::Permanent(failure)) => return Err(failure),
                Err(AttemptError::Transient(failure)) => {
                    debug!(reason = failure.message, "an attempt failed; retrying");
                }
            }
            backoff.wait().await;
        }
        attempt().await.map_err(|error| match error {
            AttemptError::Permanent(failure) => failure,
            AttemptError::Transient(failure) => self.exhausted(failure),
        })
    }

    /// The failure of the last attempt, with the number of attempts.
    pub(crate) fn exhausted(&self, failure: Failure) -> Failure {
        let message = format!("{} (tried {} times)", failure.message, self.tries);
        Failure { message, ..failure }
    }

    pub(crate) fn backoff(&self) -> Backoff {
        Backoff::new(self.first, self.longest)
    }
}

// === impl AttemptError ===

impl AttemptError {
    pub(crate) fn transient(message: impl Into<String>) -> Self {
        Self::Transient(Failure::fetch(message))
    }

    pub(crate) fn permanent(message: impl Into<String>) -> Self {
        Self::Permanent(Failure::fetch(message))
    }

    /// The server says that it does not exist or is not allowed.
    pub(crate) fn definite(message: impl Into<String>) -> Self {
        Self::Permanent(Failure::definite(message))
    }

    /// An answer of an object store, in these words.
    pub(crate) fn of_store(error: &object_store::Error, message: String) -> Self {
        use object_store::Error as E;
        match error {
            E::NotFound { .. } | E::PermissionDenied { .. } | E::Unauthenticated { .. } => {
                Self::definite(message)
            }
            _ => Self::permanent(message),
        }
    }

    /// Errors of the node's own disk are permanent: waiting frees no space.
    pub(crate) fn of_disk(error: &io::Error) -> Self {
        Self::Permanent(disk::failure(error))
    }
}

impl From<io::Error> for AttemptError {
    fn from(error: io::Error) -> Self {
        Self::of_disk(&error)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const QUICK: RetryPolicy = RetryPolicy {
        tries: 3,
        first: Duration::from_millis(1),
        longest: Duration::from_millis(2),
    };

    #[tokio::test]
    async fn transient_errors_are_retried_up_to_the_limit() {
        let tries = Cell::new(0);
        let failure = QUICK
            .run(|| {
                tries.set(tries.get() + 1);
                async { Err::<(), _>(AttemptError::transient("no")) }
            })
            .await
            .unwrap_err();
        assert_eq!((tries.get(), failure.message.as_str()), (3, "no (tried 3 times)"));
    }

    #[tokio::test]
    async fn permanent_errors_are_returned_immediately() {
        let tries = Cell::new(0);
        let failure = QUICK
            .run(|| {
                tries.set(tries.get() + 1);
                async { Err::<(), _>(AttemptError::permanent("never")) }
            })
            .await
            .unwrap_err();
        assert_eq!((tries.get(), failure.message.as_str()), (1, "never"));
    }
}
