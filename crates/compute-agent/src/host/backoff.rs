//! Delays between attempts of something that keeps failing.

use std::time::Duration;

use crate::host::mint;

/// Doubles from `first` to `longest`; each delay is random between half and all of its step, so
/// that a thousand agents do not reconnect in the same instant.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    pub(crate) const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first }
    }

    pub(crate) fn reset(&mut self) {
        self.next = self.first;
    }

    pub(crate) fn next_delay(&mut self) -> Duration {
        let step = self.next;
        self.next = (step * 2).min(self.longest);
        step.mul_f64(0.5 + mint::fraction() / 2.0)
    }

    pub(crate) async fn wait(&mut self) {
        tokio::time::sleep(self.next_delay()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_are_spread() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        for step_ms in [100, 200, 400, 800, 1000, 1000] {
            let step = Duration::from_millis(step_ms);
            let delay = backoff.next_delay();
            assert!(delay >= step / 2 && delay <= step, "{delay:?} of {step:?}");
        }
        backoff.reset();
        assert!(backoff.next_delay() <= Duration::from_millis(100));
    }
}
