//! Which schedules are due, and which of their runs are on their way through the runner.
//!
//! Everything here is derived from the records, at the beginning of a term and after each change. The
//! wall clock says what is due. What a schedule does about it without a job is decided here; a run
//! that needs a job leaves as a [`DueTime`], and comes back as a [`DueRun`](super::DueRun).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api_types::schedule::{Overlap, RunOutcome};
use api_types::{JobId, Timestamp};
use scheduler::Scheduler;
use scheduler::time::Moment;

use crate::clock::Stamp;
use crate::records::{Expected, RecordKey, RecordKind, RecordWrite, Records};
use crate::schedule::cron::Times;
use crate::schedule::{self, CLOCK_TOLERANCE, MAX_QUEUED, Next, Plan, Position, Run};

/// Runs on their way at the same time; the others wait for their return. A turn stays short, however
/// many schedules are due in the same second.
const ON_THEIR_WAY: usize = 64;

/// Schedules that one turn decides on; the next turn follows immediately.
const DECIDED: usize = 128;

/// A run that has not come back is due again after this time: the runner has dropped it.
const COMES_BACK: Duration = Duration::from_secs(10);

/// How often the wall clock is read while something is scheduled: it may be set.
const RECHECK: Duration = Duration::from_secs(5);

/// A due time that needs a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueTime {
    /// Of the schedule.
    pub key: String,
    /// Of its definition.
    pub version: u64,
    /// Up to when every time was decided as this one left. Where that is not so as it comes back, a
    /// commit has failed since, and taking this one would skip those before it.
    pub after: Timestamp,
    pub due: Timestamp,
}

#[derive(Default)]
pub(super) struct Schedules {
    entries: BTreeMap<String, Entry>,
    /// By the wall clock.
    due: BTreeSet<(Timestamp, String)>,
    /// Up to when each is decided; a wall clock that was set back is behind the last one.
    decided: BTreeSet<(Timestamp, String)>,
    /// Runs wait, and no job is live.
    ready: BTreeSet<String>,
    /// The last live job of schedules whose runs wait.
    awaited: BTreeMap<JobId, String>,
    /// Until when each run that is on its way has to come back.
    on_their_way: BTreeMap<String, Moment>,
}

struct Entry {
    version: u64,
    plan: Plan,
    times: Times,
    jitter: Duration,
    /// When it is in the set of what is due.
    at: Option<Timestamp>,
    /// Where it is in the set of what is decided.
    decided: Timestamp,
}

/// What is decided about a schedule.
enum Decided {
    /// A due time gets no job; this is the new state.
    Without(Position),
    /// The clock was set back; this is the new state.
    SetBack(Position),
    NeedsJob(DueTime),
    Nothing,
}

// === impl Schedules ===

impl Schedules {
    pub(super) fn load(records: &Records, scheduler: &Scheduler) -> Self {
        let mut schedules = Self::default();
        for record in records.of_kind(RecordKind::Schedule) {
            schedules.changed(&record.key.key, records, scheduler);
        }
        schedules
    }

    /// The schedule was put, deleted, or decided on; its run on the way, if any, counts no longer.
    pub(super) fn changed(&mut self, key: &str, records: &Records, scheduler: &Scheduler) {
        self.on_their_way.remove(key);
        self.ready.remove(key);
        if let Some(Entry { at, decided, .. }) = self.entries.remove(key) {
            at.map(|at| self.due.remove(&(at, key.to_owned())));
            self.decided.remove(&(decided, key.to_owned()));
        }
        let Some(record) = records.get(&RecordKind::Schedule.key(key)) else { return };
        let plan = Plan::from_record(record);
        let read = plan.and_then(|plan| Some((plan.times().ok()?, plan)));
        let Some((times, plan)) = read else {
            tracing::error!(schedule = key, "the schedule cannot be read; it does not run");
            return;
        };
        let position = position(records, key);
        let jitter = schedule::jitter(key, &plan);
        let decided = decided(&plan, &position, Timestamp::ZERO);
        let next = times.after(decided).map(|due| due + jitter);
        let at = next.filter(|_| !plan.paused);
        if !plan.paused {
            self.decided.insert((decided, key.to_owned()));
        }
        self.due.extend(at.map(|at| (at, key.to_owned())));
        if !position.queued.is_empty() && !plan.paused {
            match position.live.iter().rev().find(|job| scheduler.is_live(**job)) {
                Some(job) => drop(self.awaited.insert(*job, key.to_owned())),
                None => drop(self.ready.insert(key.to_owned())),
            }
        }
        let entry = Entry { version: record.version, plan, times, jitter, at, decided };
        self.entries.insert(key.to_owned(), entry);
    }

