//! The two clocks: the service's own clock, for decisions, and the wall clock, for display.
//!
//! An operator who changes the machine's clock must not end a lease, trigger a timeout early or
//! make retention delete anything. So every input carries both clocks, and every deadline refers to
//! the service's own.

use core::ops::Add;
use core::time::Duration;

use api_types::Timestamp;

/// A moment of the service's own clock, in nanoseconds.
///
/// It counts the time since the service was created, including outages; it continues across
/// restarts and never goes back. It is unrelated to the calendar date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(pub u64);

/// Both clocks, read together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    pub moment: Moment,
    /// UTC according to the machine: possibly wrong, and adjustable at any time.
    pub wall: Timestamp,
}

// === impl Moment ===

impl Moment {
    pub const ZERO: Self = Self(0);

    /// The time elapsed since an earlier moment; zero if that moment is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The moment this long before; the first moment if there is none.
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
