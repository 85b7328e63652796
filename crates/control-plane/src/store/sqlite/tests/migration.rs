//! Opening a file of an older release migrates it and keeps all its data.

use std::time::Duration;

use api_types::{JobId, NodeId, Timestamp};
use rusqlite::{Connection, params};
use scheduler::change::Grant;
use scheduler::node_event::History;
use scheduler::time::Moment;
use uuid::Uuid;

use super::{Backend, Directory, directory};
use crate::clock::UNKNOWN_BOOT;
use crate::store::contract::{Put, key, load, session_request};
use crate::store::sqlite::row::Id;
use crate::store::sqlite::{outcomes, schema};
use crate::store::{
    EventsQuery, HistoryQuery, Namespaces, NodeHistoryQuery, Reads, RequestKey, Retention, Term,
};

const SECOND: i64 = 1_000_000_000;
/// The first format that has moments instead of wall times.
const WITH_MOMENTS: u32 = 4;

const NOON: i64 = 1_700_000_000 * SECOND;

/// The last format whose columns [`written_by`] fills.
const LAST_WITH_WALL_TIMES: u32 = 3;

/// A file of an older release; one of a later format has been migrated before.
pub(super) fn old_file(format: u32) -> Directory {
    let written = format.min(LAST_WITH_WALL_TIMES);
    let directory = written_by(written);
    let connection = Connection::open(directory.path().join("orchestrator.db")).unwrap();
    for sql in &schema::STEPS[written as usize..format as usize] {
        connection.execute_batch(sql).unwrap();
    }
    connection.pragma_update(None, "user_version", format).unwrap();
    directory
}

/// Data of an older release: a queued job, one that runs and waits, three finished ones.
fn written_by(format: u32) -> Directory {
    let directory = directory();
    let connection = Connection::open(directory.path().join("orchestrator.db")).unwrap();
    let (before, later) = schema::STEPS[..format as usize].split_at(format.min(3) as usize);
    for sql in before {
        connection.execute_batch(sql).unwrap();
    }
    connection.pragma_update(None, "application_id", schema::APPLICATION_ID).unwrap();
    connection.pragma_update(None, "user_version", format).unwrap();
    for (number, (state, live)) in (1..).zip([(1, 1), (2, 1), (3, 0), (3, 0), (4, 0)]) {
        add_job(&connection, number, state, live);
    }
    let node = node_id().bytes();
    for (number, (job, start_time, compute, live)) in
        (1_i64..).zip([(2, 40, 5, 1), (2, 0, 3, 1), (2, 0, 2, 1), (3, 41, 7, 0)])
    {
        let start_time = if start_time == 0 { 0 } else { NOON + start_time * SECOND };
        connection
            .execute(
                "INSERT INTO execution VALUES (?1, ?2, ?3, ?1, ?4, ?5, ?6, 1, ?7, ?8, 1, 1, ?9,
                    100, 0, 0, 0, 1, 0, 0, x'', ?10, NULL, NULL, NULL, '', '')",
                params![
                    number,
                    Uuid::from_u128(number.unsigned_abs().into()).into_bytes(),
                    job,
                    NOON + 30 * SECOND,
                    NOON + 45 * SECOND,
                    compute,
                    live,
                    node,
                    start_time,
                    [2_u8; 16],
                ],
            )
            .unwrap();
    }
    for seq in 1..=100 {
        connection
            .execute(
                "INSERT INTO event VALUES (?1, ?2, ?3, 1, 0, 1, NULL, NULL, 'noted')",
                params![seq, 1 + seq % 3, NOON + seq * SECOND / 2],
            )
            .unwrap();
    }
    let more = format!(
        "INSERT INTO pending_slot VALUES (1, 0, zeroblob(16), NULL, 1, 0, 0, x'', {due}, NULL);
         INSERT INTO node VALUES (x'{node}', 3, 'APPROVED', 'DISCONNECTED', 'DRAINING', '', {due},
            {silent}, '{record}');
         INSERT INTO idempotency VALUES ('k', {noon}, x'{hash}', '{answer}');
         INSERT INTO idempotency VALUES ('orphan', {noon}, x'{hash}', '{orphan}');
         UPDATE progress SET last_commit = 9, last_seq = 100, last_time = {last};",
        due = NOON + 60 * SECOND,
        node = node_id().uuid().simple(),
        silent = NOON + 20 * SECOND,
        noon = NOON,
        hash = "07".repeat(32),
        answer = serde_json::json!({ "JobID": job_id(2), "EvaluationID": "" }),
        orphan = serde_json::json!({ "JobID": job_id(77), "EvaluationID": "" }),
        last = NOON + 50 * SECOND,
        record = serde_json::to_string(&session_request()).unwrap(),
    );
    connection.execute_batch(&more).unwrap();
    // Format 1 did not count them, format 2 did so by triggers.
    if format >= 3 {
        connection.execute("UPDATE progress SET ended_jobs = 3", []).unwrap();
    }
    // Up to format 3 the tables were filled alike.
    for sql in later {
        connection.execute_batch(sql).unwrap();
    }
    directory
}

