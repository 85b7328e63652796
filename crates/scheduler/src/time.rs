//! The two clocks: the service's own, which decides, and the wall clock, which is only shown.
//!
//! Whoever sets a machine's clock must not stop a lease, end a timeout early or have retention
//! delete anything. So every input carries both clocks, and everything that is due at some time is
//! due by the service's own.

use core::ops::Add;
use core::time::Duration;

use api_types::Timestamp;

/// A moment of the service's own clock, in nanoseconds.
///
/// It counts the time that the service has existed, outages included, goes on over restarts, and
/// never goes back. It says nothing about the date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(pub u64);

/// Both clocks, read at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    pub moment: Moment,
    /// UTC as the machine has it: right or wrong, and set at any time.
    pub wall: Timestamp,
}

// === impl Moment ===

impl Moment {
    pub const ZERO: Self = Self(0);

    /// The time from an earlier moment to this one; zero if it is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The moment this long before; the beginning if there was none.
    pub fn before(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(duration)))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
