//! The pace of heartbeats: when the next one leaves, and for how long it waits for its answer.

use core::time::Duration;

use api_types::protocol::{HeartbeatAnswer, SessionAnswer};

/// Bounds on the interval that the orchestrator requests.
const LEAST: Duration = Duration::from_millis(100);
const MOST: Duration = Duration::from_secs(60);

/// The time limit of one attempt is this part of the lease, so that several attempts fit into it:
/// on a broken connection, the kernel retransmits ever more rarely.
const TRIES_PER_LEASE: u32 = 6;

/// The interval is divided by this after a failed attempt.
const RETRIES_PER_INTERVAL: u32 = 4;

/// The pace of the heartbeats of one session. Lease and interval are those of the latest answer, so
/// that the orchestrator can change them at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    lease: Duration,
    interval: Duration,
    /// Heartbeats that failed since the last answer.
    missed: u32,
}

// === impl Pace ===

impl Pace {
    pub fn new(answer: &SessionAnswer) -> Self {
        Self::from_seconds(answer.lease_seconds, answer.heartbeat_seconds)
    }

    fn from_seconds(lease_seconds: u64, heartbeat_seconds: u64) -> Self {
        Self {
            lease: Duration::from_secs(lease_seconds),
            interval: Duration::from_secs(heartbeat_seconds).clamp(LEAST, MOST),
            missed: 0,
        }
    }

    /// The delay before the next heartbeat.
    pub fn delay(&self) -> Duration {
        if self.missed == 0 { self.interval } else { self.interval / RETRIES_PER_INTERVAL }
    }

    /// For how long a heartbeat waits for its answer.
    pub fn time_limit(&self) -> Duration {
        (self.lease / TRIES_PER_LEASE).max(LEAST)
    }

    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// A heartbeat was answered. Returns how many failed before it.
    pub fn answered(&mut self, answer: &HeartbeatAnswer) -> u32 {
        let before = self.missed;
        *self = Self::from_seconds(answer.lease_seconds, answer.heartbeat_seconds);
        before
    }

    /// A heartbeat failed. Returns how many have failed in a row.
    pub fn missed(&mut self) -> u32 {
        self.missed = self.missed.saturating_add(1);
        self.missed
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::*;

    fn answer(lease_seconds: u64, heartbeat_seconds: u64) -> HeartbeatAnswer {
        HeartbeatAnswer { lease_seconds, heartbeat_seconds, probe: None, term: String::new() }
    }

    #[test]
    fn every_answer_sets_the_pace() {
        let mut pace = Pace::from_seconds(10, 3);
        assert_eq!(pace.delay(), Duration::from_secs(3));
        assert_eq!(pace.answered(&answer(60, 20)), 0);
        assert_eq!((pace.delay(), pace.lease()), (Duration::from_secs(20), Duration::from_mins(1)));
        assert_eq!(pace.time_limit(), Duration::from_secs(10));
        pace.answered(&answer(10, 3));
        assert_eq!(pace.delay(), Duration::from_secs(3));
    }

    #[test]
    fn several_attempts_fit_into_a_lease_when_heartbeats_fail() {
        let mut pace = Pace::from_seconds(10, 3);
        assert_eq!(pace.missed(), 1);
        assert_eq!(pace.missed(), 2);
        assert!((pace.delay() + pace.time_limit()) * 4 < pace.lease());
        assert_eq!(pace.answered(&answer(10, 3)), 2);
        assert_eq!(pace.delay(), Duration::from_secs(3));
    }

    #[test]
    fn an_interval_that_makes_no_sense_is_bounded() {
        assert_eq!(Pace::from_seconds(0, 0).delay(), LEAST);
        assert_eq!(Pace::from_seconds(0, 0).time_limit(), LEAST);
        assert_eq!(Pace::from_seconds(10, u64::MAX).delay(), MOST);
    }
}
