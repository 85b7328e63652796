//! Retention: what is removed, in which order, how much at a time, and that nothing remains.

use std::time::Duration;

use api_types::execution::ComputeState;
use api_types::id::IdPrefix;
use api_types::job::JobStateType;
use api_types::selector::Selector;
use api_types::{JobId, Timestamp};
use scheduler::change::{Changes, EventSubject, ExecutionRow};
use scheduler::time::Moment;

use super::outputs::output;
use super::samples::{Put, Random, Sample, key, key_row};
use super::{Backend, load};
use crate::store::{
    EventEntry, EventsQuery, ExecutionQuery, HistoryQuery, JobQuery, Namespaces, Reads, Removed,
    ResultQuery, Retention, Store,
};

/// More rows than any job here has.
const MANY_ROWS: u32 = 1_000_000;

const EVERYTHING: Retention = Retention { age: None, count: Some(0) };

/// A job that ended at this second, with executions that have every kind of row.
pub(in crate::store) struct Ended {
    pub sample: Sample,
    executions: Vec<ExecutionRow>,
}

fn second(seconds: i64) -> Timestamp {
    Timestamp(seconds * 1_000_000_000)
}

/// This many seconds after the service began.
fn after(seconds: i64) -> Moment {
    Moment(seconds.unsigned_abs() * 1_000_000_000)
}

pub(in crate::store) fn ended(
    random: &mut Random,
    changes: &mut Changes,
    end: i64,
    executions: u32,
) -> Ended {
    let mut sample = Sample::job(random);
    let id = sample.id();
    sample.new.labels = [("env".to_owned(), "prod".to_owned()), ("n".to_owned(), end.to_string())]
        .into_iter()
        .collect();
    let spec = serde_json::json!({ "Name": id, "Labels": sample.new.labels });
    sample.new.spec_json = spec.to_string().into();
    sample.row.state = JobStateType::Completed;
    sample.row.live = false;
    sample.row.modify_time = second(end);
    sample.row.ended_at = Some(after(end));
    sample.add_to(changes);
    let rows: Vec<_> = (0..executions)
        .map(|index| {
            let mut row = sample.execution(random, index);
            row.compute = ComputeState::Completed;
            row
        })
        .collect();
    for row in &rows {
        changes.executions.insert(row.id, row.clone());
        changes.outputs.push(output(row.id, "hello"));
        for _ in 0..3 {
            let mut event = sample.event(changes.events.len() as u64 + 1);
            event.time = second(end);
            event.subject = EventSubject::Execution {
                job: id,
                id: row.id,
                node: row.node,
                previous: ComputeState::New,
                new: ComputeState::Completed,
            };
            changes.events.push(event);
        }
    }
    Ended { sample, executions: rows }
}

/// Whether any read returns it.
fn is_seen(reads: &dyn Reads, store: &mut dyn Store, job: &Ended) -> bool {
    let id = job.sample.id();
    let mut seen = vec![reads.job(id).unwrap().is_some(), store.has_job(id).unwrap()];
    let prefix = IdPrefix::parse(&id.to_string(), 'j').unwrap();
    seen.push(!reads.find_jobs(prefix, &Namespaces::All, 1).unwrap().is_empty());
    for labels in
        ["", "env=prod", "env", &format!("n={}", job.sample.row.modify_time.0 / 1_000_000_000)]
    {
        let query = JobQuery {
            selector: Selector::parse(labels).unwrap(),
            limit: 1000,
            ..JobQuery::default()
        };
        seen.push(reads.jobs(&query).unwrap().items.iter().any(|found| found.id == id));
    }
    let query = ExecutionQuery {
        job: id,
        order: Default::default(),
        reverse: false,
        states: Vec::new(),
        slots: None,
        after: None,
        limit: 1,
    };
    seen.push(!reads.executions(&query).unwrap().items.is_empty());
    let query = HistoryQuery {
        job: id,
        since: Timestamp::ZERO,
        event_type: None,
        execution: None,
        node: None,
        after: None,
        limit: 1,
    };
    seen.push(!reads.history(&query).unwrap().items.is_empty());
    let query = ResultQuery { job: id, after: None, limit: 1 };
    seen.push(!reads.results(&query).unwrap().items.is_empty());
    for execution in &job.executions {
        seen.push(reads.execution(execution.id).unwrap().is_some());
        let prefix = IdPrefix::parse(&execution.id.to_string(), 'e').unwrap();
        seen.push(!reads.find_executions(prefix, &Namespaces::All, 1).unwrap().is_empty());
    }
    let query = EventsQuery {
        after: 0,
        job: None,
        namespaces: Namespaces::All,
        event_type: None,
        since: Timestamp::ZERO,
        limit: 100_000,
    };
    let entries = reads.events(&query).unwrap().entries;
    seen.push(
        entries
            .iter()
            .any(|entry| matches!(entry, EventEntry::Event(event) if event.job() == Some(id))),
    );
    let first = seen[0];
    assert!(seen.iter().all(|seen| *seen == first), "only some reads return it: {seen:?}");
    first
}

