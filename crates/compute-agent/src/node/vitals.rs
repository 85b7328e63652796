//! The supervisor's published state, for heartbeats and monitoring.
//!
//! Readers never query the supervisor, which may be waiting for the disk.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use agent_core::node_state::Usage;
use api_types::protocol::Heartbeat;

use crate::host::clock;

/// A supervisor whose turn takes this long has hung and will not recover.
const HUNG: Duration = Duration::from_secs(60);

/// The supervisor's published state.
#[derive(Debug, Default)]
pub(crate) struct Vitals {
    usage: Mutex<Usage>,
    /// When the current turn began, in milliseconds of CLOCK_BOOTTIME; 0 between turns.
    busy_since: AtomicU64,
    /// The ledger's disk is full: the supervisor waits for space and does not hang.
    is_full: AtomicBool,
}

// === impl Vitals ===

impl Vitals {
    pub(crate) fn publish(&self, usage: Usage) {
        *self.usage.lock().unwrap_or_else(PoisonError::into_inner) = usage;
    }

    pub(crate) fn turn_begins(&self) {
        self.busy_since.store(clock::boot_millis().max(1), Ordering::Relaxed);
    }

    pub(crate) fn turn_ends(&self) {
        self.is_full.store(false, Ordering::Relaxed);
        self.busy_since.store(0, Ordering::Relaxed);
    }

    /// Records that the current turn waits for disk space.
    pub(crate) fn waits_for_room(&self) {
        self.is_full.store(true, Ordering::Relaxed);
    }

    pub(crate) fn busy_for(&self) -> Duration {
        match self.busy_since.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            since => Duration::from_millis(clock::boot_millis().saturating_sub(since)),
        }
    }

    pub(crate) fn hangs(&self) -> bool {
        self.busy_for() >= HUNG && !self.is_full.load(Ordering::Relaxed)
    }

    pub(crate) fn heartbeat(&self, session: u64) -> Heartbeat {
        let usage = *self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        let stalled = if self.is_full.load(Ordering::Relaxed) {
            // The node declines new offers with that reason, and its running tasks are unaffected.
            Duration::ZERO
        } else {
            self.busy_for()
        };
        Heartbeat {
            session,
            used_capacity: usage.used.into(),
            running_executions: usage.running_executions,
            enqueued_executions: usage.enqueued_executions,
            stalled_millis: u64::try_from(stalled.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_supervisor_that_waits_for_room_does_not_hang() {
        let vitals = Vitals::default();
        assert_eq!(vitals.heartbeat(1).stalled_millis, 0);
        vitals
            .busy_since
            .store(clock::boot_millis().saturating_sub(61_000).max(1), Ordering::Relaxed);
        assert!(vitals.hangs() || clock::boot_millis() < 61_000);
        vitals.waits_for_room();
        assert!(!vitals.hangs());
        assert_eq!(vitals.heartbeat(1).stalled_millis, 0);
        vitals.turn_ends();
        assert_eq!(vitals.busy_for(), Duration::ZERO);
    }
}
