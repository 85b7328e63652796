//! A schedule with many due times, some of them long past when the world begins.
//!
//! Its jobs fit on no node and end quickly, so that they leave the rest of a world as it is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api_types::job::{Constraint, JobSpec};
use api_types::schedule::{CatchUp, Overlap, RunOutcome};
use api_types::{JobId, Timestamp};
use control_plane::batch::{Batch, Content, NumberedCommit};
use control_plane::clock::Stamp;
use control_plane::records::{Record, RecordKind, RecordRow};
use control_plane::schedule::{self, Definition, Plan, Position, SCHEDULED_TIME_META};
use control_plane::step::{DueRun, DueTime, Submission};
use control_plane::store::memory::{MemoryStore, spec_json};
use control_plane::store::{CommitId, Store};
use scheduler::input::Submit;
use scheduler::time::Moment;
use uuid::Uuid;

use crate::random::Random;
use crate::workload;

const NAME: &str = "every-minute";

/// Fewer than a hundred times, which is what one absence catches up, on the day of the world alone: a
/// wall clock that is ahead reaches them all.
const CRON: &str = "* 21-22 14 11 *";

/// How long before the world's beginning it was put.
const PUT_BEFORE: Duration = Duration::from_mins(45);

/// How long the runner takes for a check, so that a crash finds runs on their way.
pub(super) const CHECK: Duration = Duration::from_millis(700);

/// Due times that a process which serves has decided after this time.
const DECIDED_AFTER: Duration = Duration::from_secs(60);

/// IDs of its jobs begin here.
const FIRST_ID: u128 = 1 << 100;

fn key() -> String {
    schedule::key("default", NAME)
}

fn plan(epoch: Timestamp) -> Plan {
    Plan {
        cron: CRON.to_owned(),
        time_zone: "UTC".to_owned(),
        overlap: Overlap::Allow,
        catch_up: CatchUp::All,
        catch_up_seconds: 0,
        jitter_seconds: 0,
        paused: false,
        since: epoch - PUT_BEFORE,
    }
}

/// Stores it, before any process begins.
pub(super) fn put(store: &mut MemoryStore, stamp: Stamp) {
    let now = stamp.reading.wall;
    let definition = Definition { plan: plan(now), job: serde_json::Value::Null, create_time: now };
    let value = serde_json::to_string(&definition).expect("plain data");
    let key = RecordKind::Schedule.key(key());
    let row = RecordRow { key, version: 1, value: Some(value.into()) };
    let batch = Batch { records: vec![row], ..Batch::default() };
    let term = store.take().expect("memory answers").term;
    let id = CommitId { term, number: 1 };
    let stamp = Stamp { moment: Moment::ZERO, ..stamp };
    let commit = NumberedCommit { id, stamp, content: Content::Batch(Arc::new(batch)) };
    commit.write_to(store).expect("memory has room");
}

/// What the runner makes of a due time.
pub(super) fn checked(time: DueTime, number: u64) -> DueRun {
    let mut spec = workload::plain(&mut Random::new(0), "0.25", 50);
    let values = vec!["nowhere".to_owned()];
    spec.constraints =
        vec![Constraint { key: "zone".to_owned(), operator: "=".to_owned(), values }];
    spec.tasks[0].timeouts.queue_timeout = 1;
    spec.meta = BTreeMap::from([(SCHEDULED_TIME_META.to_owned(), time.due.rfc3339_seconds())]);
    let id = JobId::from_uuid(Uuid::from_u128(FIRST_ID + u128::from(number)));
    let submit = Submit::new(id, spec.clone().into(), spec_json(&spec));
    let submission = Submission { submit, id_given: false, warnings: Vec::new(), key: None };
    DueRun { time, checked: Ok(Box::new(submission)) }
}

fn record(store: &MemoryStore, kind: RecordKind) -> Option<Record> {
    store.record(&kind.key(key())).cloned()
}

fn position(store: &MemoryStore) -> Position {
    let record = record(store, RecordKind::ScheduleState);
    record.as_ref().and_then(Position::from_record).unwrap_or_default()
}

/// The due times of its jobs.
fn started(store: &MemoryStore) -> Vec<String> {
    let specs = store
        .new_jobs
        .values()
        .map(|job| serde_json::from_str::<JobSpec>(&job.spec_json).expect("what was submitted"));
    specs.filter_map(|spec| spec.meta.get(SCHEDULED_TIME_META).cloned()).collect()
}

/// How many of the stored jobs are its.
pub(super) fn jobs(store: &MemoryStore) -> usize {
    started(store).len()
}

/// Whether every time that is due by the wall clock is decided.
pub(super) fn has_caught_up(store: &MemoryStore, wall: Timestamp) -> bool {
    let Some(definition) = record(store, RecordKind::Schedule) else { return true };
    let definition = Definition::from_record(&definition).expect("as it was put");
    let since = definition.plan.since;
    let decided = position(store).last_due.unwrap_or(since).max(since);
    let times = definition.plan.times().expect("as it was put");
    times.after(decided).is_none_or(|due| due + DECIDED_AFTER > wall)
}

/// Each due time up to the last one that was decided has exactly one job: nothing forbids any. Where
/// the clock was set back by far, it may have another one.
pub(super) fn each_due_time_has_one_job(
    store: &MemoryStore,
    was_set_back: bool,
) -> Result<(), String> {
    let Some(definition) = record(store, RecordKind::Schedule) else { return Ok(()) };
    let plan = Definition::from_record(&definition).expect("as it was put").plan;
    let position = position(store);
    if let Some(run) = position.runs.iter().find(|run| run.outcome != RunOutcome::Started) {
        return Err(format!("the run of {} is {}: {}", run.due.rfc3339(), run.outcome, run.reason));
    }
    let mut jobs = started(store);
    jobs.sort();
    if was_set_back {
        let decided = position.last_due.unwrap_or(plan.since).rfc3339_seconds();
        let since = plan.since.rfc3339_seconds();
        jobs.retain(|due| *due > since && *due <= decided);
        jobs.dedup();
    }
    if let Some(twice) = jobs.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("two jobs were started for {}", twice[0]));
    }
    let times = plan.times().expect("as it was put");
    let last = position.last_due.unwrap_or(plan.since);
    let next = |time: &Timestamp| times.after(*time);
    let due = std::iter::successors(times.after(plan.since), next).take_while(|due| *due <= last);
    let due: Vec<_> = due.map(Timestamp::rfc3339_seconds).collect();
    if due != jobs {
        return Err(format!("due were {due:?}, and {jobs:?} have jobs"));
    }
    Ok(())
}
