//! The write-ahead log, under commits that never pause.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use scheduler::change::Changes;

use super::{Backend, directory};
use crate::store::contract::{Put, Random, Sample, load};
use crate::store::sqlite::checkpoint::{LOG_BYTES, RESTART_PAGES};

/// A log that is reused only while no read uses it grows for as long as one always does.
#[test]
fn the_log_stays_bounded_while_reads_overlap() {
    const COMMITS: u64 = 300;
    const JOBS: u64 = 20;
    let directory = directory();
    let (mut store, _) = directory.open();
    let path = directory.path().join("orchestrator.db");
    let done = AtomicBool::new(false);
    let largest = std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
                let connection = Connection::open_with_flags(&path, flags).unwrap();
                while !done.load(Ordering::Relaxed) {
                    connection.execute_batch("BEGIN; SELECT count(*) FROM job LIMIT 1").unwrap();
                    std::thread::sleep(Duration::from_millis(50));
                    connection.execute_batch("COMMIT").unwrap();
                }
            });
        }
        // As the store's own thread does where the disk is slow.
        scope.spawn(|| {
            let connection = Connection::open(&path).unwrap();
            while !done.load(Ordering::Relaxed) {
                let _ = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let mut random = Random(161);
        let mut largest = 0;
        for number in 1..=COMMITS {
            let mut changes = Changes::default();
            for _ in 0..JOBS {
                let mut sample = Sample::job(&mut random);
                sample.new.spec_json = "x".repeat(75_000).into();
                sample.add_to(&mut changes);
            }
            store.put(number, &changes, &[]).unwrap();
            let log = directory.path().join("orchestrator.db-wal");
            largest = largest.max(std::fs::metadata(log).unwrap().len());
        }
        done.store(true, Ordering::Relaxed);
        largest
    });
    let most = u64::from(RESTART_PAGES.unsigned_abs()) * 4096 + (4 << 20);
    assert!(largest < most, "the log had {largest} bytes");
}

#[test]
fn the_log_stays_bounded_while_commits_continue() {
    /// About a megabyte and a half each.
    const COMMITS: u64 = 120;
    const JOBS: u64 = 20;
    let directory = directory();
    let (mut store, _) = directory.open();
    let mut random = Random(160);
    let length = |name: &str| {
        let file = std::fs::metadata(directory.path().join(name)).unwrap();
        i64::try_from(file.len()).unwrap()
    };
    for number in 1..=COMMITS {
        let mut changes = Changes::default();
        for _ in 0..JOBS {
            let mut sample = Sample::job(&mut random);
            sample.new.spec_json = "x".repeat(75_000).into();
            sample.add_to(&mut changes);
        }
        store.put(number, &changes, &[]).unwrap();
        let log = length("orchestrator.db-wal");
        assert!(log < LOG_BYTES + (4 << 20), "after commit {number} the log has {log} bytes");
    }
    // All but the log's allowance is in the file before the store closes.
    let written = i64::try_from(COMMITS * JOBS * 75_000).unwrap();
    let file = length("orchestrator.db");
    assert!(file + LOG_BYTES > written && file > 32 << 20, "{file} of {written} bytes");
    drop(store);
    let (mut store, _) = directory.open();
    assert_eq!(load(store.as_mut()).0.len() as u64, COMMITS * JOBS);
}