fn add_job(connection: &Connection, number: i64, state: i64, live: i64) {
    connection
        .execute(
            "INSERT INTO job VALUES (?1, ?2, ?3, 0, ?4, ?5, 1, 2, ?6, 0, 1, 0, 0, zeroblob(16),
                'team', NULL, '')",
            params![
                number,
                job_id(number.unsigned_abs()).bytes(),
                NOON + number * SECOND,
                state,
                live,
                NOON + (10 + number) * SECOND,
            ],
        )
        .unwrap();
    connection.execute("INSERT INTO job_spec VALUES (?1, '{}')", [number]).unwrap();
}

pub(super) fn job_id(number: u64) -> JobId {
    JobId::from_uuid(Uuid::from_u64_pair(0xab00_0000_0000_4000, number))
}

fn node_id() -> NodeId {
    NodeId::from_uuid(Uuid::from_u128(0x0fed_cba9))
}

fn at(seconds: i64) -> Moment {
    Moment((NOON + seconds * SECOND).unsigned_abs())
}

#[test]
fn the_service_clock_continues_from_the_wall_time_of_the_last_commit() {
    for format in 1..WITH_MOMENTS {
        let directory = old_file(format);
        let (mut store, reads) = directory.open();
        let connection = Connection::open(directory.path().join("orchestrator.db")).unwrap();
        let found: u32 =
            connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
        assert_eq!(found, schema::FORMAT);

        let stamp = store.progress().unwrap().stamp.unwrap();
        assert_eq!((stamp.moment, stamp.reading.boot_id), (at(50), UNKNOWN_BOOT));
        assert_eq!(stamp.reading.wall, Timestamp(NOON + 50 * SECOND));
        assert_eq!(store.last_commit().unwrap(), 9);
        assert_eq!(store.progress().unwrap().term, Term(0), "no process took one");
        let (jobs, live) = load(store.as_mut());
        let times: Vec<_> =
            jobs.iter().map(|job| (job.created_at, job.row.waiting_since)).collect();
        assert_eq!(times, [(at(1), Some(at(11))), (at(2), None)]);
        let last = Timestamp(NOON + 50 * SECOND);
        assert!(jobs.iter().all(|job| job.row.last_event_time == last));
        let times: Vec<_> = live
            .executions
            .iter()
            .map(|row| (row.offered_at, row.accepted_at, row.started_at))
            .collect();
        let expected = [(Some(at(40)), Some(at(40))), (Some(at(45)), None), (None, None)];
        assert_eq!(times, expected.map(|(accepted, started)| (at(30), accepted, started)));
        assert!(live.executions.iter().all(|row| row.process_ended_at.is_none()));
        assert_eq!(live.pending_slots[0].due, Some(at(60)));
        assert_eq!(live.nodes[0].drain_deadline, Some(at(60)));
        assert_eq!(live.nodes[0].silent_since, Some(at(20)));
        let lease = Duration::from_secs(30);
        assert_eq!(live.nodes[0].grant, Grant { lease, kept: lease });

        let team = RequestKey { namespace: "team".to_owned(), ..key("k") };
        let row = store.idempotency(&team, at(0)).unwrap().unwrap();
        assert_eq!((row.stored_at, row.body_hash), (at(0), [7; 32]));
        assert_eq!(store.idempotency(&key("k"), at(0)).unwrap(), None);
        assert!(store.idempotency(&key("orphan"), at(0)).unwrap().is_some());

        since_finds_what_it_should(reads.as_ref());
        let age = |seconds| Retention { age: Some(Duration::from_secs(seconds)), count: None };
        assert_eq!(store.prune(at(50), &age(37), 1000).unwrap().count, 0);
        assert_eq!(store.prune(at(50), &age(36), 1000).unwrap().count, 1, "it ended at 13");
        let one = Retention { age: None, count: Some(1) };
        assert_eq!(store.prune(at(50), &one, 1000).unwrap().count, 1, "three were over");
    }
}

