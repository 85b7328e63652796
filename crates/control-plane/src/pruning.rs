//! When to remove expired jobs and idempotency keys, and how many at a time.
//!
//! A removal is a separate commit between two others. It is small, and the pause after it is a
//! multiple of its duration: inputs rarely wait for it, and never long, on any disk.

use std::time::Duration;

use scheduler::time::Moment;

use crate::store::{KEY_RETENTION, Removal, Removed, Retention};

/// Interval between retention scans; one that finds nothing costs two lookups.
const SCAN_EVERY: Duration = Duration::from_secs(10);

/// Rows of jobs removed in one step: a few milliseconds, most of it one write to the disk.
const ROWS_AT_ONCE: u32 = 256;

/// The most rows of jobs that one step removes when they arrive quickly: about seven milliseconds
/// in addition to the write. Beyond it, steps follow one another sooner.
const MOST_ROWS: u32 = 768;

/// Rows of jobs removed for each one stored since the previous step, so that finished jobs do not
/// pile up beyond their bounds. Removing a row costs about as much as storing it.
const ROWS_PER_NEW_ROW: u64 = 2;

/// The fewest keys that a step removes: a key costs as much as a row.
const KEYS_AT_ONCE: u32 = 256;

/// Keys removed for each key stored since the previous step, so that no rate of submission outruns
/// removal. Removing a key costs about as much as storing it.
const KEYS_PER_NEW_KEY: u32 = 2;

/// The shortest pause between two steps, as long as they keep up.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);

/// A pause is at least this many times as long as the step before it.
const PAUSE_PER_STEP: u32 = 4;

/// The same while more rows have arrived than a step removes: half of the time is left to everybody
/// else, and who submits at such a rate waits for the removal of as much.
const PAUSE_PER_STEP_BEHIND: u32 = 1;

/// How much lost time removal makes up for at most. The commit of many jobs outlasts the pause, and
/// would leave removal less than its half of the time; the steps that then follow one another
/// directly keep a request waiting for little longer than this.
const MOST_LATE: Duration = Duration::from_millis(50);

/// The same for keys: a longer pause would make the next step larger.
const PAUSE_PER_KEYS_STEP: u32 = 1;

/// Removes jobs and keys in small steps between commits.
pub struct Pruning {
    retention: Retention,
    jobs_due: Moment,
    keys_due: Moment,
    /// Jobs removed since the last scan that found nothing more.
    removed: u64,
    /// While jobs remain to be removed: the rows to remove because of those that arrived.
    new_rows: Option<u64>,
    /// While more rows have arrived than a step removes: by how much steps came too late.
    late: Duration,
    /// While keys remain to be removed: the number stored since the previous step.
    new_keys: Option<u32>,
}

// === impl Pruning ===

impl Pruning {
    pub fn new(retention: Retention) -> Self {
        Self {
            retention,
            jobs_due: Moment::ZERO,
            keys_due: Moment::ZERO,
            removed: 0,
            new_rows: None,
            late: Duration::ZERO,
            new_keys: None,
        }
    }

    /// Nothing is due before this time.
    pub fn due(&self) -> Moment {
        self.jobs_due.min(self.keys_due)
    }

    /// Counts stored idempotency keys.
    pub fn stored_keys(&mut self, keys: usize) {
        let keys = u32::try_from(keys).unwrap_or(u32::MAX);
        self.new_keys = self.new_keys.map(|before| before.saturating_add(keys));
    }

    /// Counts stored rows of jobs.
    pub fn stored_rows(&mut self, rows: usize) {
        let rows = (rows as u64).saturating_mul(ROWS_PER_NEW_ROW);
        self.new_rows = self.new_rows.map(|before| before.saturating_add(rows));
    }

    /// What is to be removed now, if anything is due.
    pub fn next(&mut self, now: Moment) -> Option<Removal> {
        if now >= self.jobs_due {
            self.late = match self.new_rows {
                Some(rows) if is_behind(rows) => {
                    MOST_LATE.min(self.late + now.since(self.jobs_due))
                }
                Some(_) | None => Duration::ZERO,
            };
            self.jobs_due = now + SCAN_EVERY;
            let due = u32::try_from(self.new_rows.unwrap_or(0)).unwrap_or(u32::MAX);
            let rows = due.clamp(ROWS_AT_ONCE, MOST_ROWS);
            return Some(Removal::Jobs { retention: self.retention, rows });
        }
        if now >= self.keys_due {
            self.keys_due = now + SCAN_EVERY;
            let new_keys = self.new_keys.take().unwrap_or(0);
            let limit = KEYS_AT_ONCE.max(new_keys.saturating_mul(KEYS_PER_NEW_KEY));
            return Some(Removal::Keys { oldest: oldest_key(now), limit });
        }
        None
    }

    /// A removal was committed, in the time from `began` to `ended`.
    pub fn removed(&mut self, removal: Removal, removed: Removed, began: Moment, ended: Moment) {
        let took = ended.since(began);
        let Removed { count, more } = removed;
        match removal {
            Removal::Jobs { rows, .. } => {
                self.removed += u64::from(count);
                let new_rows = self.new_rows.take().unwrap_or(0).saturating_sub(rows.into());
                if more {
                    self.new_rows = Some(new_rows);
                    self.jobs_due = ended
                        + if is_behind(new_rows) {
                            let pause = took * PAUSE_PER_STEP_BEHIND;
                            let late = std::mem::take(&mut self.late);
                            self.late = late.saturating_sub(pause);
                            pause.saturating_sub(late)
                        } else {
                            SHORTEST_PAUSE.max(took * PAUSE_PER_STEP)
                        };
                } else if self.removed > 0 {
                    tracing::info!(jobs = self.removed, "jobs were removed by retention");
                    self.removed = 0;
                }
            }
            Removal::Keys { .. } => {
                if more {
                    self.new_keys = Some(0);
                    self.keys_due = ended + SHORTEST_PAUSE.max(took * PAUSE_PER_KEYS_STEP);
                }
            }
        }
    }
}

/// Whether more rows have arrived than a step removes.
fn is_behind(new_rows: u64) -> bool {
    new_rows >= MOST_ROWS.into()
}

/// Keys older than this are forgotten.
pub fn oldest_key(now: Moment) -> Moment {
    now.before(KEY_RETENTION)
}

#[cfg(test)]
mod tests;
