//! Delays between attempts of something that keeps failing, with this daemon's randomness.

use std::time::Duration;

use agent_core::backoff;

use crate::host::mint;

/// [`backoff::Backoff`] that waits.
#[derive(Debug, Clone)]
pub(crate) struct Backoff(backoff::Backoff);

impl Backoff {
    pub(crate) const fn new(first: Duration, longest: Duration) -> Self {
        Self(backoff::Backoff::new(first, longest))
    }

    pub(crate) fn next_delay(&mut self) -> Duration {
        self.0.next_delay(mint::fraction())
    }

    pub(crate) async fn wait(&mut self) {
        tokio::time::sleep(self.next_delay()).await;
    }
}
