//! When the driver removes jobs that need not be kept, and how much of them at a time.
//!
//! A step is a transaction of its own between two commits. It is small, and the pause after it is a
//! multiple of what it took: commits wait for it seldom, and never for long, on any disk.

use std::time::Duration;

use api_types::Timestamp;

use crate::store::{Pruned, Retention, Store, StoreError};

/// How often it is looked for jobs that are over for too long; finding none costs two lookups.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Rows that are removed in one step: a few milliseconds, most of them one write to the disk.
const ROWS_AT_ONCE: u32 = 256;

/// The shortest pause between two steps: ten thousand rows a second at most, several times what a
/// hundred jobs a second leave behind.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);

/// A pause is at least so many times as long as the step before it.
const PAUSE_PER_STEP: u32 = 4;

pub(super) struct Pruning {
    retention: Retention,
    due: Timestamp,
    /// Jobs removed since the last look that found nothing more.
    removed: u64,
}

// === impl Pruning ===

impl Pruning {
    pub(super) fn new(retention: Retention) -> Self {
        Self { retention, due: Timestamp::ZERO, removed: 0 }
    }

    /// Not before this moment is there anything to be done.
    pub(super) fn due(&self) -> Timestamp {
        self.due
    }

    /// Removes a part of what need not be kept, if it is time; `clock` is read before and after.
    pub(super) fn step(
        &mut self,
        store: &mut dyn Store,
        clock: impl Fn() -> Timestamp,
    ) -> Result<(), StoreError> {
        let began = clock();
        if began < self.due {
            return Ok(());
        }
        self.due = began + LOOK_EVERY;
        match store.prune(began, &self.retention, ROWS_AT_ONCE) {
            Ok(Pruned { jobs, more }) => {
                self.removed += u64::from(jobs);
                let ended = clock();
                if more {
                    self.due = ended + SHORTEST_PAUSE.max(ended.since(began) * PAUSE_PER_STEP);
                } else if self.removed > 0 {
                    tracing::info!(jobs = self.removed, "jobs were removed by retention");
                    self.removed = 0;
                }
                Ok(())
            }
            // A full disk is met, and waited for, by the next commit.
            Err(StoreError::Full { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests;
