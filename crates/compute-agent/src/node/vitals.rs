//! The supervisor's published state, for heartbeats and monitoring.
//!
//! Readers never query the supervisor, which may be waiting for the disk.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use agent_core::node_state::Usage;
use api_types::protocol::Heartbeat;
use api_types::quantity::Resources;

use crate::host::clock;
use crate::node::ledger::LedgerError;

/// How often it is checked whether the supervisor hangs.
pub(crate) const CHECK: Duration = Duration::from_secs(1);

/// A supervisor whose turn goes on at this many checks in a row, a minute, has hung and will not
/// recover.
const HUNG: u32 = 60;

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

/// Notices a supervisor that hangs.
///
/// It counts checks instead of the time since the turn began: while this process or its machine is
/// stopped, nothing goes on, and nothing hangs.
#[derive(Debug, Default)]
pub(crate) struct Watchdog {
    /// When the turn began that the last check found.
    turn: u64,
    /// Checks in a row that found it.
    checks: u32,
}

// === impl Watchdog ===

impl Watchdog {
    /// Whether the supervisor has hung; to be called once per [`CHECK`].
    pub(crate) fn check(&mut self, vitals: &Vitals) -> bool {
        let turn = match vitals.is_full.load(Ordering::Relaxed) {
            true => 0,
            false => vitals.busy_since.load(Ordering::Relaxed),
        };
        if turn == 0 || turn != self.turn {
            *self = Self { turn, checks: 0 };
        }
        self.checks += 1;
        turn != 0 && self.checks > HUNG
    }
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

    /// What executions hold.
    pub(crate) fn held(&self) -> Resources {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner).used
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
            probed: None,
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

    /// Whether one of this many checks finds that it hangs.
    fn hangs_within(checks: u32, watchdog: &mut Watchdog, vitals: &Vitals) -> bool {
        (0..checks).any(|_| watchdog.check(vitals))
    }

    #[test]
    fn a_supervisor_that_cannot_write_for_long_hangs_unless_its_disk_is_full() {
        let (vitals, mut watchdog) = (busy(), Watchdog::default());
        assert!(!hangs_within(HUNG, &mut watchdog, &vitals));
        assert!(watchdog.check(&vitals));
        let error = failure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR));
        vitals.cannot_write(&LedgerError::Write(error));
        assert!(watchdog.check(&vitals));
        let error = failure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL));
        vitals.cannot_write(&LedgerError::Full(error));
        assert!(!hangs_within(2 * HUNG, &mut watchdog, &vitals));
        vitals.turn_ends();
        assert_eq!(vitals.busy_for(), Duration::ZERO);
    }

    #[test]
    fn a_pause_of_the_agent_within_a_turn_is_no_hang() {
        let (vitals, mut watchdog) = (busy(), Watchdog::default());
        assert!(vitals.busy_for() > HUNG * CHECK, "a minute has passed since the turn began");
        assert!(!hangs_within(HUNG / 2, &mut watchdog, &vitals));
    }

    #[test]
    fn turns_that_follow_one_another_are_no_hang() {
        let (vitals, mut watchdog) = (Vitals::default(), Watchdog::default());
        for turn in 1..=u64::from(2 * HUNG) {
            vitals.busy_since.store(turn, Ordering::Relaxed);
            assert!(!watchdog.check(&vitals));
        }
        vitals.turn_ends();
        assert!(!hangs_within(2 * HUNG, &mut watchdog, &vitals));
    }

    #[test]
    fn a_node_whose_ledger_is_full_can_take_nothing_and_says_so() {
        let vitals = busy();
        let error = failure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL));
        vitals.cannot_write(&LedgerError::Full(error));
        assert!(vitals.heartbeat(1, Duration::ZERO).stalled_millis >= 61_000);
    }
}
