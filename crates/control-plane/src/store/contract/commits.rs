//! Commits are atomic, numbered, and idempotent; keys and probes.

use api_types::id::IdPrefix;
use api_types::job::JobStateType;
use scheduler::change::Changes;
use scheduler::time::Moment;

use super::samples::{Put, Random, Sample, key, key_row};
use super::{Backend, Store, load};
use crate::store::{Namespaces, Outcome, RequestKey, StoreError, Write};

pub(in crate::store) fn a_repeated_commit_changes_nothing(backend: &impl Backend) {
    let mut random = Random(1);
    let sample = Sample::job(&mut random);
    let (mut store, reads) = backend.open();
    assert_eq!(store.last_commit().unwrap(), 0);
    let mut changes = sample.changes();
    changes.events.push(sample.event(1));
    store.put(1, &changes, &[key_row("a", 10)]).unwrap();
    let before = reads.job(sample.id()).unwrap();

    changes.jobs.get_mut(&sample.id()).unwrap().state = JobStateType::Failed;
    let other = Sample::job(&mut random);
    other.add_to(&mut changes);
    store.put(1, &changes, &[key_row("b", 10)]).unwrap();
    let write = Write::Batch { changes: &changes, keys: &[], records: &[], audit: &[], loads: &[] };
    assert_eq!(store.write(1, Moment(0), write).unwrap(), Outcome::Repeated);

    assert_eq!(reads.job(sample.id()).unwrap(), before);
    assert!(!store.has_job(other.id()).unwrap());
    assert_eq!(store.idempotency(&key("b"), Moment(0)).unwrap(), None);
    assert_eq!(store.last_commit().unwrap(), 1);
}

pub(in crate::store) fn a_commit_that_leaves_a_gap_is_refused(backend: &impl Backend) {
    let sample = Sample::job(&mut Random(2));
    let (mut store, reads) = backend.open();
    store.put(1, &Changes::default(), &[]).unwrap();
    let refused = store.put(3, &sample.changes(), &[]);
    assert!(matches!(refused, Err(StoreError::CommitGap { came: 3, last: 1 })), "{refused:?}");
    assert_eq!(reads.job(sample.id()).unwrap(), None);
    store.put(2, &sample.changes(), &[]).unwrap();
    assert!(reads.job(sample.id()).unwrap().is_some());
}

/// The last of its rows cannot be stored, so none of them is.
pub(in crate::store) fn a_refused_commit_stores_nothing(backend: &impl Backend) {
    let mut random = Random(3);
    let (known, unknown) = (Sample::job(&mut random), Sample::job(&mut random));
    let (mut store, reads) = backend.open();
    let mut changes = known.changes();
    changes.events.extend([known.event(1), unknown.event(2)]);
    let refused = store.put(1, &changes, &[key_row("a", 10)]);
    assert!(matches!(refused, Err(StoreError::Record { .. })), "{refused:?}");
    let mut stateless = known.changes();
    stateless.jobs.clear();
    let refused = store.put(1, &stateless, &[]);
    assert!(matches!(refused, Err(StoreError::Record { .. })), "{refused:?}");

    assert_eq!(store.last_commit().unwrap(), 0);
    assert!(!store.has_job(known.id()).unwrap());
    assert_eq!(store.idempotency(&key("a"), Moment(0)).unwrap(), None);
    assert_eq!(load(store.as_mut()).1.last_seq, 0);
    store.put(1, &known.changes(), &[]).unwrap();
    assert!(reads.job(known.id()).unwrap().is_some());
}

pub(in crate::store) fn an_idempotency_key_is_found_until_it_is_too_old(backend: &impl Backend) {
    let (mut store, _) = backend.open();
    store.put(1, &Changes::default(), &[key_row("k", 100), key_row("ключ", 100)]).unwrap();
    let found =
        |store: &mut dyn Store, oldest| store.idempotency(&key("k"), Moment(oldest)).unwrap();
    assert_eq!(found(store.as_mut(), 100), Some(key_row("k", 100)));
    assert_eq!(found(store.as_mut(), 101), None);
    assert_eq!(store.idempotency(&key("K"), Moment(0)).unwrap(), None);

    store.put(2, &Changes::default(), &[key_row("k", 200)]).unwrap();
    drop(store);
    let (mut store, _) = backend.open();
    assert_eq!(found(store.as_mut(), 101), Some(key_row("k", 200)));
}

