//! Whether this process leads, as everything outside the driver's thread sees it.
//!
//! The driver publishes until when its last commit is trusted. What bypasses the driver (reads,
//! heartbeats, verdicts on credentials, lines of streams) checks that before it leaves.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use control_plane::clock::boot_nanos;
use control_plane::step::Trust;
use tokio_util::sync::CancellationToken;

#[derive(Debug)]
pub(crate) struct Lead {
    trust: Trust,
    /// By CLOCK_BOOTTIME, in nanoseconds.
    trusted_until: AtomicU64,
    /// Whether the process has lost the lead or gives it up: it never comes back.
    over: AtomicBool,
    resigning: CancellationToken,
}

// === impl Lead ===

impl Lead {
    pub(super) fn new(trust: Trust) -> Self {
        let (trusted_until, over) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { trust, trusted_until, over, resigning: CancellationToken::new() }
    }

    /// Whether another process may take over while this one runs.
    pub(crate) fn can_be_lost(&self) -> bool {
        match self.trust {
            Trust::Always => false,
            Trust::AfterCommit => true,
        }
    }

    /// Whether this process certainly speaks for the store.
    pub(crate) fn is_certain(&self) -> bool {
        match self.trust {
            Trust::Always => true,
            Trust::AfterCommit => {
                !self.over.load(Ordering::Acquire)
                    && boot_nanos() < self.trusted_until.load(Ordering::Acquire)
            }
        }
    }

    /// Returns once it has not been certain for this long.
    pub(crate) async fn is_uncertain_for(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        loop {
            let left = match self.trust {
                Trust::Always => return std::future::pending().await,
                Trust::AfterCommit => {
                    let end = self.trusted_until.load(Ordering::Acquire).saturating_add(nanos);
                    end.saturating_sub(boot_nanos())
                }
            };
            if left == 0 || self.over.load(Ordering::Acquire) {
                return;
            }
            tokio::time::sleep(Duration::from_nanos(left)).await;
        }
    }

    pub(super) fn trust_until(&self, boot: u64) {
        self.trusted_until.store(boot, Ordering::Release);
    }

    /// Nothing that needs the lead leaves any more.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// Asks the driver to give the lead up, which ends it.
    pub(crate) fn resign(&self) {
        self.end();
        self.resigning.cancel();
    }

    pub(super) async fn is_resigned(&self) {
        self.resigning.cancelled().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_certain_and_a_lease_until_it_ends() {
        let locked = Lead::new(Trust::Always);
        assert!(locked.is_certain() && !locked.can_be_lost());
        let leased = Lead::new(Trust::AfterCommit);
        assert!(leased.can_be_lost() && !leased.is_certain(), "nothing is committed yet");
        leased.trust_until(boot_nanos() + 60_000_000_000);
        assert!(leased.is_certain());
        leased.trust_until(boot_nanos());
        assert!(!leased.is_certain());
        leased.trust_until(u64::MAX);
        leased.end();
        assert!(!leased.is_certain(), "whatever is committed later");
    }

    #[tokio::test]
    async fn a_lease_that_is_not_renewed_is_uncertain_for_some_time_and_a_lock_never_is() {
        const TIME: Duration = Duration::from_millis(300);
        let leased = Lead::new(Trust::AfterCommit);
        leased.trust_until(boot_nanos() + 200_000_000);
        let begun = std::time::Instant::now();
        leased.is_uncertain_for(TIME).await;
        assert!(begun.elapsed() >= Duration::from_millis(480), "{:?}", begun.elapsed());
        let locked = Lead::new(Trust::Always);
        let early = tokio::time::timeout(TIME, locked.is_uncertain_for(Duration::ZERO)).await;
        assert!(early.is_err());
    }
}
