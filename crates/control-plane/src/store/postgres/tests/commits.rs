//! A commit is stored once and as a whole, whatever happens to the server and the way to it.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use postgres_server::TestDatabase;
use scheduler::change::Changes;
use scheduler::time::Moment;

use super::proxy::{Fault, Proxy};
use super::{eventually, impatient, opened, store};
use crate::clock::{Reading, Stamp};
use crate::store::contract::{Random, Sample};
use crate::store::{Commit, CommitId, Outcome, Removed, Store, StoreError, Term, Write};

/// Longer than any fault here keeps a commit waiting.
const SETTLED_WITHIN: Duration = Duration::from_secs(30);

/// Enough to hit each part of a commit.
const CANCELS: i64 = 1000;
const COMMITS: u64 = 100;

const WRITTEN: Outcome = Outcome::Written(Removed { count: 0, more: false });

pub(super) fn commit(
    store: &mut dyn Store,
    term: Term,
    number: u64,
    changes: &Changes,
) -> Result<Outcome, StoreError> {
    let stamp = Stamp { reading: Reading::now(), moment: Moment(number) };
    let write = Write::Batch { changes, keys: &[], records: &[], audit: &[], loads: &[] };
    store.commit(&Commit { id: CommitId { term, number }, stamp, write })
}

/// Repeats a commit until its outcome is known, as the step does.
fn settle(
    store: &mut dyn Store,
    term: Term,
    number: u64,
    changes: &Changes,
) -> Result<Outcome, StoreError> {
    let began = Instant::now();
    loop {
        match commit(store, term, number, changes) {
            Err(StoreError::Unavailable) if began.elapsed() < SETTLED_WITHIN => {}
            settled => return settled,
        }
    }
}

/// A job with an event: rows of several statements.
fn changes(random: &mut Random, seq: u64) -> Changes {
    let sample = Sample::job(random);
    let mut changes = sample.changes();
    changes.events.push(sample.event(seq));
    changes
}

/// The rows of tables that each commit of [`changes`] adds one row to.
fn counts(database: &TestDatabase) -> Vec<i64> {
    let mut admin = database.admin();
    let tables = ["job", "job_run", "job_plan", "job_spec", "event"];
    let count = |table: &&str| {
        admin.query_one(&format!("SELECT count(*) FROM {table}"), &[]).unwrap().get(0)
    };
    tables.iter().map(count).collect()
}

fn last_commit(database: &TestDatabase) -> i64 {
    database.admin().query_one("SELECT last_commit FROM progress", &[]).unwrap().get(0)
}

#[test]
fn a_commit_whose_answer_is_lost_is_stored_once() {
    let Some(database) = TestDatabase::new() else { return };
    let proxy = Proxy::start(&database);
    let mut store = impatient(proxy.database());
    let term = store.progress().unwrap().term;
    let mut random = Random(1);
    assert_eq!(commit(&mut store, term, 1, &changes(&mut random, 1)).unwrap(), WRITTEN);
    let second = changes(&mut random, 2);
    proxy.fail_next(Fault::LoseAnswer);
    assert_eq!(settle(&mut store, term, 2, &second).unwrap(), Outcome::Repeated);
    assert!(proxy.has_failed());
    assert_eq!(counts(&database), [2; 5]);
    assert_eq!(commit(&mut store, term, 3, &changes(&mut random, 3)).unwrap(), WRITTEN);
    assert_eq!(counts(&database), [3; 5]);
}

#[test]
fn a_commit_that_did_not_reach_the_server_is_sent_again() {
    let Some(database) = TestDatabase::new() else { return };
    let proxy = Proxy::start(&database);
    let mut store = impatient(proxy.database());
    let term = store.progress().unwrap().term;
    let changes = changes(&mut Random(2), 1);
    proxy.fail_next(Fault::CutBeforeCommit);
    assert_eq!(settle(&mut store, term, 1, &changes).unwrap(), WRITTEN);
    assert!(proxy.has_failed());
    assert_eq!(counts(&database), [1; 5]);
}

#[test]
fn a_repeat_that_races_its_first_attempt_stores_once() {
    let Some(database) = TestDatabase::new() else { return };
    let mut store = impatient(opened(&database));
    let term = store.progress().unwrap().term;
    let changes = changes(&mut Random(3), 1);
    // Another session holds the row, as a process that takes over does.
    let mut admin = database.admin();
    let mut holder = admin.transaction().unwrap();
    holder.execute("UPDATE progress SET beat = beat + 1", &[]).unwrap();
    let began = Instant::now();
    for _ in 0..2 {
        let unknown = commit(&mut store, term, 1, &changes);
        assert!(matches!(unknown, Err(StoreError::Unavailable)), "{unknown:?}");
    }
    assert!(began.elapsed() < Duration::from_secs(5), "a caller waits for a second each");
    holder.commit().unwrap();
    assert_eq!(settle(&mut store, term, 1, &changes).unwrap(), WRITTEN);
    assert_eq!(commit(&mut store, term, 1, &changes).unwrap(), Outcome::Repeated);
    assert_eq!(counts(&database), [1; 5]);
}

