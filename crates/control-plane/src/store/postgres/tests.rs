//! The contract of stores, and the behaviour specific to PostgreSQL.

mod commits;
mod import;
mod lead;
mod members;
mod plans;
mod pool;
mod proxy;
mod scans;
mod tables;

use std::sync::Arc;
use std::time::{Duration, Instant};

use postgres_server::TestDatabase;

use super::connection::Session;
use super::{Database, PostgresCandidate, PostgresReads, PostgresStore, writer};
use crate::store::contract::{Backend, store_contract};
use crate::store::{Candidate, Reads, Store};

/// Longer than a busy machine takes for anything here.
const PATIENCE: Duration = Duration::from_secs(60);

impl Backend for TestDatabase {
    fn open(&self) -> (Box<dyn Store>, Arc<dyn Reads>) {
        let store = Box::new(store(opened(self)));
        (store, Arc::new(PostgresReads::open(&opened(self)).unwrap()))
    }
}

/// As a process opens it.
fn opened(database: &TestDatabase) -> Database {
    Database::new(&database.url, None).unwrap()
}

/// Continues the term that is stored.
fn store(database: Database) -> PostgresStore {
    let mut candidate = PostgresCandidate::new(database).unwrap();
    eventually(|| candidate.poll().ok());
    let mut store = candidate.into_store().unwrap();
    store.patience = PATIENCE;
    store
}

/// The same, which waits no longer than in production.
fn impatient(database: Database) -> PostgresStore {
    let mut store = store(database);
    store.patience = writer::PATIENCE;
    store
}

/// Waits until the check finds something.
fn eventually<T>(mut check: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = check() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "it did not come true");
        std::thread::sleep(Duration::from_millis(20));
    }
}

store_contract!(TestDatabase::new);

#[test]
fn a_session_is_read_only_by_default() {
    let Some(database) = TestDatabase::new() else { return };
    let mut client = opened(&database).connect_blocking(Session::Reader).unwrap();
    let refused = client.batch_execute("CREATE TABLE t (a int)").unwrap_err();
    assert_eq!(refused.code().unwrap().code(), "25006");
    let reads = "BEGIN READ WRITE; CREATE TABLE t (a int); COMMIT";
    database.admin().batch_execute("CREATE SCHEMA jobs").unwrap();
    client.batch_execute(reads).unwrap();
}
