//! The file of the database: its lock, its format, and whether it is whole.

use std::fs::File;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::fault::damaged;
use super::schema;
use crate::store::StoreError;

/// The database, in the data directory.
pub(super) const FILE: &str = "orchestrator.db";

/// Locked as long as the store is open.
const LOCK_FILE: &str = "orchestrator.lock";

/// Keeps other processes out for as long as it is held.
pub(super) fn lock(dir: &Path) -> Result<File, StoreError> {
    let path = dir.join(LOCK_FILE);
    let lock = lock::lock(&path).map_err(|source| io(&path, source))?;
    lock.ok_or_else(|| StoreError::InUse { path: dir.to_owned() })
}

/// Returns the format of the file, 0 for an empty one; refuses another program's file before
/// writing anything to it.
pub(super) fn identify(connection: &Connection, path: &Path) -> Result<u32, StoreError> {
    let read = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0));
    let application = read("application_id")?;
    let format = u32::try_from(read("user_version")?).unwrap_or(u32::MAX);
    let objects: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if objects == 0 && application == 0 && format == 0 {
        return Ok(0);
    }
    if application != schema::APPLICATION_ID {
        return Err(StoreError::Foreign { path: path.to_owned() });
    }
    if format > schema::FORMAT {
        let known = schema::FORMAT;
        // A file without the table is not for this release either.
        if schema::oldest(connection).map_or(true, |oldest| oldest > known) {
            return Err(StoreError::Newer { path: path.to_owned(), found: format, known });
        }
        tracing::info!(format, known, "a newer release wrote the state database; nothing is lost");
    }
    Ok(format)
}

/// Reads every page.
pub(super) fn check_in_full(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let found: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if found == "ok" { Ok(()) } else { Err(damaged(path, found)) }
}

pub(super) fn io(path: &Path, source: std::io::Error) -> StoreError {
    match source.kind() {
        std::io::ErrorKind::StorageFull => StoreError::Full { path: path.to_owned() },
        _ => StoreError::Io { path: PathBuf::from(path), source },
    }
}
