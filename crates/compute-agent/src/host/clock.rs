//! The two clocks: the wall clock for display, and the agent's steady clock for decisions.
//!
//! Anyone may set the wall clock. The steady clock decides deadlines, ages and the order of
//! messages.
//!
//! The steady clock advances with CLOCK_BOOTTIME. It began at the wall time of the agent's first
//! start, so that timestamps of older releases in the ledger remain valid. An anchor in the data
//! directory records its value at some boot time, and every start within the same boot continues
//! from there. After a reboot no process with a deadline is left: the steady clock advances by as
//! much as the wall clock did, and never goes back.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agent_core::{BootId, Now};
use api_types::Timestamp;
use serde::{Deserialize, Serialize};
use tracing::warn;

const BOOT_ID_FILE: &str = "/proc/sys/kernel/random/boot_id";

/// A sleep pauses while the machine is suspended, a deadline does not: this bounds the delay.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

/// The readings of the machine's clocks at one value of the steady clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Anchor {
    boot_id: String,
    /// Nanoseconds since that boot.
    boot: u64,
    wall: Timestamp,
    steady: Timestamp,
}

static ANCHOR: OnceLock<Anchor> = OnceLock::new();

/// The wall clock in Unix nanoseconds; zero on a machine whose clock shows a time before 1970.
pub(crate) fn now() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "this is the place that reads the wall clock")]
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let nanos = i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX);
    Timestamp(nanos.saturating_add(failpoint::wall_clock_offset_nanos()))
}

/// The steady clock, which changes of the wall clock do not affect.
pub(crate) fn steady() -> Timestamp {
    let anchor = ANCHOR.get_or_init(|| Anchor::first(&boot_id()));
    anchor.steady + Duration::from_nanos(boot_time().saturating_sub(anchor.boot))
}

/// The steady time of an input, and this boot.
pub(crate) fn steady_now() -> Now {
    static BOOT_ID: OnceLock<BootId> = OnceLock::new();
    let boot_id = *BOOT_ID.get_or_init(|| BootId::parse(&boot_id()));
    Now { time: steady(), boot_id }
}

/// The value of the steady clock when the wall clock showed this, as far as it is known.
pub(crate) fn steady_at(wall: Timestamp) -> Timestamp {
    steady() - now().since(wall)
}

/// The value of the steady clock when CLOCK_BOOTTIME had this value, in this boot.
pub(crate) fn steady_at_boot(boot_nanos: u64) -> Timestamp {
    steady() - Duration::from_nanos(boot_time().saturating_sub(boot_nanos))
}

/// The inverse of [`steady_at`].
pub(crate) fn wall_at(steady_time: Timestamp) -> Timestamp {
    now() - steady().since(steady_time)
}

/// Returns when the steady clock reaches this.
pub(crate) async fn reach(deadline: Timestamp) {
    loop {
        let left = deadline.since(steady());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(LONGEST_SLEEP)).await;
    }
}

/// Continues the steady clock of this data directory. The agent calls this at its start, before
/// anything reads the time; a process has one steady clock.
pub(crate) fn resume(note: &Path) {
    ANCHOR.get_or_init(|| {
        let boot_id = boot_id();
        let before = read(note).unwrap_or_else(|error| {
            warn!(path = %note.display(), %error, "cannot read the anchor of the steady clock");
            None
        });
        let anchor = match before {
            Some(before) if before.boot_id == boot_id && !boot_id.is_empty() => return before,
            before => Anchor::after(before, Anchor::first(&boot_id)),
        };
        if let Err(error) = write(note, &anchor) {
            warn!(path = %note.display(), %error, "cannot write the anchor of the steady clock");
        }
        anchor
    });
}

/// The kernel's ID of this boot; empty when it is unknown.
pub(crate) fn boot_id() -> String {
    failpoint::boot_id().unwrap_or_else(|| {
        fs::read_to_string(BOOT_ID_FILE).map(|text| text.trim().to_owned()).unwrap_or_default()
    })
}

/// Nanoseconds since the boot.
pub(crate) fn boot_time() -> u64 {
    let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let nanos = i128::from(boot.tv_sec) * 1_000_000_000 + i128::from(boot.tv_nsec);
    u64::try_from(nanos).unwrap_or(0) + failpoint::boot_clock_offset_nanos()
}

fn read(note: &Path) -> io::Result<Option<Anchor>> {
    match fs::read(note) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn write(note: &Path, anchor: &Anchor) -> io::Result<()> {
    let written = note.with_extension("new");
    fs::write(&written, serde_json::to_vec(anchor)?)?;
    fs::rename(written, note)
}

// === impl Anchor ===

impl Anchor {
    /// The steady clock begins at the wall time.
    fn first(boot_id: &str) -> Self {
        let (boot, wall) = (boot_time(), now());
        Self { boot_id: boot_id.to_owned(), boot, wall, steady: wall }
    }

    /// Continues from an anchor of another boot.
    fn after(before: Option<Self>, first: Self) -> Self {
        match before {
            Some(before) => Self { steady: before.steady + first.wall.since(before.wall), ..first },
            None => first,
        }
    }
}

/// Milliseconds of CLOCK_BOOTTIME.
pub(crate) fn boot_millis() -> u64 {
    boot_time() / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Timestamp = Timestamp(1_700_000_000_000_000_000);

    fn anchor(boot_id: &str, wall: Timestamp, steady: Timestamp) -> Anchor {
        Anchor { boot_id: boot_id.to_owned(), boot: 5, wall, steady }
    }

    #[test]
    fn another_boot_advances_the_steady_clock_like_the_wall_clock_and_never_back() {
        let hour = Duration::from_hours(1);
        let before = anchor("one", NOON, NOON - hour);
        let later = anchor("two", NOON + hour, NOON + hour);
        assert_eq!(Anchor::after(Some(before.clone()), later.clone()).steady, NOON);
        let behind = anchor("two", NOON - hour, NOON - hour);
        assert_eq!(Anchor::after(Some(before), behind).steady, NOON - hour);
        assert_eq!(Anchor::after(None, later).steady, NOON + hour);
    }

    #[test]
    fn the_anchor_reads_back_and_a_missing_one_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let note = directory.path().join("clock");
        assert_eq!(read(&note).unwrap(), None);
        let anchor = anchor("one", NOON, NOON);
        write(&note, &anchor).unwrap();
        assert_eq!(read(&note).unwrap(), Some(anchor));
        fs::write(&note, "?").unwrap();
        assert!(read(&note).is_err());
    }

    #[tokio::test]
    async fn the_steady_clock_runs_and_a_deadline_is_reached() {
        let begin = steady();
        reach(begin + Duration::from_millis(20)).await;
        assert!(steady().since(begin) >= Duration::from_millis(20));
        let apart = wall_at(steady_at(NOON)).since(NOON);
        assert!(apart < Duration::from_secs(5), "{apart:?}");
    }
}
