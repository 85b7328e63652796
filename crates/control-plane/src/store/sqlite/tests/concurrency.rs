//! Readers and the writer do not wait for each other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api_types::selector::Selector;
use rusqlite::TransactionBehavior;
use scheduler::change::Changes;

use super::directory;
use crate::store::contract::{Put, Random, Sample};
use crate::store::sqlite::jobs::JobRows;
use crate::store::sqlite::{CONNECTIONS, SqliteReads, open};
use crate::store::{JobQuery, Reads, StoreError};

#[test]
fn a_read_sees_the_last_commit_while_another_is_written() {
    let directory = directory();
    let sample = Sample::job(&mut Random(90));
    let (mut store, reads) = open(directory.path()).unwrap();
    let transaction =
        store.connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let mut rows = JobRows::prepare(&transaction).unwrap();
    rows.insert(1, &sample.new, &sample.row).unwrap();
    drop(rows);
    assert_eq!(reads.job(sample.id()).unwrap(), None);
    transaction.commit().unwrap();
    assert!(reads.job(sample.id()).unwrap().is_some());
}

/// Sixty-four conditions that every job passes but the last.
#[test]
fn a_search_that_passes_too_many_jobs_is_ended_and_leaves_its_connection_well() {
    let directory = directory();
    let (mut store, _) = open(directory.path()).unwrap();
    let mut random = Random(92);
    let mut changes = Changes::default();
    for _ in 0..3000 {
        let mut sample = Sample::job(&mut random);
        sample.new.labels.insert("env".to_owned(), "prod".to_owned());
        sample.add_to(&mut changes);
    }
    store.put(1, &changes, &[]).unwrap();
    let mut reads = SqliteReads::open(&directory.path().join("orchestrator.db")).unwrap();
    let absent: Vec<_> = (0..63).map(|n| format!("!a{n}")).collect();
    let selector = Selector::parse(&format!("{},!env", absent.join(","))).unwrap();
    let slow = JobQuery { selector, limit: 1, ..JobQuery::default() };
    assert_eq!(reads.jobs(&slow).unwrap().items.len(), 0);
    reads.search_timeout = Duration::ZERO;
    for _ in 0..2 * CONNECTIONS {
        let found = reads.jobs(&slow);
        assert!(matches!(found, Err(StoreError::LongSearch { .. })), "{found:?}");
        let found = reads.summaries(&slow);
        assert!(matches!(found, Err(StoreError::LongSearch { .. })), "{found:?}");
        // What is no search has no limit on the same connection.
        reads.job_totals().unwrap();
    }
    reads.search_timeout = Duration::from_secs(60);
    assert_eq!(reads.jobs(&slow).unwrap().items.len(), 0);
}

/// More readers than connections; none of them sees half a commit or misses an old one.
#[test]
fn many_readers_see_whole_commits() {
    const GROUP: usize = 20;
    let directory = directory();
    let (mut store, reads) = open(directory.path()).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let query = JobQuery { limit: 1000, ..JobQuery::default() };
                let mut seen = 0;
                while !done.load(Ordering::Relaxed) {
                    let found = reads.jobs(&query).unwrap().items.len();
                    assert_eq!(found % GROUP, 0, "half a commit was seen");
                    assert!(found >= seen, "{found} after {seen}");
                    seen = found;
                }
            });
        }
        let mut random = Random(91);
        let outcome = (1..=30).try_for_each(|number| {
            let mut changes = Changes::default();
            (0..GROUP).for_each(|_| Sample::job(&mut random).add_to(&mut changes));
            store.put(number, &changes, &[])
        });
        done.store(true, Ordering::Relaxed);
        outcome.unwrap();
    });
    let query = JobQuery { limit: 1000, ..JobQuery::default() };
    assert_eq!(reads.jobs(&query).unwrap().items.len(), 30 * GROUP);
}