    /// The plan of a definition that is still the one of this version.
    pub(super) fn plan(&self, key: &str, version: u64) -> Option<&Plan> {
        self.entries.get(key).filter(|entry| entry.version == version).map(|entry| &entry.plan)
    }

    /// These jobs changed: runs may have waited for the end of one.
    pub(super) fn ended(
        &mut self,
        jobs: impl Iterator<Item = JobId>,
        records: &Records,
        scheduler: &Scheduler,
    ) {
        if self.awaited.is_empty() {
            return;
        }
        for job in jobs {
            if let Some(key) = self.awaited.remove(&job) {
                self.changed(&key, records, scheduler);
            }
        }
    }

    /// Decides on what is due: the states to write, and the runs that need a job.
    pub(super) fn decide(
        &mut self,
        records: &mut Records,
        scheduler: &Scheduler,
        now: Stamp,
        mut write: impl FnMut(&mut Records, RecordWrite, Option<RunOutcome>),
    ) -> Vec<DueTime> {
        self.take_back(records, scheduler, now.moment);
        let mut leaving = Vec::new();
        for _ in 0..DECIDED {
            let Some(key) = self.first_due(now.reading.wall) else { break };
            match self.decide_one(&key, records, scheduler, now.reading.wall) {
                Decided::Without(position) => {
                    let outcome = position.runs.last().map(|run| run.outcome);
                    write(records, state(&key, &position), outcome);
                    self.changed(&key, records, scheduler);
                }
                Decided::SetBack(position) => {
                    write(records, state(&key, &position), None);
                    self.changed(&key, records, scheduler);
                }
                Decided::NeedsJob(due) => {
                    self.leave(&key, now.moment + COMES_BACK);
                    leaving.push(due);
                }
                // What is due came from the same state: only a clock can be why.
                Decided::Nothing => self.leave(&key, now.moment + RECHECK),
            }
        }
        leaving
    }

    /// When there is something to decide; none if nothing is scheduled.
    pub(super) fn wake(&self, now: Stamp) -> Option<Moment> {
        let is_full = self.on_their_way.len() >= ON_THEIR_WAY;
        let back = self.on_their_way.values().min().copied();
        let due = match self.due.first() {
            _ if is_full => None,
            _ if !self.ready.is_empty() => Some(now.moment),
            Some((at, _)) => Some(now.moment + at.since(now.reading.wall).min(RECHECK)),
            None => None,
        };
        due.into_iter().chain(back).min()
    }

    /// Runs that the runner has dropped are due again.
    fn take_back(&mut self, records: &Records, scheduler: &Scheduler, now: Moment) {
        let late = self.on_their_way.iter().filter(|(_, until)| **until <= now);
        let late: Vec<String> = late.map(|(key, _)| key.clone()).collect();
        late.iter().for_each(|key| self.changed(key, records, scheduler));
    }

    fn first_due(&self, wall: Timestamp) -> Option<String> {
        if let Some((_, key)) = self.decided.last().filter(|(last, _)| is_ahead(*last, wall)) {
            return Some(key.clone());
        }
        if self.on_their_way.len() >= ON_THEIR_WAY {
            return None;
        }
        let due = self.due.first().filter(|(at, _)| *at <= wall).map(|(_, key)| key);
        self.ready.first().or(due).cloned()
    }