#[test]
fn a_node_of_a_release_without_histories_has_an_empty_one() {
    let directory = old_file(WITH_MOMENTS - 1);
    let connection = Connection::open(directory.path().join("orchestrator.db")).unwrap();
    connection.execute_batch(schema::STEPS[WITH_MOMENTS as usize - 1]).unwrap();
    connection.pragma_update(None, "user_version", WITH_MOMENTS).unwrap();
    drop(connection);
    let (mut store, reads) = directory.open();
    let (_, live) = load(store.as_mut());
    assert_eq!(live.nodes[0].history, History::default());
    let query = NodeHistoryQuery { node: node_id(), since: Timestamp::ZERO, after: None, limit: 9 };
    assert_eq!(reads.node_history(&query).unwrap().items, []);
}

fn since_finds_what_it_should(reads: &dyn Reads) {
    for half_seconds in 1..=100 {
        let since = Timestamp(NOON + half_seconds * SECOND / 2);
        let position = reads.position_before(since).unwrap().cast_signed();
        assert!((half_seconds - 4..half_seconds).contains(&position), "{half_seconds} {position}");
        let query = EventsQuery {
            after: position.cast_unsigned(),
            job: None,
            namespaces: Namespaces::All,
            event_type: None,
            since,
            limit: 1000,
        };
        let found = reads.events(&query).unwrap().entries.len();
        assert_eq!(found, 101 - usize::try_from(half_seconds).unwrap());
        let query = HistoryQuery {
            job: job_id(1),
            since,
            event_type: None,
            execution: None,
            node: None,
            after: None,
            limit: 1000,
        };
        let expected = (half_seconds..=100).filter(|seq| seq % 3 == 0).count();
        assert_eq!(reads.history(&query).unwrap().items.len(), expected);
    }
}

#[test]
fn outcomes_of_slots_are_derived_from_what_an_older_release_stored() {
    let directory = old_file(outcomes::FORMAT - 1);
    let connection = Connection::open(directory.path().join("orchestrator.db")).unwrap();
    // Job 3 is over and has an execution of slot 4 that completed.
    connection
        .execute_batch(
            "UPDATE job SET slots = 5, completed = 1 WHERE number = 3;
             UPDATE job SET slots = 9, message = '[7] on node-a: exit code 1' WHERE number = 5;
             UPDATE job SET slots = 3, fresh = 2, completed = 1, live = 1, state = 2
                WHERE number = 2;
             UPDATE execution SET compute = 7, live = 0, slot = 0 WHERE number = 1;",
        )
        .unwrap();
    drop(connection);
    let (mut store, reads) = directory.open();
    let stored = |number| reads.outcomes(job_id(number)).unwrap().unwrap();
    let tally = |number| {
        let stored = stored(number);
        let tally = stored.outcomes.tally(&stored.slots);
        assert_eq!((tally.completed, tally.failed), (stored.completed, stored.failed));
        (tally.completed, tally.failed)
    };
    assert_eq!((tally(2), tally(3), tally(5)), ((1, 0), (1, 0), (0, 1)));
    assert_eq!(stored(5).outcomes.failed_text(9), "7");
    let live = load(store.as_mut()).1;
    assert_eq!(live.outcomes.iter().map(|job| job.job).collect::<Vec<_>>(), [job_id(2)]);
}
