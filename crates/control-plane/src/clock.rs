//! The clocks of the machine, and the service clock derived from them.
//!
//! The service clock follows CLOCK_BOOTTIME, which cannot be set and continues during suspend. Each
//! commit stores the clock readings, so a restart continues from the last commit and adds the
//! length of the outage: by boot time unless the machine has rebooted since. Only across a reboot
//! does the wall clock count.

use std::fs;
use std::sync::OnceLock;
use std::time::{Duration, UNIX_EPOCH};

use api_types::Timestamp;
use scheduler::time::{Moment, Now};
use uuid::Uuid;

const BOOT_ID_FILE: &str = "/proc/sys/kernel/random/boot_id";

/// An unknown boot; it equals no boot, not even itself.
pub const UNKNOWN_BOOT: [u8; 16] = [0; 16];

/// The clocks of the machine, read together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    pub boot_id: [u8; 16],
    /// Nanoseconds since this boot.
    pub boot: u64,
    pub wall: Timestamp,
}

/// The service clock, and the clocks of the machine at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    pub reading: Reading,
    pub moment: Moment,
}

/// The service clock: it never goes back, whatever happens to the machine's clocks.
#[derive(Debug, Clone)]
pub struct ServiceClock {
    /// When this process started.
    origin: Stamp,
    latest: Moment,
}

/// UTC according to the machine.
pub fn wall() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "this is the module that reads the clock")]
    let now = std::time::SystemTime::now();
    let nanos = now.duration_since(UNIX_EPOCH).map_or(0, |duration| duration.as_nanos());
    let nanos = i64::try_from(nanos).unwrap_or(i64::MAX);
    Timestamp(nanos.saturating_add(failpoint::wall_clock_offset_nanos()))
}

/// CLOCK_BOOTTIME of the machine.
pub fn boot_nanos() -> u64 {
    failpoint::boot_clock_nanos(|| {
        let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let nanos = i128::from(boot.tv_sec) * 1_000_000_000 + i128::from(boot.tv_nsec);
        u64::try_from(nanos).unwrap_or(0)
    })
}

// === impl Reading ===

impl Reading {
    pub fn now() -> Self {
        Self { boot_id: boot_id(), boot: boot_nanos(), wall: wall() }
    }

    /// The time from an earlier reading to this one, usually by another process.
    fn since(&self, earlier: &Self) -> Duration {
        let same_boot = self.boot_id != UNKNOWN_BOOT
            && self.boot_id == earlier.boot_id
            && self.boot >= earlier.boot;
        if same_boot {
            Duration::from_nanos(self.boot - earlier.boot)
        } else {
            self.wall.since(earlier.wall)
        }
    }
}

/// It does not change while the process lives.
fn boot_id() -> [u8; 16] {
    static BOOT_ID: OnceLock<[u8; 16]> = OnceLock::new();
    *BOOT_ID.get_or_init(|| {
        let read = || fs::read_to_string(BOOT_ID_FILE).unwrap_or_default();
        let text = failpoint::boot_id().unwrap_or_else(read);
        Uuid::parse_str(text.trim()).map_or(UNKNOWN_BOOT, Uuid::into_bytes)
    })
}

// === impl Stamp ===

impl Stamp {
    pub fn now(&self) -> Now {
        Now { moment: self.moment, wall: self.reading.wall }
    }
}

// === impl ServiceClock ===

impl ServiceClock {
    /// Continues from the stamp of the last commit; a new service begins at zero.
    pub fn resume(stored: Option<Stamp>, reading: &Reading) -> Self {
        let moment = stored.map_or(Moment::ZERO, |stamp| {
            let outage = reading.since(&stamp.reading);
            stamp.moment + outage
        });
        Self { origin: Stamp { reading: *reading, moment }, latest: moment }
    }

    /// Goes on from a stored stamp if that is ahead, as another process may have left it.
    pub fn catch_up(&mut self, stored: Option<Stamp>, reading: &Reading) {
        let ahead = Self::resume(stored, reading);
        if ahead.latest > self.stamp(reading).moment {
            *self = ahead;
        }
    }

    /// Both clocks at this reading, taken by this process.
    pub fn now(&mut self, reading: &Reading) -> Now {
        self.stamp(reading).now()
    }

    /// The moment of a boot time that this process read.
    pub fn moment_of(&self, boot: u64) -> Moment {
        self.origin.moment + Duration::from_nanos(boot.saturating_sub(self.origin.reading.boot))
    }

    /// The boot time of a moment: that of an earlier one if this clock was set ahead in between.
    pub fn boot_of(&self, moment: Moment) -> u64 {
        let Stamp { reading, moment: origin } = self.origin;
        (reading.boot + (moment.0.saturating_sub(origin.0)))
            .saturating_sub(origin.0.saturating_sub(moment.0))
    }

