//! How late the machine itself is, which no bound of a test should count.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_millis(1);

/// Measures, from its start on, how late a thread wakes up that only sleeps.
#[derive(Debug)]
pub(crate) struct Lateness {
    longest_nanos: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

// === impl Lateness ===

impl Lateness {
    pub(crate) fn start() -> Self {
        let longest_nanos = Arc::new(AtomicU64::new(0));
        let is_over = Arc::new(AtomicBool::new(false));
        let (longest, ends) = (Arc::clone(&longest_nanos), Arc::clone(&is_over));
        std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                let begin = Instant::now();
                std::thread::sleep(INTERVAL);
                let late = begin.elapsed().saturating_sub(INTERVAL);
                longest
                    .fetch_max(late.as_nanos().try_into().unwrap_or(u64::MAX), Ordering::Relaxed);
            }
        });
        Self { longest_nanos, is_over }
    }

    /// The longest so far.
    pub(crate) fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest_nanos.load(Ordering::Relaxed))
    }
}

impl Drop for Lateness {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}