/// Prunes until nothing is left; returns the number of calls.
fn prune_all(store: &mut dyn Store, retention: &Retention, rows: u32) -> u32 {
    let mut calls = 1;
    while store.prune(after(1_000_000), retention, rows).unwrap().more {
        calls += 1;
    }
    calls
}

pub(in crate::store) fn a_job_is_removed_with_everything_that_belongs_to_it(
    backend: &impl Backend,
) {
    let mut random = Random(120);
    let (mut store, reads) = backend.open();
    let mut changes = Changes::default();
    let goes = ended(&mut random, &mut changes, 10, 5);
    let stays = ended(&mut random, &mut changes, 20, 5);
    store.put(1, &changes, &[key_row("k", 10)]).unwrap();
    assert!(is_seen(reads.as_ref(), store.as_mut(), &goes));
    let retention = Retention { age: None, count: Some(1) };
    let pruned = store.prune(after(0), &retention, MANY_ROWS).unwrap();
    assert_eq!(pruned, Removed { count: 1, more: false });
    assert!(!is_seen(reads.as_ref(), store.as_mut(), &goes));
    assert!(is_seen(reads.as_ref(), store.as_mut(), &stays));
    assert_eq!(store.idempotency(&key("k"), Moment(0)).unwrap(), Some(key_row("k", 10)));
    // The same job may return, as one with a chosen ID does.
    store.put(3, &goes.sample.changes(), &[]).unwrap();
    assert!(reads.job(goes.sample.id()).unwrap().is_some());
    let query = ExecutionQuery {
        job: goes.sample.id(),
        order: Default::default(),
        reverse: false,
        states: Vec::new(),
        slots: None,
        after: None,
        limit: 9,
    };
    assert_eq!(reads.executions(&query).unwrap().items, []);
}

pub(in crate::store) fn jobs_that_ended_first_are_removed_first(backend: &impl Backend) {
    let mut random = Random(121);
    let (mut store, reads) = backend.open();
    let mut changes = Changes::default();
    let ends = [50, 10, 40, 20, 30];
    let jobs = ends.map(|end| ended(&mut random, &mut changes, end, 1));
    store.put(1, &changes, &[]).unwrap();
    let kept = |store: &mut dyn Store| {
        let mut kept: Vec<_> = ends
            .iter()
            .zip(&jobs)
            .filter(|(_, job)| is_seen(reads.as_ref(), store, job))
            .map(|(end, _)| *end)
            .collect();
        kept.sort_unstable();
        kept
    };
    let by_count = |count| Retention { age: None, count: Some(count) };
    assert_eq!(prune_all(store.as_mut(), &by_count(4), MANY_ROWS), 1);
    assert_eq!(kept(store.as_mut()), [20, 30, 40, 50]);
    let by_age = |seconds| Retention { age: Some(Duration::from_secs(seconds)), count: None };
    store.prune(after(100), &by_age(80), MANY_ROWS).unwrap();
    assert_eq!(kept(store.as_mut()), [20, 30, 40, 50], "at the bound it is kept");
    store.prune(after(100), &by_age(65), MANY_ROWS).unwrap();
    assert_eq!(kept(store.as_mut()), [40, 50]);
    let both = Retention { count: Some(1), ..by_age(55) };
    store.prune(after(100), &both, MANY_ROWS).unwrap();
    assert_eq!(kept(store.as_mut()), [50]);
}

pub(in crate::store) fn the_namespace_with_the_most_finished_jobs_loses_its_oldest(
    backend: &impl Backend,
) {
    let mut random = Random(125);
    let (mut store, reads) = backend.open();
    // Every other job is stored first while it lives.
    let mut add = |store: &mut dyn Store, namespace: &str, ends: &[i64]| -> Vec<JobId> {
        let mut changes = Changes::default();
        let jobs: Vec<_> =
            ends.iter().map(|end| ended(&mut random, &mut changes, *end, 0).sample.id()).collect();
        for job in &mut changes.new_jobs {
            job.namespace = namespace.to_owned();
        }
        let rows = changes.jobs.clone();
        for id in jobs.iter().step_by(2) {
            let row = changes.jobs.get_mut(id).unwrap();
            (row.live, row.ended_at) = (true, None);
        }
        for changes in [changes, Changes { jobs: rows, ..Changes::default() }] {
            let number = store.last_commit().unwrap() + 1;
            store.put(number, &changes, &[]).unwrap();
        }
        jobs
    };
    let left = |jobs: &[JobId]| {
        jobs.iter().map(|id| reads.job(*id).unwrap().is_some()).collect::<Vec<_>>()
    };
    let by_count = |count| Retention { age: None, count: Some(count) };
    let quiet = add(store.as_mut(), "quiet", &[10, 11, 12]);
    let loud = add(store.as_mut(), "loud", &[20, 21, 22, 23, 24]);
    prune_all(store.as_mut(), &by_count(6), MANY_ROWS);
    assert_eq!((left(&quiet), left(&loud)), (vec![true; 3], vec![false, false, true, true, true]));
    // The counts follow what ends and what is removed from then on.
    let more = add(store.as_mut(), "quiet", &[30, 31, 32, 33]);
    prune_all(store.as_mut(), &by_count(6), MANY_ROWS);
    assert_eq!((left(&quiet), left(&more)), (vec![false; 3], vec![false, true, true, true]));
    assert_eq!(left(&loud), [false, false, true, true, true]);
    // Age knows no namespace.
    let by_age = Retention { age: Some(Duration::from_secs(77)), count: None };
    store.prune(after(100), &by_age, MANY_ROWS).unwrap();
    assert_eq!(
        (left(&loud), left(&more)),
        (vec![false, false, false, true, true], vec![false, true, true, true])
    );
}

