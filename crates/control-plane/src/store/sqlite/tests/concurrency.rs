//! Readers and the writer do not wait for each other.

use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::TransactionBehavior;
use scheduler::change::Changes;

use super::directory;
use crate::store::contract::{Put, Random, Sample};
use crate::store::sqlite::jobs::JobRows;
use crate::store::sqlite::open;
use crate::store::{JobQuery, Reads};

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
