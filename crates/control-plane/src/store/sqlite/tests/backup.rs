//! A backup is the state of one moment, and what is restored uses no number again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use scheduler::change::Changes;

use super::directory;
use crate::store::contract::{Put, Random, Sample};
use crate::store::sqlite::backup::{back_up, has_unfinished_restore, inspect_backup, restore};
use crate::store::sqlite::open;
use crate::store::{EventEntry, EventsQuery, JobQuery, Namespaces, Reads, Store, StoreError};

/// A job of each commit, with an event that has the number of the commit.
fn changes(number: u64) -> (Sample, Changes) {
    let sample = Sample::job(&mut Random(number));
    let mut changes = sample.changes();
    changes.events = vec![sample.event(number)];
    (sample, changes)
}

#[test]
fn a_backup_under_load_has_all_that_was_committed_before_it_and_nothing_in_part() {
    let (service, backup, restored) = (directory(), directory(), directory());
    let (mut store, _reads) = open(service.path()).unwrap();
    let (committed, stop) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for number in 1.. {
                store.put(number, &changes(number).1, &[]).unwrap();
                committed.store(number, Ordering::SeqCst);
                if stop.load(Ordering::SeqCst) == 1 {
                    return;
                }
            }
        });
        let began = Instant::now();
        while committed.load(Ordering::SeqCst) < 50 {
            assert!(began.elapsed() < Duration::from_secs(60), "no commits");
            std::thread::yield_now();
        }
        let before = committed.load(Ordering::SeqCst);
        back_up(service.path(), backup.path()).unwrap();
        let after = committed.load(Ordering::SeqCst) + 1;
        stop.store(1, Ordering::SeqCst);
        let contents = inspect_backup(backup.path()).unwrap();
        assert!((before..=after).contains(&contents.jobs), "{before} {contents:?} {after}");
        assert_eq!(contents.last_event, contents.jobs, "an event of each commit");
    });
    let last = committed.load(Ordering::SeqCst);
    drop(store);

    restore(backup.path(), restored.path(), || {
        assert!(has_unfinished_restore(restored.path()));
        Ok::<_, StoreError>(())
    })
    .unwrap();
    assert!(!has_unfinished_restore(restored.path()));
    let (_, original) = open(service.path()).unwrap();
    let (mut store, reads) = open(restored.path()).unwrap();
    let jobs = inspect_backup(backup.path()).unwrap().jobs;
    for number in 1..=jobs {
        let (sample, _) = changes(number);
        assert_eq!(reads.job(sample.id()).unwrap(), original.job(sample.id()).unwrap());
    }
    let query = JobQuery { limit: 1, ..JobQuery::default() };
    assert_eq!(reads.jobs(&query).unwrap().items.len(), 1);

    // No number that the service has used since the backup is used again.
    let progress = store.take().unwrap();
    assert!(progress.last_commit > last && reads.last_event().unwrap() > last);
    let next = progress.last_commit + 1;
    let sample = Sample::job(&mut Random(next));
    let mut changes = sample.changes();
    let event = reads.last_event().unwrap() + 1;
    changes.events = vec![sample.event(event)];
    store.put(next, &changes, &[]).unwrap();
    let query = EventsQuery {
        after: jobs,
        job: None,
        namespaces: Namespaces::All,
        event_type: None,
        since: api_types::Timestamp::ZERO,
        limit: 100,
    };
    let entries = reads.events(&query).unwrap().entries;
    let is_gap = |entry: &EventEntry| matches!(entry, EventEntry::Gap { from, to } if (*from, *to) == (jobs + 1, event - 1));
    assert!(entries.len() == 2 && is_gap(&entries[0]), "{entries:?}");
    assert!(matches!(&entries[1], EventEntry::Event(row) if row.seq == event));
}

#[test]
fn what_is_no_backup_is_refused_and_a_directory_in_use_too() {
    let (service, empty, other) = (directory(), directory(), directory());
    let no_step = || Ok::<_, StoreError>(());
    assert!(matches!(back_up(empty.path(), other.path()), Err(StoreError::Io { .. })));
    std::fs::write(other.path().join("orchestrator.db"), "no database").unwrap();
    assert!(inspect_backup(other.path()).is_err());
    let (store, _) = open(service.path()).unwrap();
    let in_use = restore(service.path(), service.path(), no_step);
    assert!(matches!(in_use, Err(StoreError::InUse { .. })), "{in_use:?}");
    drop(store);
}
