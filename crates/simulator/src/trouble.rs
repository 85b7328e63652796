//! What has befallen a node, so that it may be blamed for something.

use std::time::Duration;

use api_types::Timestamp;

/// How long an agent takes to recover from a lost message: the request times out, and is repeated
/// after the longest delay, perhaps for a new session first.
const RECOVERY: Duration = Duration::from_secs(15);

/// Longer than a run.
const FOR_EVER: Duration = Duration::from_hours(24);

#[derive(Debug, Default)]
pub(super) struct Trouble {
    /// Something failed on it, or it did not answer an offer in time for its own reasons.
    has_failed: bool,
    /// Its process was away, or messages were lost, until this moment.
    away_until: Timestamp,
}

// === impl Trouble ===

impl Trouble {
    /// What runs or starts there may fail.
    pub(super) fn fails(&mut self) {
        self.has_failed = true;
    }

    /// Its process does not act, or messages are lost, until this moment.
    pub(super) fn is_away(&mut self, until: Timestamp) {
        self.away_until = self.away_until.max(until + RECOVERY);
    }

    pub(super) fn leaves(&mut self, now: Timestamp) {
        self.is_away(now + FOR_EVER);
    }

    pub(super) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Whether it could not answer what was sent then.
    pub(super) fn was_away(&self, since: Timestamp) -> bool {
        self.away_until > since
    }
}
