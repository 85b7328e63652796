//! Delays between attempts of something that keeps failing.
//!
//! Rejected: the crate `backon`, which sleeps and draws its jitter itself. The session runs in the
//! simulator too, in virtual time and with the randomness of a seed.

use core::time::Duration;

/// Doubles from `first` to `longest`; each delay is random between half and all of its step, so
/// that a thousand agents do not reconnect in the same instant.
#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

/// A uniform random number in 0..1, drawn by the caller: nothing here has a source of randomness.
pub type Fraction = f64;

// === impl Backoff ===

impl Backoff {
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first }
    }

    pub fn reset(&mut self) {
        self.next = self.first;
    }

    pub fn next_delay(&mut self, fraction: Fraction) -> Duration {
        let step = self.next;
        self.next = (step * 2).min(self.longest);
        step.mul_f64(0.5 + fraction / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest_and_are_spread() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        for step_ms in [100, 200, 400, 800, 1000, 1000] {
            let step = Duration::from_millis(step_ms);
            assert_eq!(backoff.clone().next_delay(0.0), step / 2);
            assert_eq!(backoff.next_delay(1.0), step);
        }
        backoff.reset();
        assert_eq!(backoff.next_delay(1.0), Duration::from_millis(100));
    }
}