/// Given up, then sent again by a store that knows nothing of the first attempt.
#[test]
fn an_attempt_that_was_given_up_does_not_overtake_a_new_term() {
    let Some(database) = TestDatabase::new() else { return };
    let mut store = impatient(opened(&database));
    let former = store.progress().unwrap().term;
    let mut random = Random(4);
    let late = changes(&mut random, 1);
    let mut admin = database.admin();
    let mut holder = admin.transaction().unwrap();
    holder.execute("UPDATE progress SET beat = beat + 1", &[]).unwrap();
    assert!(matches!(commit(&mut store, former, 1, &late), Err(StoreError::Unavailable)));
    // The row is locked, and the commit waits for it before the takeover does.
    assert!(matches!(store.take(), Err(StoreError::Unavailable)));
    holder.commit().unwrap();
    let taken = store.take().unwrap();
    assert_ne!(taken.term, former);
    let stored = usize::try_from(taken.last_commit).unwrap();
    assert_eq!(counts(&database), [stored as i64; 5]);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(counts(&database), [stored as i64; 5], "nothing is stored late");
    let next = taken.last_commit + 1;
    let late = commit(&mut store, former, next, &changes(&mut random, 2));
    assert!(matches!(late, Err(StoreError::Fenced)), "{late:?}");
    assert_eq!(commit(&mut store, taken.term, next, &changes(&mut random, 2)).unwrap(), WRITTEN);
}

#[test]
fn a_commit_whose_begin_fails_stores_nothing() {
    let Some(database) = TestDatabase::new() else { return };
    let proxy = Proxy::start(&database);
    let mut store = store(proxy.database());
    let term = store.progress().unwrap().term;
    let changes = changes(&mut Random(5), 1);
    proxy.fail_next(Fault::BreakBegin);
    let refused = commit(&mut store, term, 1, &changes);
    assert!(matches!(refused, Err(StoreError::Postgres(_))), "{refused:?}");
    assert_eq!((counts(&database), last_commit(&database)), (vec![0; 5], 0));
    assert_eq!(commit(&mut store, term, 1, &changes).unwrap(), WRITTEN);
}

#[test]
fn a_leader_that_stops_within_a_commit_loses_its_lock() {
    let Some(database) = TestDatabase::new() else { return };
    let proxy = Proxy::start(&database);
    let mut store = impatient(proxy.database());
    let term = store.progress().unwrap().term;
    proxy.fail_next(Fault::StopAfterFence);
    let stopped = commit(&mut store, term, 1, &changes(&mut Random(6), 1));
    assert!(matches!(stopped, Err(StoreError::Unavailable)), "{stopped:?}");
    assert!(proxy.has_failed());
    let mut admin = database.admin();
    admin.batch_execute("SET lock_timeout = '2s'").unwrap();
    admin.execute("UPDATE progress SET beat = beat + 1", &[]).unwrap();
    drop(store);
    assert_eq!(counts(&database), [0; 5]);
}

#[test]
fn a_storm_of_cancels_breaks_no_commit_apart() {
    let Some(database) = TestDatabase::new() else { return };
    let mut store = store(opened(&database));
    let term = store.progress().unwrap().term;
    let mut random = Random(7);
    let (ends, cancels) = (AtomicBool::new(false), AtomicI64::new(0));
    let mut number = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut admin = database.admin();
            while !ends.load(Ordering::Relaxed) {
                let sql = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity
                    WHERE application_name = 'orchestrator' AND datname = current_database()";
                let cancelled = admin.query_one(sql, &[]).unwrap().get(0);
                cancels.fetch_add(cancelled, Ordering::Relaxed);
            }
        });
        let began = Instant::now();
        while cancels.load(Ordering::Relaxed) < CANCELS || number < COMMITS {
            number += 1;
            let changes = changes(&mut random, number);
            settle(&mut store, term, number, &changes).unwrap();
            if began.elapsed() > SETTLED_WITHIN {
                break;
            }
        }
        ends.store(true, Ordering::Relaxed);
    });
    assert!(number > 0 && cancels.into_inner() > 0);
    let number = i64::try_from(number).unwrap();
    assert_eq!((counts(&database), last_commit(&database)), (vec![number; 5], number));
}

