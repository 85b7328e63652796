//! Records other than the scheduler's, and what is found within some namespaces.

use std::collections::BTreeSet;

use api_types::id::IdPrefix;
use scheduler::change::Changes;

use super::Backend;
use super::samples::{Put, Random, Sample, stamp};
use crate::records::{Record, RecordKind, RecordRow};
use crate::store::{LiveExecutionsQuery, Namespaces, Store, Write};

fn row(kind: RecordKind, key: &str, version: u64, value: Option<&str>) -> RecordRow {
    RecordRow { key: kind.key(key), version, value: value.map(Into::into) }
}

fn put(store: &mut dyn Store, number: u64, records: &[RecordRow]) {
    let (changes, moment) = (Changes::default(), stamp(number).moment);
    store
        .write(
            number,
            moment,
            Write::Batch { changes: &changes, keys: &[], records, audit: &[], loads: &[] },
        )
        .unwrap();
}

pub(in crate::store) fn records_outlive_the_process(backend: &impl Backend) {
    let (mut store, _) = backend.open();
    assert_eq!(store.records().unwrap(), []);
    let (token, name) = (RecordKind::Token, RecordKind::Namespace);
    let first = [
        row(token, "a", 1, Some("1")),
        row(name, "a", 1, Some("ü\0")),
        row(name, "b", 1, Some("")),
    ];
    put(store.as_mut(), 1, &first);
    put(store.as_mut(), 2, &[row(token, "a", 2, Some("2")), row(name, "b", 2, None)]);
    drop(store);
    let (mut store, _) = backend.open();
    let kept =
        |row: RecordRow| Record { key: row.key, version: row.version, value: row.value.unwrap() };
    let mut found = store.records().unwrap();
    found.sort_by(|a, b| a.key.cmp(&b.key));
    let expected = [row(token, "a", 2, Some("2")), row(name, "a", 1, Some("ü\0"))].map(kept);
    assert_eq!(found, expected);
}

pub(in crate::store) fn namespaces_bound_what_is_found(backend: &impl Backend) {
    let mut random = Random(9);
    let mut changes = Changes::default();
    let mut jobs = Vec::new();
    for (tail, namespace) in (0_u64..).zip(["a", "b", "c"]) {
        let mut sample = Sample::job(&mut random);
        let uuid = uuid::Uuid::from_u64_pair(0x12ab_34cd_0000_4000 + tail, tail);
        sample.new.id = api_types::JobId::from_uuid(uuid);
        sample.row.id = sample.new.id;
        sample.new.namespace = namespace.to_owned();
        let mut execution = sample.execution(&mut random, 0);
        execution.id = api_types::ExecutionId::from_uuid(uuid);
        execution.compute = api_types::execution::ComputeState::BidAccepted;
        changes.executions.insert(execution.id, execution);
        sample.add_to(&mut changes);
        jobs.push(sample.id());
    }
    let (mut store, reads) = backend.open();
    store.put(1, &changes, &[]).unwrap();

    let prefix = IdPrefix::parse("j-12ab34cd", 'j').unwrap();
    let only = |names: &[&str]| {
        Namespaces::Only(names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>())
    };
    for (namespaces, expected) in [
        (only(&["b"]), &jobs[1..2]),
        (only(&["a", "c", "x"]), &[jobs[0], jobs[2]]),
        (only(&[]), &[]),
        (Namespaces::All, &jobs),
    ] {
        assert_eq!(reads.find_jobs(prefix, &namespaces, 9).unwrap(), expected);
        let executions = reads.find_executions(prefix, &namespaces, 9).unwrap();
        assert!(executions.iter().map(|id| id.uuid()).eq(expected.iter().map(|id| id.uuid())));
        assert_eq!(reads.jobs_within(&jobs, &namespaces).unwrap(), expected);
        let query =
            LiveExecutionsQuery { namespaces, node: None, reverse: false, after: None, limit: 9 };
        let live = reads.live_executions(&query).unwrap().items;
        assert!(live.iter().map(|live| live.execution.row.job).eq(expected.iter().copied()));
    }
    assert_eq!(reads.namespace_of(jobs[2]).unwrap().as_deref(), Some("c"));
    assert_eq!(reads.namespace_of(random.job_id()).unwrap(), None);
    assert!(reads.has_jobs("c").unwrap() && !reads.has_jobs("x").unwrap());
}