    /// What a commit at this reading stores.
    pub fn stamp(&mut self, reading: &Reading) -> Stamp {
        let elapsed = reading.boot.saturating_sub(self.origin.reading.boot);
        let moment = self.origin.moment + Duration::from_nanos(elapsed);
        self.latest = self.latest.max(moment);
        Stamp { reading: *reading, moment: self.latest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const DAY: u64 = 86_400 * SECOND;
    const NOON: i64 = 1_700_000_000_000_000_000;

    /// A reading this long after boot with this boot ID, with the wall clock this wrong.
    fn reading(boot_id: u8, boot: u64, wall_ahead: i64) -> Reading {
        let wall = NOON + boot.cast_signed() + wall_ahead;
        Reading { boot_id: [boot_id; 16], boot, wall: Timestamp(wall) }
    }

    fn new_clock() -> (ServiceClock, Moment) {
        let first = reading(1, 100 * SECOND, 0);
        let mut clock = ServiceClock::resume(None, &first);
        let begin = clock.now(&first).moment;
        (clock, begin)
    }

    #[test]
    fn a_step_of_the_wall_clock_is_visible_but_moves_no_deadline() {
        let (mut clock, begin) = new_clock();
        for (second, ahead) in [(1, DAY.cast_signed()), (2, 0), (3, -DAY.cast_signed()), (4, 0)] {
            let reading = reading(1, (100 + second) * SECOND, ahead);
            let now = clock.now(&reading);
            assert_eq!(now.moment.since(begin), Duration::from_secs(second));
            assert_eq!(now.wall, reading.wall);
        }
    }

    #[test]
    fn a_restart_counts_the_outage_by_boot_time_whatever_the_wall_clock_shows() {
        for before in [DAY.cast_signed(), 0, -DAY.cast_signed()] {
            for after in [DAY.cast_signed(), 0, -DAY.cast_signed()] {
                let (mut clock, begin) = new_clock();
                let stored = clock.stamp(&reading(1, 110 * SECOND, before));
                let back = reading(1, 117 * SECOND, after);
                let mut clock = ServiceClock::resume(Some(stored), &back);
                assert_eq!(clock.now(&back).moment.since(begin), Duration::from_secs(17));
            }
        }
    }

    #[test]
    fn a_reboot_counts_the_outage_by_the_wall_clock() {
        let (mut clock, begin) = new_clock();
        let stored = clock.stamp(&reading(1, 110 * SECOND, 0));
        let mut booted = reading(2, 5 * SECOND, 0);
        booted.wall = stored.reading.wall + Duration::from_secs(60);
        let mut clock = ServiceClock::resume(Some(stored), &booted);
        assert_eq!(clock.now(&booted).moment.since(begin), Duration::from_secs(70));
        booted.boot += SECOND;
        assert_eq!(clock.now(&booted).moment.since(begin), Duration::from_secs(71));
    }

    #[test]
    fn a_clock_that_is_behind_after_a_reboot_makes_the_outage_zero() {
        let (mut clock, begin) = new_clock();
        let stored = clock.stamp(&reading(1, 110 * SECOND, 0));
        let booted = reading(2, 5 * SECOND, -DAY.cast_signed());
        let mut clock = ServiceClock::resume(Some(stored), &booted);
        assert_eq!(clock.now(&booted).moment.since(begin), Duration::from_secs(10));
    }

    #[test]
    fn it_catches_up_with_another_process_and_never_goes_back_to_one() {
        let (mut clock, begin) = new_clock();
        let mut theirs = clock.stamp(&reading(1, 110 * SECOND, 0));
        clock.catch_up(Some(theirs), &reading(1, 115 * SECOND, 0));
        let now = |clock: &mut ServiceClock| clock.now(&reading(1, 120 * SECOND, 0)).moment;
        assert_eq!(now(&mut clock).since(begin), Duration::from_secs(20));
        theirs.moment = theirs.moment + Duration::from_secs(60);
        clock.catch_up(Some(theirs), &reading(1, 115 * SECOND, 0));
        assert_eq!(now(&mut clock).since(begin), Duration::from_secs(80));
        clock.catch_up(None, &reading(1, 115 * SECOND, 0));
        assert_eq!(now(&mut clock).since(begin), Duration::from_secs(80));
    }

    #[test]
    fn a_moment_has_a_boot_time_and_one_before_a_leap_an_earlier_one() {
        let (mut clock, begin) = new_clock();
        let later = begin + Duration::from_secs(7);
        assert_eq!(clock.boot_of(later), 107 * SECOND);
        assert_eq!(clock.moment_of(clock.boot_of(later)), later);
        let mut theirs = clock.stamp(&reading(1, 110 * SECOND, 0));
        theirs.moment = theirs.moment + Duration::from_secs(60);
        clock.catch_up(Some(theirs), &reading(1, 110 * SECOND, 0));
        assert_eq!(clock.boot_of(later), 47 * SECOND, "what was trusted is trusted for less");
        assert_eq!(clock.boot_of(Moment::ZERO), 40 * SECOND);
    }

    #[test]
    fn an_unknown_boot_equals_no_other() {
        let (mut clock, begin) = new_clock();
        let mut stamp = clock.stamp(&reading(1, 110 * SECOND, 0));
        stamp.reading.boot_id = UNKNOWN_BOOT;
        let mut back = stamp.reading;
        (back.boot, back.wall) = (500 * SECOND, back.wall + Duration::from_secs(3));
        let mut clock = ServiceClock::resume(Some(stamp), &back);
        assert_eq!(clock.now(&back).moment.since(begin), Duration::from_secs(13));
    }

    #[test]
    fn it_never_goes_back_even_if_the_reading_does() {
        let (mut clock, _) = new_clock();
        let later = clock.now(&reading(1, 120 * SECOND, 0)).moment;
        assert_eq!(clock.now(&reading(1, 119 * SECOND, 0)).moment, later);
    }

    #[test]
    fn the_machine_has_a_boot_and_its_clock_runs() {
        let (first, second) = (Reading::now(), Reading::now());
        assert_ne!(first.boot_id, UNKNOWN_BOOT);
        assert_eq!(first.boot_id, second.boot_id);
        assert!(0 < first.boot && first.boot <= second.boot);
    }
}
