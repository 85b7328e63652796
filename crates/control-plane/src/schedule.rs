//! Schedules as they are stored: what is due when, and how far each is.
//!
//! A schedule is two records under one key: its definition, which callers change, and its state,
//! which the step writes in the commit of what became of a due time. So a due time has at most one
//! job, whatever crashes, and setting a clock back repeats nothing. A clock that is set back by more
//! than [`CLOCK_TOLERANCE`] was wrong: what it decided too early becomes due again, since the schedule
//! would otherwise stop until the clock gets there.

pub mod cron;
mod due;

use api_types::schedule::{CatchUp, Overlap, RunOutcome};
use api_types::{JobId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::time::Duration;

use self::cron::{Cron, Times};
pub use self::due::{Next, next};
use crate::records::Record;
pub use crate::records::schedules::{
    MAX_NAMESPACE_SCHEDULES_BYTES, MAX_SCHEDULE_BYTES, MAX_SCHEDULES, MAX_SCHEDULES_BYTES, key,
    names,
};

/// Runs that a schedule remembers; the oldest goes first.
pub const KEPT_RUNS: usize = 20;

/// Runs that wait for the end of an earlier job; a further one is skipped.
pub const MAX_QUEUED: usize = 10;

/// The farthest that a schedule may be ahead of the wall clock: a smaller error is corrected by
/// setting a clock back, or is the difference between the clocks of two orchestrators.
pub const CLOCK_TOLERANCE: Duration = Duration::from_secs(60);

/// Live jobs that a schedule remembers. With `Allow` there may be more, and a change to another
/// `Overlap` then waits for the newest of them.
const MAX_LIVE: usize = 100;

/// Characters of a reason that is kept.
const MAX_REASON_CHARS: usize = 300;

/// What the service adds to a job of a schedule.
pub const SCHEDULE_META: &str = "service.org/schedule";
pub const SCHEDULED_TIME_META: &str = "service.org/scheduled-time";

/// What a task reads the due time from.
pub const SCHEDULED_TIME_ENV: &str = "SERVICE_SCHEDULED_TIME";

/// When a schedule's jobs are due, and what is made of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Plan {
    pub cron: String,
    pub time_zone: String,
    pub overlap: Overlap,
    pub catch_up: CatchUp,
    pub catch_up_seconds: u32,
    pub jitter_seconds: u32,
    pub paused: bool,
    /// Nothing up to this time is due.
    pub since: Timestamp,
}

/// A schedule as it was put.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Definition {
    pub plan: Plan,
    /// As it was written: what is allowed, and what is usual, is decided for each run.
    pub job: Value,
    pub create_time: Timestamp,
}

/// All that the step reads of a definition.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Planned {
    plan: Plan,
}

/// How far a schedule is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Position {
    /// Every due time up to this has been decided. It goes back only if a clock that was far ahead
    /// is set back.
    pub last_due: Option<Timestamp>,
    /// What the plan says in `since`, if the clock was set back to before it: it counts when the clock
    /// gets there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub void_since: Option<Timestamp>,
    /// Due times that wait for the end of an earlier job, the oldest first.
    pub queued: Vec<Timestamp>,
    /// Jobs that were live when the schedule was last decided on.
    pub live: Vec<JobId>,
    /// The oldest first.
    pub runs: Vec<Run>,
}

/// What became of a due time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Run {
    pub due: Timestamp,
    pub time: Timestamp,
    pub outcome: RunOutcome,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub triggered: bool,
}

/// How much later than its due times the schedule runs, always the same.
pub fn jitter(key: &str, plan: &Plan) -> Duration {
    let digest = Sha256::digest(key);
    let number = digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte));
    Duration::from_secs(number % (u64::from(plan.jitter_seconds) + 1))
}

// === impl Plan ===

impl Plan {
    pub(crate) fn from_record(record: &Record) -> Option<Self> {
        serde_json::from_str(&record.value).ok().map(|Planned { plan }| plan)
    }

    /// The times that the expression names; the error says which field is wrong.
    pub fn times(&self) -> Result<Times, (&'static str, String)> {
        let cron = Cron::parse(&self.cron).map_err(|reason| ("Cron", reason))?;
        Times::new(cron, &self.time_zone).map_err(|reason| ("TimeZone", reason))
    }
}

// === impl Definition ===

impl Definition {
    pub fn from_record(record: &Record) -> Option<Self> {
        serde_json::from_str(&record.value).ok()
    }
}

// === impl Position ===

impl Position {
    pub fn from_record(record: &Record) -> Option<Self> {
        serde_json::from_str(&record.value).ok()
    }

    /// Every due time up to this one is decided.
    pub(crate) fn decided(&mut self, due: Timestamp) {
        self.last_due = self.last_due.max(Some(due));
    }

    /// The clock was far ahead, and it is `now`: what is due later has not been decided.
    pub(crate) fn set_back(&mut self, plan: &Plan, now: Timestamp) {
        self.last_due = Some(now);
        self.void_since = Some(plan.since).filter(|since| *since > now);
    }

    /// Remembers a run; one that was queued has come to its end.
    pub(crate) fn note(&mut self, mut run: Run) {
        if let Some((end, _)) = run.reason.char_indices().nth(MAX_REASON_CHARS) {
            run.reason.truncate(end);
            run.reason.push('…');
        }
        let is_same = |before: &Run| before.outcome == RunOutcome::Queued && before.due == run.due;
        self.runs.retain(|before| !is_same(before));
        self.runs.push(run);
        let excess = self.runs.len().saturating_sub(KEPT_RUNS);
        self.runs.drain(..excess);
    }

    pub(crate) fn began(&mut self, job: JobId) {
        self.live.push(job);
        let excess = self.live.len().saturating_sub(MAX_LIVE);
        self.live.drain(..excess);
    }
}

// === impl Run ===

impl Run {
    pub(crate) fn without_job(
        due: Timestamp,
        time: Timestamp,
        outcome: RunOutcome,
        reason: impl Into<String>,
    ) -> Self {
        Self { due, time, outcome, reason: reason.into(), job: None, triggered: false }
    }

    pub(crate) fn started(due: Timestamp, time: Timestamp, job: JobId) -> Self {
        let (outcome, reason) = (RunOutcome::Started, String::new());
        Self { due, time, outcome, reason, job: Some(job), triggered: false }
    }
}

#[cfg(test)]
mod tests;
