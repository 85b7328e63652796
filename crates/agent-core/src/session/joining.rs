//! When the agent joins, and when it joins again after its session has ended.

use core::time::Duration;

use api_types::Timestamp;

use super::retries::retries;
use crate::backoff::{Backoff, Fraction};

/// A session that ends sooner counts as a failed attempt; otherwise two agents with the same ID
/// would end each other's sessions in a tight loop.
const SHORTEST_SESSION: Duration = Duration::from_secs(5);

/// The attempts of one process to join. It begins with one immediately.
#[derive(Debug)]
pub struct Joining {
    /// Between attempts that fail.
    attempts: Backoff,
    /// Between sessions that end.
    sessions: Backoff,
    joined_at: Timestamp,
}

/// Why a session has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionEnd {
    /// The orchestrator does not know it, or no longer does.
    Refused,
    /// The node has another record now, such as other engines.
    RecordChanged,
}

// === impl Joining ===

impl Default for Joining {
    fn default() -> Self {
        Self { attempts: retries(), sessions: retries(), joined_at: Timestamp::ZERO }
    }
}

impl Joining {
    pub fn joined(&mut self, now: Timestamp) {
        self.attempts.reset();
        self.joined_at = now;
    }

    /// An attempt failed; the delay before the next one.
    pub fn failed(&mut self, fraction: Fraction) -> Duration {
        self.attempts.next_delay(fraction)
    }

    /// The session ended; the delay before the next attempt to join.
    pub fn ended(&mut self, end: SessionEnd, now: Timestamp, fraction: Fraction) -> Duration {
        match end {
            SessionEnd::RecordChanged => Duration::ZERO,
            SessionEnd::Refused => {
                if now.since(self.joined_at) >= SHORTEST_SESSION {
                    self.sessions.reset();
                }
                self.sessions.next_delay(fraction)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::retries::{RETRY_FIRST, RETRY_LONGEST};
    use super::*;

    const NOON: Timestamp = Timestamp(1_700_000_000_000_000_000);

    #[test]
    fn attempts_that_fail_come_ever_more_rarely_and_a_new_session_begins_anew() {
        let mut joining = Joining::default();
        assert_eq!(joining.failed(1.0), RETRY_FIRST);
        assert_eq!(joining.failed(1.0), RETRY_FIRST * 2);
        let longest = (0..20).map(|_| joining.failed(1.0)).max();
        assert_eq!(longest, Some(RETRY_LONGEST));
        joining.joined(NOON);
        assert_eq!(joining.failed(1.0), RETRY_FIRST);
    }

    #[test]
    fn sessions_that_end_at_once_are_joined_again_ever_more_rarely() {
        let (mut joining, mut now) = (Joining::default(), NOON);
        for expected in [1, 2, 4] {
            joining.joined(now);
            now = now + Duration::from_secs(1);
            assert_eq!(joining.ended(SessionEnd::Refused, now, 1.0), RETRY_FIRST * expected);
        }
        joining.joined(now);
        now = now + SHORTEST_SESSION;
        assert_eq!(joining.ended(SessionEnd::Refused, now, 1.0), RETRY_FIRST);
    }

    #[test]
    fn a_changed_record_is_sent_at_once() {
        let mut joining = Joining::default();
        joining.joined(NOON);
        assert_eq!(joining.ended(SessionEnd::RecordChanged, NOON, 1.0), Duration::ZERO);
        // It was no failure.
        assert_eq!(joining.ended(SessionEnd::Refused, NOON, 1.0), RETRY_FIRST);
    }
}