#[test]
fn a_full_disk_stores_nothing_and_ends() {
    let Some(database) = TestDatabase::new() else { return };
    let mut store = store(opened(&database));
    let term = store.progress().unwrap().term;
    let changes = changes(&mut Random(8), 1);
    database
        .admin()
        .batch_execute(
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = '53100'; END $$;
             CREATE TRIGGER full_disk BEFORE INSERT ON event EXECUTE FUNCTION full_disk()",
        )
        .unwrap();
    let full = commit(&mut store, term, 1, &changes);
    assert!(matches!(full, Err(StoreError::Full { .. })), "{full:?}");
    assert_eq!((counts(&database), last_commit(&database)), (vec![0; 5], 0));
    database.admin().batch_execute("DROP TRIGGER full_disk ON event").unwrap();
    assert_eq!(commit(&mut store, term, 1, &changes).unwrap(), WRITTEN);
}

/// A cancelled wait for the standby looks like a commit, and the number is there.
#[test]
fn a_number_that_no_standby_has_is_answered_only_after_a_further_write() {
    let Some(database) = TestDatabase::alone() else { return };
    drop(store(opened(&database)));
    let standbys = |names: &str| {
        let mut admin = database.admin();
        let set = format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'");
        admin.batch_execute(&set).unwrap();
        admin.batch_execute("SELECT pg_reload_conf()").unwrap();
        // A session that begins from here on has it.
        eventually(|| {
            let sql = "SELECT current_setting('synchronous_standby_names')";
            let found: String = database.admin().query_one(sql, &[]).unwrap().get(0);
            (found == names).then_some(())
        });
    };
    standbys("nowhere");
    let mut store = impatient(opened(&database));
    let term = store.progress().unwrap().term;
    let mut random = Random(9);
    let first = changes(&mut random, 1);
    eventually(|| {
        let waits = commit(&mut store, term, 1, &first);
        assert!(matches!(waits, Err(StoreError::Unavailable)), "{waits:?}");
        // As long as the wait goes on, no other session sees the commit.
        let sql = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity
            WHERE wait_event = 'SyncRep' AND application_name = 'orchestrator'";
        let cancelled: i64 = database.admin().query_one(sql, &[]).unwrap().get(0);
        (cancelled > 0).then_some(())
    });
    eventually(|| (last_commit(&database) == 1).then_some(()));
    for _ in 0..3 {
        let waits = commit(&mut store, term, 1, &first);
        assert!(matches!(waits, Err(StoreError::Unavailable)), "it may yet be lost: {waits:?}");
    }
    standbys("");
    assert_eq!(settle(&mut store, term, 1, &first).unwrap(), Outcome::Repeated);
    assert_eq!(counts(&database), [1; 5]);
    assert_eq!(commit(&mut store, term, 2, &changes(&mut random, 2)).unwrap(), WRITTEN);
}

#[test]
fn a_restart_of_the_server_is_survived() {
    let Some(database) = TestDatabase::alone() else { return };
    let mut store = store(opened(&database));
    let term = store.progress().unwrap().term;
    let mut random = Random(10);
    commit(&mut store, term, 1, &changes(&mut random, 1)).unwrap();
    database.command("restart");
    settle(&mut store, term, 2, &changes(&mut random, 2)).unwrap();
    assert_eq!(counts(&database), [2; 5]);
}

#[test]
fn a_database_that_lost_commits_is_noticed_and_marked() {
    let Some(database) = TestDatabase::new() else { return };
    let mut store = store(opened(&database));
    let term = store.progress().unwrap().term;
    let mut random = Random(11);
    for number in 1..=3 {
        commit(&mut store, term, number, &changes(&mut random, number)).unwrap();
    }
    // As a standby that was promoted before it had the last two.
    database.admin().execute("UPDATE progress SET last_commit = 1", &[]).unwrap();
    let lost = commit(&mut store, term, 4, &changes(&mut random, 4));
    let expected = StoreError::WentBack { acknowledged: 3, found: 1 };
    assert_eq!(lost.unwrap_err().to_string(), expected.to_string());
    let server: Option<Vec<u8>> =
        database.admin().query_one("SELECT server FROM progress", &[]).unwrap().get(0);
    assert_eq!(server, None);
    assert_eq!(counts(&database), [3; 5]);
    // A new term of the same process would use the numbers again.
    assert_eq!(store.take().unwrap_err().to_string(), expected.to_string());
    let counted: i64 =
        database.admin().query_one("SELECT times_went_back FROM progress", &[]).unwrap().get(0);
    assert_eq!(counted, 1, "it was noticed twice, and lost once");
}
