//! The clocks of a machine: its uptime, and a wall clock that may be set wrong.

use std::time::Duration;

use api_types::Timestamp;
use control_plane::clock::Reading;

use crate::random::Random;

/// How far the wall clock is set wrong at most, in either direction.
const WORST_STEP: Duration = Duration::from_hours(48);

/// How far the wall clock may be ahead after a restart of the machine. The service trusts it then,
/// so everything it remembers for longer than this, such as idempotency keys, is still there.
const WORST_STEP_AHEAD_OF_A_BOOT: Duration = Duration::from_secs(60);

/// The clocks derive from true time, which each method receives as `now`.
#[derive(Debug)]
pub(super) struct Machine {
    /// The number of boots.
    boots: u128,
    booted_at: Timestamp,
    /// How many nanoseconds the wall clock is ahead of true time.
    ahead: i64,
    /// How long its clocks stood still since this boot: no clock counts the pause of a virtual
    /// machine.
    stood: Duration,
}

// === impl Machine ===

impl Machine {
    pub(super) fn new(now: Timestamp) -> Self {
        Self { boots: 1, booted_at: now, ahead: 0, stood: Duration::ZERO }
    }

    /// A second one, whose boots are others, and whose wall clock is wrong in its own way.
    pub(super) fn another(now: Timestamp, random: &mut Random) -> Self {
        let mut machine = Self { boots: 1 << 64, ..Self::new(now) };
        machine.set_wall_clock(random);
        machine
    }

    /// Its clocks do not count a pause that begins now. No one reads them during it.
    pub(super) fn stand_still(&mut self, pause: Duration) {
        self.stood += pause;
        self.ahead -= i64::try_from(pause.as_nanos()).expect("some seconds");
    }

    pub(super) fn has_stood_still(&self) -> bool {
        !self.stood.is_zero()
    }

    pub(super) fn reading(&self, now: Timestamp) -> Reading {
        let up = now.since(self.booted_at).saturating_sub(self.stood);
        let boot = u64::try_from(up.as_nanos()).expect("a run is short");
        Reading { boot_id: self.boots.to_be_bytes(), boot, wall: Timestamp(now.0 + self.ahead) }
    }

    pub(super) fn set_wall_clock(&mut self, random: &mut Random) {
        self.ahead = up_to(random, WORST_STEP) - up_to(random, WORST_STEP);
    }

    /// Restarts the machine, whose wall clock was this far ahead at the last commit. It may be far
    /// behind afterwards, but hardly ahead.
    pub(super) fn reboot(&mut self, before: i64, now: Timestamp, random: &mut Random) {
        self.boots += 1;
        self.booted_at = now;
        self.stood = Duration::ZERO;
        self.ahead = match random.chance(500) {
            true => before + up_to(random, WORST_STEP_AHEAD_OF_A_BOOT),
            false => before - up_to(random, WORST_STEP),
        };
    }
}

/// A random number of nanoseconds below this duration.
fn up_to(random: &mut Random, most: Duration) -> i64 {
    let most = u64::try_from(most.as_millis()).expect("some days");
    i64::try_from(random.millis(0..most).as_nanos()).expect("some days")
}