    fn decide_one(
        &self,
        key: &str,
        records: &Records,
        scheduler: &Scheduler,
        wall: Timestamp,
    ) -> Decided {
        let Some(Entry { version, plan, times, jitter, .. }) = self.entries.get(key) else {
            return Decided::Nothing;
        };
        let mut position = position(records, key);
        let (version, after) = (*version, decided(plan, &position, wall));
        if is_ahead(after, wall) {
            let (decided, now) = (after.rfc3339(), wall.rfc3339());
            tracing::warn!(
                schedule = key,
                decided,
                now,
                "the wall clock was set back: the times of the schedule after now are due again"
            );
            position.set_back(plan, wall);
            return Decided::SetBack(position);
        }
        let needs_job =
            |due| Decided::NeedsJob(DueTime { key: key.to_owned(), version, after, due });
        let live = live(&position, scheduler);
        if let Some(due) = position.queued.first().filter(|_| live.is_empty()) {
            return needs_job(*due);
        }
        let Next { run, missed } = schedule::next(plan, times, after, wall - *jitter);
        if let Some((due, reason)) = missed {
            position.decided(due);
            position.note(Run::without_job(due, wall, RunOutcome::Skipped, reason));
            return Decided::Without(position);
        }
        let Some(due) = run else { return Decided::Nothing };
        match overlap(plan, &position, &live, due, wall) {
            Some(run) => {
                note(&mut position, run);
                Decided::Without(position)
            }
            None => needs_job(due),
        }
    }

    /// It is not due before this moment, unless it changes or its run comes back.
    fn leave(&mut self, key: &str, until: Moment) {
        self.ready.remove(key);
        if let Some(entry) = self.entries.get_mut(key)
            && let Some(at) = entry.at.take()
        {
            self.due.remove(&(at, key.to_owned()));
        }
        self.on_their_way.insert(key.to_owned(), until);
    }
}

/// What is read of a schedule that has not been decided on: nothing.
pub(super) fn position(records: &Records, key: &str) -> Position {
    let record = records.get(&RecordKind::ScheduleState.key(key));
    record.and_then(Position::from_record).unwrap_or_default()
}

/// The write that a state becomes.
pub(super) fn state(key: &str, position: &Position) -> RecordWrite {
    let key: RecordKey = RecordKind::ScheduleState.key(key);
    RecordWrite::json(key, Expected::Anything, position)
}

/// The jobs of the schedule that are live.
pub(super) fn live(position: &Position, scheduler: &Scheduler) -> Vec<JobId> {
    position.live.iter().filter(|job| scheduler.is_live(**job)).copied().collect()
}

/// Up to when every time is decided, by this clock.
pub(super) fn decided(plan: &Plan, position: &Position, wall: Timestamp) -> Timestamp {
    let is_void = |since: &Timestamp| position.void_since == Some(*since) && wall < *since;
    let since = Some(plan.since).filter(|since| !is_void(since));
    position.last_due.max(since).unwrap_or(plan.since)
}

/// Whether only a clock that was wrong can have decided this.
fn is_ahead(decided: Timestamp, wall: Timestamp) -> bool {
    decided.since(wall) > CLOCK_TOLERANCE
}

/// What `Overlap` makes of a due time while jobs are live; none if it gets a job.
pub(super) fn overlap(
    plan: &Plan,
    position: &Position,
    live: &[JobId],
    due: Timestamp,
    now: Timestamp,
) -> Option<Run> {
    let waits = !live.is_empty() || !position.queued.is_empty();
    let without_job = |outcome, reason: String| Some(Run::without_job(due, now, outcome, reason));
    let of_live = || live.last().map_or_else(String::new, |job| format!(" {}", job.short()));
    match plan.overlap {
        Overlap::Skip if !live.is_empty() => without_job(
            RunOutcome::Skipped,
            format!("the earlier job{} was not over, and Overlap is Skip", of_live()),
        ),
        Overlap::Queue if waits && position.queued.len() >= MAX_QUEUED => {
            without_job(RunOutcome::Skipped, format!("{MAX_QUEUED} runs waited already"))
        }
        Overlap::Queue if waits => without_job(
            RunOutcome::Queued,
            format!("it waits for the end of the earlier job{}", of_live()),
        ),
        Overlap::Skip | Overlap::Queue | Overlap::Replace | Overlap::Allow => None,
    }
}

/// The due time is decided without a job.
pub(super) fn note(position: &mut Position, run: Run) {
    position.decided(run.due);
    if run.outcome == RunOutcome::Queued {
        position.queued.push(run.due);
    }
    position.note(run);
}
