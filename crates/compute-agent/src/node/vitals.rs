//! The supervisor's published state, for heartbeats and monitoring.
//!
//! Readers never query the supervisor, which may be waiting for the disk.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use agent_core::node_state::Usage;
use api_types::protocol::Heartbeat;

use crate::host::clock;
use crate::node::ledger::LedgerError;

/// A supervisor whose turn takes this long has hung and will not recover.
const HUNG: Duration = Duration::from_secs(60);

/// The supervisor's published state.
#[derive(Debug, Default)]
pub(crate) struct Vitals {
    usage: Mutex<Usage>,
    /// When the current turn began, in milliseconds of CLOCK_BOOTTIME; 0 between turns.
    busy_since: AtomicU64,
    /// The ledger's disk is full. The supervisor waits for space, and a restart would not help: it
    /// does not hang, although it can take no new work.
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

    /// Records why the current turn cannot write the ledger.
    pub(crate) fn cannot_write(&self, failure: &LedgerError) {
        let is_full = matches!(failure, LedgerError::Full(_));
        self.is_full.store(is_full, Ordering::Relaxed);
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

    /// A heartbeat from an agent that keeps to this lease.
    pub(crate) fn heartbeat(&self, session: u64, lease: Duration) -> Heartbeat {
        let usage = *self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        Heartbeat {
            session,
            used_capacity: usage.used.into(),
            running_executions: usage.running_executions,
            enqueued_executions: usage.enqueued_executions,
            stalled_millis: u64::try_from(self.busy_for().as_millis()).unwrap_or(u64::MAX),
            lease_seconds: lease.as_secs(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A supervisor whose turn takes longer than the limit.
    fn busy() -> Vitals {
        let vitals = Vitals::default();
        assert_eq!(vitals.heartbeat(1, Duration::ZERO).stalled_millis, 0);
        let since = clock::boot_millis().saturating_sub(61_000).max(1);
        vitals.busy_since.store(since, Ordering::Relaxed);
        vitals
    }

    fn failure(code: rusqlite::ffi::Error) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(code, None)
    }

    #[test]
    fn a_supervisor_that_cannot_write_for_long_hangs_unless_its_disk_is_full() {
        let vitals = busy();
        assert!(vitals.hangs());
        let error = failure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR));
        vitals.cannot_write(&LedgerError::Write(error));
        assert!(vitals.hangs());
        let error = failure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL));
        vitals.cannot_write(&LedgerError::Full(error));
        assert!(!vitals.hangs());
        vitals.turn_ends();
        assert_eq!(vitals.busy_for(), Duration::ZERO);
    }

    #[test]
    fn a_node_whose_ledger_is_full_can_take_nothing_and_says_so() {
        let vitals = busy();
        let error = failure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL));
        vitals.cannot_write(&LedgerError::Full(error));
        assert!(vitals.heartbeat(1, Duration::ZERO).stalled_millis >= 61_000);
    }
}
