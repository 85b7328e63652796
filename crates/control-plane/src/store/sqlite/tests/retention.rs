//! Removal leaves nothing in the file but space for new rows.

use std::time::{Duration, Instant};

use api_types::Timestamp;
use rusqlite::{Connection, StatementStatus, params};
use scheduler::change::Changes;
use scheduler::time::Moment;

use super::{Backend, Directory, directory};
use crate::store::contract::{Put, Random, Sample, ended, load};
use crate::store::sqlite::connection::keep_statements;
use crate::store::{Retention, Store};

const EVERYTHING: Retention = Retention { age: None, count: Some(0) };

fn connect(directory: &Directory) -> Connection {
    Connection::open(directory.path().join("orchestrator.db")).unwrap()
}

/// Commits finished jobs, each with this many executions and three events for each.
fn fill(store: &mut dyn Store, random: &mut Random, jobs: u32, executions: u32) {
    let mut changes = Changes::default();
    let last = load(store).1.last_seq;
    for _ in 0..jobs {
        ended(random, &mut changes, 10, executions);
    }
    for event in &mut changes.events {
        event.seq += last;
    }
    let number = store.last_commit().unwrap() + 1;
    store.put(number, &changes, &[]).unwrap();
}

/// The duration of each call.
fn prune(store: &mut dyn Store, rows: u32) -> Vec<Duration> {
    let mut took = Vec::new();
    loop {
        let began = Instant::now();
        let more = store.prune(Moment(0), &EVERYTHING, rows).unwrap().more;
        took.push(began.elapsed());
        if !more {
            return took;
        }
    }
}

#[test]
fn a_statement_is_compiled_once_whatever_limit_is_bound() {
    let directory = directory();
    drop(directory.open());
    let connection = connect(&directory);
    keep_statements(&connection).unwrap();
    let sql = "SELECT seq FROM event WHERE job = ?1 ORDER BY seq LIMIT ?2";
    let mut statement = connection.prepare(sql).unwrap();
    for limit in [256, 1, 768] {
        assert!(!statement.exists(params![1, limit]).unwrap());
    }
    assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
}

#[test]
fn no_row_of_a_removed_job_is_left_in_any_table() {
    let directory = directory();
    let mut random = Random(130);
    let (mut store, _) = directory.open();
    fill(store.as_mut(), &mut random, 20, 10);
    // A label in no specification that this release can read.
    let mut changes = Changes::default();
    let mut odd = Sample::job(&mut random);
    odd.new.labels = [("env".to_owned(), "odd".to_owned())].into();
    odd.new.spec_json = "{".into();
    (odd.row.live, odd.row.ended_at) = (false, Some(Moment(1)));
    odd.add_to(&mut changes);
    changes.pending_slots.insert((odd.id(), 0), Some(odd.pending_slot(&mut random, 0)));
    store.put(2, &changes, &[]).unwrap();
    let connection = connect(&directory);
    let mut tables = connection
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        .unwrap();
    let tables: Vec<String> =
        tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let counts = || -> Vec<(String, i64)> {
        let count = |table: &String| {
            let sql = format!("SELECT count(*) FROM {table}");
            (table.clone(), connection.query_row(&sql, [], |row| row.get(0)).unwrap())
        };
        tables.iter().map(count).filter(|(_, rows)| *rows > 0).collect()
    };
    assert!(counts().len() >= 8, "{:?}", counts());
    prune(store.as_mut(), 64);
    let left = ["progress", "format"].map(|table| (table.to_owned(), 1));
    assert_eq!(counts(), left);
    let ended = "SELECT ended_jobs FROM progress";
    assert_eq!(connection.query_row(ended, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
}

#[test]
fn the_file_does_not_grow_over_rounds_of_filling_and_pruning() {
    let directory = directory();
    let mut random = Random(131);
    let (mut store, _) = directory.open();
    let pages = || -> i64 {
        let connection = connect(&directory);
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap()
    };
    let mut after = Vec::new();
    for _ in 0..8 {
        fill(store.as_mut(), &mut random, 100, 10);
        prune(store.as_mut(), 256);
        after.push(pages());
    }
    assert!(after[0] > 150, "a round fills the file: {after:?}");
    // Pages split elsewhere in every round, so one round may need a few more than another.
    assert!(after[7] <= after[1] + after[1] / 20, "{after:?}");
}

/// Rows are bounded; their duration depends on the disk and is only printed.
#[test]
fn a_step_costs_the_same_for_a_job_of_any_size() {
    let mut slowest = Vec::new();
    for executions in [100, 3000] {
        let directory = directory();
        let mut random = Random(132);
        let (mut store, _) = directory.open();
        fill(store.as_mut(), &mut random, 1, executions);
        let mut took = prune(store.as_mut(), 256);
        took.sort_unstable();
        let (middle, most) = (took[took.len() / 2], took[took.len() - 1]);
        println!("{executions} executions: {} steps, {middle:?}, at most {most:?}", took.len());
        let rows = executions * 6;
        assert!(took.len() >= (rows / 256) as usize);
        slowest.push(middle);
    }
    assert!(slowest[1] < Duration::from_millis(200), "{slowest:?}");
}

#[test]
fn marks_of_removed_events_go_although_an_older_job_lives() {
    let directory = directory();
    let mut random = Random(133);
    let (mut store, reads) = directory.open();
    let second = |second: i64| Timestamp(second * 1_000_000_000);
    let daemon = Sample::job(&mut random);
    let mut changes = daemon.changes();
    changes.events.push(daemon.event(1));
    changes.events[0].time = second(1);
    store.put(1, &changes, &[]).unwrap();
    let (seconds, kept) = (200, 10);
    for now in 2..=seconds {
        let mut changes = Changes::default();
        ended(&mut random, &mut changes, now, 1);
        for event in &mut changes.events {
            event.seq += 1 + 3 * (now.unsigned_abs() - 2);
        }
        store.put(now.unsigned_abs(), &changes, &[]).unwrap();
    }
    let count = |table: &str| -> i64 {
        let sql = format!("SELECT count(*) FROM {table}");
        connect(&directory).query_row(&sql, [], |row| row.get(0)).unwrap()
    };
    assert!(count("event_mark") >= seconds - 1);
    let retention = Retention { age: None, count: Some(kept) };
    while store.prune(Moment(0), &retention, 64).unwrap().more {}
    let (marks, events) = (count("event_mark"), count("event"));
    assert_eq!(events, 1 + 3 * kept.cast_signed());
    assert!(marks <= 2 + kept.cast_signed(), "{marks} marks for {events} events");
    for since in [2, 100, 195, 200] {
        let before = reads.position_before(second(since)).unwrap();
        let first = 2 + 3 * (since.unsigned_abs() - 2);
        assert!(before < first, "events of second {since} begin at {first}, not {before}");
    }
}