pub(in crate::store) fn a_key_belongs_to_its_namespace(backend: &impl Backend) {
    let (mut store, _) = backend.open();
    let other = RequestKey { namespace: "other".to_owned(), ..key("k") };
    let mut theirs = key_row("k", 200);
    theirs.key = other.clone();
    store.put(1, &Changes::default(), &[key_row("k", 100)]).unwrap();
    assert_eq!(store.idempotency(&other, Moment(0)).unwrap(), None);
    store.put(2, &Changes::default(), &[theirs.clone()]).unwrap();
    assert_eq!(store.idempotency(&other, Moment(0)).unwrap(), Some(theirs));
    assert_eq!(store.idempotency(&key("k"), Moment(0)).unwrap(), Some(key_row("k", 100)));
}

pub(in crate::store) fn keys_are_removed_in_parts(backend: &impl Backend) {
    let (mut store, _) = backend.open();
    let keys: Vec<_> = (0..10).map(|n| key_row(&format!("k{n}"), n)).collect();
    store.put(1, &Changes::default(), &keys).unwrap();
    assert_eq!(store.forget_keys(Moment(7), 5).unwrap(), 5);
    assert_eq!(store.forget_keys(Moment(7), 5).unwrap(), 2);
    assert_eq!(store.forget_keys(Moment(7), 5).unwrap(), 0);
    assert_eq!(store.idempotency(&key("k6"), Moment(0)).unwrap(), None);
    assert_eq!(store.idempotency(&key("k7"), Moment(0)).unwrap(), Some(key_row("k7", 7)));
}

pub(in crate::store) fn a_probe_leaves_nothing(backend: &impl Backend) {
    let sample = Sample::job(&mut Random(4));
    let (mut store, reads) = backend.open();
    store.probe().unwrap();
    store.put(2, &sample.changes(), &[]).unwrap();
    let before = reads.job(sample.id()).unwrap();
    store.probe().unwrap();
    assert_eq!(store.last_commit().unwrap(), 3);
    assert_eq!(reads.job(sample.id()).unwrap(), before);
}

pub(in crate::store) fn a_prefix_finds_every_match(backend: &impl Backend) {
    let mut random = Random(5);
    let mut changes = Changes::default();
    let mut ids = Vec::new();
    for tail in 0..5_u64 {
        let mut sample = Sample::job(&mut random);
        let uuid = uuid::Uuid::from_u64_pair(0x12ab_34cd_0000_4000 + tail, tail);
        sample.new.id = api_types::JobId::from_uuid(uuid);
        sample.row.id = sample.new.id;
        let mut execution = sample.execution(&mut random, 0);
        execution.id = api_types::ExecutionId::from_uuid(uuid);
        changes.executions.insert(execution.id, execution);
        sample.add_to(&mut changes);
        ids.push(sample.new.id);
    }
    let other = Sample::job(&mut random);
    other.add_to(&mut changes);
    let (mut store, reads) = backend.open();
    store.put(1, &changes, &[]).unwrap();

    let prefix = IdPrefix::parse("j-12ab34cd", 'j').unwrap();
    assert_eq!(reads.find_jobs(prefix, &Namespaces::All, 10).unwrap(), ids);
    assert_eq!(reads.find_jobs(prefix, &Namespaces::All, 2).unwrap(), ids[..2]);
    let executions = reads.find_executions(prefix, &Namespaces::All, 10).unwrap();
    assert_eq!(executions.iter().map(|id| id.uuid()).collect::<Vec<_>>(), {
        ids.iter().map(|id| id.uuid()).collect::<Vec<_>>()
    });
    let full = IdPrefix::parse(&other.id().to_string(), 'j').unwrap();
    assert_eq!(reads.find_jobs(full, &Namespaces::All, 10).unwrap(), [other.id()]);
    let none = IdPrefix::parse("j-00000000", 'j').unwrap();
    assert_eq!(reads.find_jobs(none, &Namespaces::All, 10).unwrap(), []);
    assert_eq!(reads.find_executions(full, &Namespaces::All, 10).unwrap(), []);
}
