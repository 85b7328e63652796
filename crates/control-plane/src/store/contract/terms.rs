//! Every write is a commit with a number under a term; what several requests need is one lookup.

use scheduler::change::Changes;
use scheduler::time::Moment;

use super::samples::{Put, Random, Sample, key, key_row, stamp};
use super::{Backend, Writer};
use crate::store::{Commit, CommitId, Outcome, Removal, Removed, Retention, StoreError, Write};

/// A writer that was replaced stores nothing more, whatever it calls its commit.
pub(in crate::store) fn a_foreign_term_is_fenced(new: &impl Writer) {
    let mut random = Random(6);
    let mut store = new.writer();
    let theirs = store.take().unwrap();
    store.put(1, &Sample::job(&mut random).changes(), &[]).unwrap();
    let ours = store.take().unwrap();
    assert_ne!(ours.term, theirs.term);
    assert_eq!((ours.began_after, ours.last_commit), (1, 1));
    assert_eq!(ours.stamp.unwrap(), store.progress().unwrap().stamp.unwrap());

    let late = Sample::job(&mut random);
    let changes = late.changes();
    let everything = Retention { age: None, count: Some(0) };
    for number in [1, 2, 3] {
        for write in [
            Write::Batch { changes: &changes, keys: &[], records: &[], audit: &[], loads: &[] },
            Write::Removal(Removal::Jobs { retention: everything, rows: 9 }),
            Write::Removal(Removal::Keys { oldest: Moment(0), limit: 9 }),
            Write::Probe,
        ] {
            let id = CommitId { term: theirs.term, number };
            let refused = store.commit(&Commit { id, stamp: stamp(number), write });
            assert!(matches!(refused, Err(StoreError::Fenced)), "{number}: {refused:?}");
        }
    }
    assert!(!store.has_job(late.id()).unwrap());
    assert_eq!(store.last_commit().unwrap(), 1);
    store.put(2, &changes, &[]).unwrap();
    assert!(store.has_job(late.id()).unwrap());
}

/// A number that was committed under another term is no repeat of this one's.
pub(in crate::store) fn a_number_of_an_earlier_term_is_fenced(new: &impl Writer) {
    let sample = Sample::job(&mut Random(7));
    let mut store = new.writer();
    store.put(1, &Changes::default(), &[]).unwrap();
    store.take().unwrap();
    for number in [0, 1] {
        let fenced = store.put(number, &sample.changes(), &[]);
        assert!(matches!(fenced, Err(StoreError::Fenced)), "{number}: {fenced:?}");
    }
    assert!(!store.has_job(sample.id()).unwrap());
    store.put(2, &sample.changes(), &[]).unwrap();
    store.put(2, &sample.changes(), &[]).unwrap();
}

/// Removals and probes have numbers of their own; a scan that finds nothing uses none.
pub(in crate::store) fn every_write_is_numbered(new: &impl Writer) {
    let mut random = Random(8);
    let mut store = new.writer();
    let mut changes = Changes::default();
    super::ended(&mut random, &mut changes, 10, 1);
    store.put(1, &changes, &[key_row("k", 10)]).unwrap();
    let removals = |oldest, count| {
        let retention = Retention { age: None, count: Some(count) };
        [
            Write::Removal(Removal::Jobs { retention, rows: 1000 }),
            Write::Removal(Removal::Keys { oldest: Moment(oldest), limit: 9 }),
        ]
    };
    for write in removals(10, 1) {
        assert_eq!(store.write(2, Moment(20), write).unwrap(), Outcome::Idle);
        let gap = store.write(4, Moment(20), write);
        assert!(matches!(gap, Err(StoreError::CommitGap { came: 4, last: 1 })), "{gap:?}");
    }
    assert_eq!(store.last_commit().unwrap(), 1);
    let one = Outcome::Written(Removed { count: 1, more: false });
    for (number, write) in (2..).zip(removals(11, 0)) {
        assert_eq!(store.write(number, Moment(20 + number), write).unwrap(), one);
        assert_eq!(store.write(number, Moment(50), write).unwrap(), Outcome::Repeated);
        let progress = store.progress().unwrap();
        assert_eq!(progress.last_commit, number);
        assert_eq!(progress.stamp.unwrap().moment, Moment(20 + number));
    }
    store.write(4, Moment(30), Write::Probe).unwrap();
    assert_eq!(store.last_commit().unwrap(), 4);
    assert_eq!(store.idempotency(&key("k"), Moment(0)).unwrap(), None);
}

pub(in crate::store) fn many_keys_and_ids_are_looked_up_together(new: &impl Writer) {
    let mut random = Random(9);
    let mut store = new.writer();
    let stored: Vec<_> = (0..5).map(|_| Sample::job(&mut random)).collect();
    let mut changes = Changes::default();
    stored.iter().for_each(|sample| sample.add_to(&mut changes));
    store.put(1, &changes, &[key_row("a", 10), key_row("b", 20), key_row("c", 30)]).unwrap();
    let keys = ["a", "b", "c", "d"].map(key);
    let mut ids: Vec<_> = stored[1..].iter().map(Sample::id).collect();
    ids.push(random.job_id());
    let known = store.lookup(&keys, Moment(20), &ids).unwrap();
    let mut found: Vec<_> = known.keys.into_values().collect();
    found.sort_by(|a, b| a.key.cmp(&b.key));
    assert_eq!(found, [key_row("b", 20), key_row("c", 30)]);
    assert_eq!(known.jobs, ids[..4].iter().copied().collect());
    let none = store.lookup(&[], Moment(0), &[]).unwrap();
    assert!(none.keys.is_empty() && none.jobs.is_empty());
}

pub(in crate::store) fn a_term_outlives_its_process(backend: &impl Backend) {
    let (mut store, _) = backend.open();
    store.put(1, &Changes::default(), &[]).unwrap();
    let taken = store.take().unwrap();
    drop(store);
    let (mut store, _) = backend.open();
    assert_eq!(store.progress().unwrap(), taken);
    assert_ne!(store.take().unwrap().term, taken.term);
}
