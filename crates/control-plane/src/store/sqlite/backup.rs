//! Copies of the database: made while the service runs, checked, and restored.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use api_types::Timestamp;
use rusqlite::{Connection, OpenFlags};

use super::connection::FILE_MODE;
use super::fault::{classify, damaged};
use super::file::{FILE, check_in_full, identify, lock};
use super::upgrade::{NoBackup, back_up_to};
use super::{events, progress, records};
use crate::records::Record;
use crate::store::StoreError;

/// Added to the numbers of commits and events by a restore. The service has counted further since the
/// backup was made, but not as far as this, so it uses no number twice.
const JUMP: i64 = 1 << 32;

/// A copy that is not complete yet.
const UNFINISHED: &str = "orchestrator.db.new";

/// What a copy holds.
#[derive(Debug)]
pub struct BackupContents {
    /// When the service committed something for the last time before the backup.
    pub last_commit: Option<Timestamp>,
    pub last_event: u64,
    pub jobs: u64,
    pub records: Vec<Record>,
}

/// Copies the database of this data directory into another directory, as of one moment, whether it
/// is in use or not.
pub fn back_up(data_dir: &Path, to: &Path) -> Result<(), StoreError> {
    let path = data_dir.join(FILE);
    let failed = |source: NoBackup| match source.downcast::<rusqlite::Error>() {
        Ok(error) => classify(&to.join(FILE), (*error).into()),
        Err(source) => StoreError::Io { path: to.to_owned(), source: io::Error::other(source) },
    };
    let connection = open(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    back_up_to(&connection, &to.join(FILE)).map_err(failed)
}

/// Reads the whole copy in this directory, and what it holds.
pub fn inspect_backup(dir: &Path) -> Result<BackupContents, StoreError> {
    let path = dir.join(FILE);
    let connection = open(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let read = || {
        check_in_full(&connection, &path)?;
        let jobs: i64 = connection.query_row("SELECT count(*) FROM job", [], |row| row.get(0))?;
        Ok(BackupContents {
            last_commit: progress::read(&connection)?.stamp.map(|stamp| stamp.reading.wall),
            last_event: events::last_event(&connection)?,
            jobs: jobs.cast_unsigned(),
            records: records::load(&connection)?,
        })
    };
    read().map_err(|error| classify(&path, error))
}

/// Copies the database of a backup into a data directory that has none. `before` runs when all but the
/// last step is done.
pub fn restore<E: From<StoreError>>(
    from: &Path,
    data_dir: &Path,
    before: impl FnOnce() -> Result<(), E>,
) -> Result<(), E> {
    let _lock = lock(data_dir)?;
    let (unfinished, path) = (data_dir.join(UNFINISHED), data_dir.join(FILE));
    let io = |source| StoreError::Io { path: unfinished.clone(), source };
    copy(&from.join(FILE), &unfinished).map_err(io)?;
    let connection = open(&unfinished, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let jumped = connection
        .execute(
            "UPDATE progress SET last_commit = last_commit + ?1, last_seq = last_seq + ?1",
            [JUMP],
        )
        .map_err(|error| classify(&unfinished, error.into()))?;
    if jumped != 1 {
        return Err(damaged(&unfinished, "its progress row is missing").into());
    }
    drop(connection);
    let sync = || File::open(&unfinished)?.sync_all();
    sync().map_err(io)?;
    before()?;
    let finish = || {
        std::fs::rename(&unfinished, &path)?;
        File::open(data_dir)?.sync_all()
    };
    Ok(finish().map_err(io)?)
}

/// Whether a restore was interrupted in this directory.
pub fn has_unfinished_restore(data_dir: &Path) -> bool {
    data_dir.join(UNFINISHED).exists() && !data_dir.join(FILE).exists()
}

fn open(path: &Path, access: OpenFlags) -> Result<Connection, StoreError> {
    let missing = |source| StoreError::Io { path: path.to_owned(), source };
    std::fs::metadata(path).map_err(missing)?;
    let opened = || {
        let connection =
            Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        match identify(&connection, path)? {
            0 => Err(damaged(path, "it is empty")),
            _ => Ok(connection),
        }
    };
    opened().map_err(|error| classify(path, error))
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut source = File::open(from)?;
    let mut copy =
        OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(to)?;
    io::copy(&mut source, &mut copy)?;
    copy.sync_all()
}