pub(in crate::store) fn a_large_job_is_removed_in_small_parts(backend: &impl Backend) {
    const ROWS: u32 = 50;
    let mut random = Random(122);
    let (mut store, reads) = backend.open();
    let mut changes = Changes::default();
    let large = ended(&mut random, &mut changes, 10, 400);
    let small: Vec<_> = (0..30).map(|n| ended(&mut random, &mut changes, 20 + n, 1)).collect();
    store.put(1, &changes, &[]).unwrap();
    let first = store.prune(after(0), &EVERYTHING, ROWS).unwrap();
    assert_eq!(first, Removed { count: 1, more: true });
    assert!(!is_seen(reads.as_ref(), store.as_mut(), &large));
    assert!(small.iter().all(|job| is_seen(reads.as_ref(), store.as_mut(), job)));
    // 400 executions with an output, a result and three events each.
    let rows = 400 * (2 + 1 + 3) + 30 * 16;
    let calls = prune_all(store.as_mut(), &EVERYTHING, ROWS);
    assert!(calls >= rows / (ROWS + 16), "{calls} calls: some were too large");
    assert!(calls <= 2 * rows / ROWS, "{calls} calls: some did nothing");
    assert!(!small.iter().any(|job| is_seen(reads.as_ref(), store.as_mut(), job)));
    assert_eq!(store.prune(after(0), &EVERYTHING, ROWS).unwrap(), Removed::default());
}

pub(in crate::store) fn a_half_removed_job_is_invisible_and_removal_resumes_after_a_restart(
    backend: &impl Backend,
) {
    let mut random = Random(123);
    let (mut store, _) = backend.open();
    let mut changes = Changes::default();
    let old = ended(&mut random, &mut changes, 10, 50);
    store.put(1, &changes, &[]).unwrap();
    assert!(store.prune(after(0), &EVERYTHING, 20).unwrap().more);
    drop(store);

    let (mut store, reads) = backend.open();
    assert!(!is_seen(reads.as_ref(), store.as_mut(), &old));
    // A new job inherits nothing of the other's remaining rows.
    let mut changes = Changes::default();
    let mut new = ended(&mut random, &mut changes, 20, 0);
    let mut event = new.sample.event(1000);
    event.time = second(20);
    changes.events.push(event);
    let execution = new.sample.execution(&mut random, 0);
    changes.executions.insert(execution.id, execution.clone());
    changes.outputs.push(output(execution.id, "new"));
    store.put(3, &changes, &[]).unwrap();
    new.executions.push(execution);
    let forever = Retention::default();
    assert!(prune_all(store.as_mut(), &forever, 20) > 5, "a removal once begun is finished");
    assert!(is_seen(reads.as_ref(), store.as_mut(), &new));
    let query = ExecutionQuery {
        job: new.sample.id(),
        order: Default::default(),
        reverse: false,
        states: Vec::new(),
        slots: None,
        after: None,
        limit: 100,
    };
    assert_eq!(reads.executions(&query).unwrap().items.len(), 1);
    assert!(!is_seen(reads.as_ref(), store.as_mut(), &old));
}

pub(in crate::store) fn live_jobs_and_those_within_bounds_are_kept(backend: &impl Backend) {
    let mut random = Random(124);
    let (mut store, reads) = backend.open();
    let mut changes = Changes::default();
    let live = Sample::job(&mut random);
    live.add_to(&mut changes);
    // Stopped, but an execution has not ended yet.
    let mut stopping = Sample::job(&mut random);
    stopping.row.state = JobStateType::Stopped;
    stopping.add_to(&mut changes);
    store.put(1, &changes, &[]).unwrap();
    assert_eq!(store.prune(after(0), &EVERYTHING, MANY_ROWS).unwrap(), Removed::default());

    // Once it has ended it counts as one job, however often its row is written.
    let mut changes = Changes::default();
    (stopping.row.live, stopping.row.ended_at) = (false, Some(after(1)));
    changes.jobs.insert(stopping.id(), stopping.row.clone());
    store.put(2, &changes, &[]).unwrap();
    store.put(3, &changes, &[]).unwrap();
    let one = Retention { age: None, count: Some(1) };
    assert_eq!(store.prune(after(0), &one, MANY_ROWS).unwrap(), Removed::default());
    assert_eq!(
        store.prune(after(0), &EVERYTHING, MANY_ROWS).unwrap(),
        Removed { count: 1, more: false }
    );
    assert!(reads.job(stopping.id()).unwrap().is_none());
    assert!(reads.job(live.id()).unwrap().is_some());
    assert_eq!(load(store.as_mut()).0.len(), 1);
}
