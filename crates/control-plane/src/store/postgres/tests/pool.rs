//! What readers do when a session hangs, ends, or takes too long, and when a row is damaged.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use api_types::selector::Selector;
use postgres_server::TestDatabase;

use super::opened;
use crate::store::contract::{Backend, Put, Random, Sample};
use crate::store::postgres::{Database, PostgresCandidate, PostgresReads};
use crate::store::{Candidate, JobQuery, Reads, StoreError};

/// A database with one job.
fn filled() -> Option<(TestDatabase, Sample)> {
    let database = TestDatabase::new()?;
    let sample = Sample::job(&mut Random(1));
    let (mut store, _) = database.open();
    store.put(1, &sample.changes(), &[]).unwrap();
    Some((database, sample))
}

/// Ends all sessions of the readers.
fn end_sessions(database: &TestDatabase) {
    let end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()";
    database.admin().batch_execute(end).unwrap();
}

#[test]
fn readers_recover_when_the_server_has_ended_their_sessions() {
    let Some((database, sample)) = filled() else { return };
    let reads = PostgresReads::open(&opened(&database)).unwrap();
    for _ in 0..3 {
        std::thread::scope(|scope| {
            for _ in 0..12 {
                scope.spawn(|| assert!(reads.job(sample.id()).unwrap().is_some()));
            }
        });
        end_sessions(&database);
        assert!(reads.summary(sample.id()).unwrap().is_some());
        assert_eq!(
            reads.summaries(&JobQuery { limit: 5, ..JobQuery::default() }).unwrap().items.len(),
            1
        );
    }
}

/// A statement that is never answered holds one session; the other five serve everything else.
#[test]
fn a_hung_read_does_not_keep_others_waiting() {
    let Some((database, sample)) = filled() else { return };
    let reads = PostgresReads::open_with(&opened(&database), Duration::from_secs(60)).unwrap();
    let mut admin = database.admin();
    let mut lock = admin.transaction().unwrap();
    lock.batch_execute("LOCK TABLE jobs.published IN ACCESS EXCLUSIVE MODE").unwrap();
    let (ended, end) = mpsc::channel();
    std::thread::scope(|scope| {
        let hung = || {
            let query = crate::store::ResultQuery { job: sample.id(), after: None, limit: 5 };
            ended.send(reads.results(&query).map(|page| page.items.len())).unwrap();
        };
        for _ in 0..5 {
            scope.spawn(hung);
        }
        for _ in 0..100 {
            assert!(reads.job(sample.id()).unwrap().is_some());
        }
        assert!(end.try_recv().is_err(), "nothing hangs");
        // A sixth leaves no session; a read waits for a while, and is refused.
        scope.spawn(hung);
        let refused = std::iter::repeat_with(|| reads.job(sample.id())).find(Result::is_err);
        assert!(matches!(refused, Some(Err(StoreError::Unavailable))), "{refused:?}");
        lock.rollback().unwrap();
        for _ in 0..6 {
            assert_eq!(end.recv().unwrap().unwrap(), 0);
        }
        assert!(reads.job(sample.id()).unwrap().is_some());
    });
}

/// A lock in place of many jobs.
#[test]
fn a_search_that_takes_too_long_is_ended_and_leaves_its_session_well() {
    let Some((database, sample)) = filled() else { return };
    let limit = Duration::from_millis(500);
    let reads = PostgresReads::open_with(&opened(&database), limit).unwrap();
    let selector = Selector::parse("!env").unwrap();
    let slow = JobQuery { selector, limit: 1, ..JobQuery::default() };
    let mut admin = database.admin();
    let mut lock = admin.transaction().unwrap();
    lock.batch_execute("LOCK TABLE label IN ACCESS EXCLUSIVE MODE").unwrap();
    for _ in 0..3 {
        let found = reads.jobs(&slow);
        assert!(matches!(found, Err(StoreError::LongSearch { .. })), "{found:?}");
        assert_eq!(reads.last_event().unwrap(), 0);
    }
    lock.rollback().unwrap();
    let found = reads.jobs(&slow).unwrap();
    assert_eq!(found.items.iter().map(|job| job.id).collect::<Vec<_>>(), [sample.id()]);
}

/// The message names the row, so that it can be repaired.
#[test]
fn what_a_damaged_row_holds_is_reported_with_its_row() {
    let Some((database, sample)) = filled() else { return };
    let id = sample.id();
    let reads = PostgresReads::open(&opened(&database)).unwrap();
    let mut admin = database.admin();
    for (damage, detail) in [
        ("UPDATE job_run SET state = 77", format!("{id}: JobState 77")),
        ("UPDATE job_run SET state = 1, slots = -1", format!("{id}: slots is -1")),
        ("UPDATE job SET namespace = '\\xff'", format!("{id}: namespace is 1 bytes")),
    ] {
        admin.batch_execute(damage).unwrap();
        let message = reads.summary(id).unwrap_err().to_string();
        assert_eq!(message, format!("a stored record cannot be read: {detail}"));
    }
    admin.batch_execute("DELETE FROM progress").unwrap();
    let message = reads.last_event().unwrap_err().to_string();
    assert!(message.contains("is damaged (a row that is always there is missing)"), "{message}");
}

#[test]
fn a_server_that_is_gone_is_reported_soon() {
    let Some((database, sample)) = filled() else { return };
    let reads = PostgresReads::open(&opened(&database)).unwrap();
    let (server, name) = database.url.rsplit_once('=').unwrap();
    let url = format!("{server}=postgres");
    let mut server = postgres::Client::connect(&url, postgres::NoTls).unwrap();
    end_sessions(&database);
    server.batch_execute(&format!("ALTER DATABASE {name} RENAME TO gone_{name}")).unwrap();
    let began = Instant::now();
    assert!(reads.job(sample.id()).is_err());
    assert!(began.elapsed() < Duration::from_secs(2));
    server.batch_execute(&format!("ALTER DATABASE gone_{name} RENAME TO {name}")).unwrap();
    assert!(reads.job(sample.id()).unwrap().is_some());
}

/// A search compares texts, which the server cannot read in every encoding.
#[test]
fn a_database_of_another_encoding_is_refused() {
    let Some(database) = TestDatabase::new() else { return };
    let (server, name) = database.url.rsplit_once('=').unwrap();
    let create = format!(
        "CREATE DATABASE {name}_old ENCODING 'LATIN1'
        LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    );
    database.admin().batch_execute(&create).unwrap();
    let old = Database::new(&format!("{server}={name}_old"), None).unwrap();
    let refused = PostgresCandidate::new(old).unwrap().poll().unwrap_err().to_string();
    assert!(
        refused.ends_with("its encoding is LATIN1; create it with ENCODING 'UTF8'"),
        "{refused}"
    );
}
