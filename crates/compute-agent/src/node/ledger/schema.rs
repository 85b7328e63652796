//! The ledger's tables, and how a file is recognised as a ledger.

use std::path::Path;
use std::time::Duration;

use api_types::NodeId;
use rusqlite::{Connection, OptionalExtension};
use uuid::Uuid;

use crate::host::mint;

/// "cagt": distinguishes a ledger from any other SQLite file.
const APPLICATION_ID: i32 = 0x6361_6774;

/// Incremented with every change of the tables below.
const SCHEMA_VERSION: i32 = 3;

/// Only a backup tool can lock the file; a commit that waits longer fails and is retried.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Statements of [`super::Ledger::commit`], with some margin.
const CACHED_STATEMENTS: usize = 16;

const TABLES: &str = "
CREATE TABLE node (id BLOB NOT NULL);
CREATE TABLE works (execution_id BLOB PRIMARY KEY, work TEXT NOT NULL);
CREATE TABLE phases (
    execution_id BLOB PRIMARY KEY,
    desired INTEGER NOT NULL,
    phase TEXT NOT NULL,
    reported INTEGER NOT NULL,
    gpus TEXT NOT NULL DEFAULT '[]'
) WITHOUT ROWID;
CREATE TABLE reports (
    position INTEGER PRIMARY KEY,
    execution_id BLOB NOT NULL,
    sequence INTEGER NOT NULL,
    report TEXT NOT NULL
);
CREATE UNIQUE INDEX reports_of_execution ON reports (execution_id, sequence);
";

/// How the agents on this ledger ended: one row. It is made in a ledger of any release, since older
/// ones neither need nor mind it.
const ENDS: &str = "CREATE TABLE IF NOT EXISTS ends (record TEXT NOT NULL)";

/// Entry `n` brings a ledger from format `n + 1` to the next.
const STEPS: [&str; 2] = [FROM_FORMAT_1, FROM_FORMAT_2];

const FROM_FORMAT_1: &str = "ALTER TABLE phases ADD COLUMN gpus TEXT NOT NULL DEFAULT '[]'";

/// The phase notes the boot; of an earlier one nothing is known.
const FROM_FORMAT_2: &str = r#"
UPDATE phases SET phase = '{"Starting":{"boot_id":""}}' WHERE phase = '"Starting"'"#;

/// The connection and the node's id, or why the file is unusable.
pub(super) fn open(path: &Path) -> Result<(Connection, NodeId), String> {
    let text = |error: rusqlite::Error| error.to_string();
    let mut connection = Connection::open(path).map_err(text)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(text)?;
    connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    // The checks precede any change, so that a file that is not a ledger stays as it was.
    let application_id = pragma(&connection, "application_id").map_err(text)?;
    let version = pragma(&connection, "user_version").map_err(text)?;
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(text)?;
    match (application_id, version) {
        (APPLICATION_ID, 1..=SCHEMA_VERSION) => {}
        (0, 0) if tables == 0 => {}
        (APPLICATION_ID, _) => {
            return Err(format!("it was written by another release (format {version})"));
        }
        _ => return Err("it is not a ledger of this service".to_owned()),
    }
    connection.pragma_update(None, "journal_mode", "WAL").map_err(text)?;
    connection.pragma_update(None, "synchronous", "FULL").map_err(text)?;
    let damage: String =
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(text)?;
    if damage != "ok" {
        return Err(format!("it is damaged: {damage}"));
    }
    if tables == 0 {
        create(&mut connection).map_err(text)?;
    } else if version < SCHEMA_VERSION {
        bring_up(&mut connection, version).map_err(text)?;
    }
    connection.execute_batch(ENDS).map_err(text)?;
    let node_id = connection
        .query_row("SELECT id FROM node", [], |row| row.get(0))
        .optional()
        .map_err(text)?
        .ok_or("it contains no node id")?;
    Ok((connection, NodeId::from_uuid(Uuid::from_bytes(node_id))))
}

/// Atomic: a ledger without a node id cannot exist.
fn create(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(TABLES)?;
    transaction
        .execute("INSERT INTO node (id) VALUES (?1)", [mint::node_id().uuid().as_bytes()])?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    transaction.commit()
}

/// Atomic, like creating one.
fn bring_up(connection: &mut Connection, version: i32) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    for (format, step) in (1..).zip(STEPS) {
        if format >= version {
            transaction.execute_batch(step)?;
        }
    }
    transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    transaction.commit()
}

fn pragma(connection: &Connection, name: &str) -> rusqlite::Result<i32> {
    connection.pragma_query_value(None, name, |row| row.get(0))
}
