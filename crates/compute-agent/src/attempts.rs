//! Trying again what may go better the next time.

use std::future::Future;
use std::io;
use std::time::Duration;

use tracing::debug;

use crate::backoff::Backoff;
use crate::disk;
use crate::execution::Failure;

/// Why one try came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Setback {
    /// Another try may do better.
    Passing(Failure),
    /// Another try would end the same way.
    Lasting(Failure),
}

/// How often something is tried, and how long the waits between are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    pub(crate) tries: u32,
    pub(crate) first: Duration,
    pub(crate) longest: Duration,
}

// === impl Patience ===

impl Patience {
    /// For what lies on the network: about half a minute of waits, so that a service that is
    /// being restarted is there again; then another node may try.
    pub(crate) const NETWORK: Self =
        Self { tries: 7, first: Duration::from_millis(500), longest: Duration::from_secs(10) };

    /// Tries until it works, the setback is a lasting one, or the tries are used up.
    pub(crate) async fn persist<T, F: Future<Output = Result<T, Setback>>>(
        &self,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, Failure> {
        let mut backoff = self.backoff();
        for _ in 1..self.tries {
            match attempt().await {
                Ok(done) => return Ok(done),
                Err(Setback::Lasting(failure)) => return Err(failure),
                Err(Setback::Passing(failure)) => {
                    debug!(
                        reason = failure.message,
                        "a try came to nothing; there will be another"
                    );
                }
            }
            backoff.wait().await;
        }
        attempt().await.map_err(|setback| match setback {
            Setback::Lasting(failure) => failure,
            Setback::Passing(failure) => self.given_up(failure),
        })
    }

    /// The failure of the last try, which says that there were others.
    pub(crate) fn given_up(&self, failure: Failure) -> Failure {
        let message = format!("{} (tried {} times)", failure.message, self.tries);
        Failure { message, ..failure }
    }

    pub(crate) fn backoff(&self) -> Backoff {
        Backoff::new(self.first, self.longest)
    }
}

// === impl Setback ===

impl Setback {
    pub(crate) fn passing(message: impl Into<String>) -> Self {
        Self::Passing(Failure::node(message))
    }

    pub(crate) fn lasting(message: impl Into<String>) -> Self {
        Self::Lasting(Failure::node(message))
    }

    /// What the node's own disk refuses is told at once: waiting makes no room.
    pub(crate) fn of_disk(error: &io::Error) -> Self {
        Self::Lasting(disk::failure(error))
    }
}

impl From<io::Error> for Setback {
    fn from(error: io::Error) -> Self {
        Self::of_disk(&error)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const QUICK: Patience =
        Patience { tries: 3, first: Duration::from_millis(1), longest: Duration::from_millis(2) };

    #[tokio::test]
    async fn what_passes_is_tried_again_so_many_times() {
        let tries = Cell::new(0);
        let failure = QUICK
            .persist(|| {
                tries.set(tries.get() + 1);
                async { Err::<(), _>(Setback::passing("no")) }
            })
            .await
            .unwrap_err();
        assert_eq!((tries.get(), failure.message.as_str()), (3, "no (tried 3 times)"));
    }

    #[tokio::test]
    async fn what_lasts_is_told_at_once() {
        let tries = Cell::new(0);
        let failure = QUICK
            .persist(|| {
                tries.set(tries.get() + 1);
                async { Err::<(), _>(Setback::lasting("never")) }
            })
            .await
            .unwrap_err();
        assert_eq!((tries.get(), failure.message.as_str()), (1, "never"));
    }
}
