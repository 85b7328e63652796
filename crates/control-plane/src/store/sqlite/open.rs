//! Opens the file: takes the lock and checks its owner, its integrity and its format.
//!
//! Startup time must not grow with the number of stored jobs, so a large file is not read in full:
//! the schema and the `progress` row are checked (SQLite itself refuses a file shorter than its
//! header says); a damaged page in the middle is detected and reported when it is read.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::checkpoint::{Checkpointer, LOG_BYTES};
use super::connection::{FILE_MODE, keep_statements};
use super::fault::{classify, damaged};
use super::file::{FILE, check_in_full, identify, io, lock};
use super::reads::SqliteReads;
use super::{SqliteStore, upgrade};
use crate::store::StoreError;
use crate::store::ended::EndedJobs;

/// Files up to this size are checked in full at startup, which takes well below a second.
const CHECKED_BYTES: u64 = 32 << 20;

/// The writer's page cache, in KiB: holds the leaves at the growing ends of all indexes, and the ID
/// index of a hundred thousand jobs. SQLite walks the whole cache table at most commits (those that
/// split pages), so a larger cache costs more than the reads it saves, which the system's page
/// cache serves.
const WRITER_CACHE_KIB: i32 = 8 << 10;

/// Opens the store in this directory, creating both if they do not exist.
pub fn open(dir: &Path) -> Result<(SqliteStore, Arc<SqliteReads>), StoreError> {
    std::fs::create_dir_all(dir).map_err(|source| io(dir, source))?;
    let lock = lock(dir)?;
    let path = dir.join(FILE);
    create(dir, &path)?;
    let mut connection = prepare(&path).map_err(|error| classify(&path, error))?;
    let reads = SqliteReads::open(&path).map_err(|error| classify(&path, error))?;
    let checkpointer = Checkpointer::start(&path, &mut connection)
        .map_err(|error| classify(&path, error.into()))?;
    let store =
        SqliteStore { connection, checkpointer, path, ended: EndedJobs::default(), _lock: lock };
    Ok((store, Arc::new(reads)))
}

/// Creates the file with its mode, which SQLite also applies to its log files.
fn create(dir: &Path, path: &Path) -> Result<(), StoreError> {
    match OpenOptions::new().create_new(true).write(true).mode(FILE_MODE).open(path) {
        Ok(_) => File::open(dir).and_then(|dir| dir.sync_all()).map_err(|source| io(dir, source)),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(source) => Err(io(path, source)),
    }
}

fn prepare(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    let format = identify(&connection, path)?;
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode != "wal" {
        let source = std::io::Error::other("its file system cannot share a write-ahead log");
        return Err(io(path, source));
    }
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "journal_size_limit", LOG_BYTES)?;
    connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
    keep_statements(&connection)?;
    upgrade::upgrade(&mut connection, path, format)?;
    check(&connection, path)?;
    Ok(connection)
}

fn check(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    connection
        .query_row("SELECT last_commit FROM progress WHERE one = 1", [], |row| row.get::<_, i64>(0))
        .map_err(|error| match error {
            rusqlite::Error::QueryReturnedNoRows => damaged(path, "its progress row is missing"),
            // SQLite's "unknown" error here is a statement that does not match the tables.
            rusqlite::Error::SqliteFailure(error, Some(detail))
                if error.code == ErrorCode::Unknown =>
            {
                damaged(path, detail)
            }
            error => error.into(),
        })?;
    let length = std::fs::metadata(path).map_err(|source| io(path, source))?.len();
    match length <= CHECKED_BYTES {
        true => check_in_full(connection, path),
        false => Ok(()),
    }
}
