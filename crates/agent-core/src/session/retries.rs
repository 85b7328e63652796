//! How often a session tries again.

use core::time::Duration;

use crate::backoff::Backoff;

/// Delays between attempts to reach the orchestrator. The longest is short, so that nodes reconnect
/// to a restarted orchestrator before it considers them lost.
pub(super) const RETRY_FIRST: Duration = Duration::from_millis(100);
pub(super) const RETRY_LONGEST: Duration = Duration::from_secs(5);

pub(super) fn retries() -> Backoff {
    Backoff::new(RETRY_FIRST, RETRY_LONGEST)
}
