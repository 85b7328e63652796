//! Brings a file of an older release up to this one, and keeps a way back: a release that could not
//! open the file any more finds a backup.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rusqlite::Connection;

use super::connection::FILE_MODE;
use super::schema;
use crate::store::StoreError;

/// Backs the file up first if the release that wrote it could not open it any more.
pub(super) fn upgrade(
    connection: &mut Connection,
    path: &Path,
    format: u32,
) -> Result<(), StoreError> {
    if (1..schema::OLDEST).contains(&format) {
        let copy = path.with_file_name(format!("orchestrator-format-{format}.db"));
        back_up_to(connection, &copy)
            .map_err(|source| StoreError::Backup { path: copy.clone(), source })?;
        tracing::warn!(
            backup = %copy.display(),
            from = format,
            to = schema::FORMAT,
            "upgrading the state database; older releases cannot open it, only its backup"
        );
    } else if (1..schema::FORMAT).contains(&format) {
        tracing::info!(from = format, to = schema::FORMAT, "upgrading the state database");
    }
    Ok(schema::migrate(connection, format)?)
}

/// Why there is no backup: of SQLite, or of the file system.
pub(super) type NoBackup = Box<dyn std::error::Error + Send + Sync>;

/// Copies the whole database to this file: all of it, or nothing.
pub(super) fn back_up_to(connection: &Connection, to: &Path) -> Result<(), NoBackup> {
    let unfinished = to.with_extension("new");
    remove(&unfinished)?;
    let copied = copy(connection, &unfinished).and_then(|()| Ok(std::fs::rename(&unfinished, to)?));
    if copied.is_err() {
        // The disk may be full.
        remove(&unfinished)?;
    }
    copied?;
    if let Some(dir) = to.parent() {
        File::open(dir)?.sync_all()?;
    }
    Ok(())
}

fn copy(connection: &Connection, to: &Path) -> Result<(), NoBackup> {
    // Creates it with its mode; SQLite fills an empty file.
    let file = OpenOptions::new().create_new(true).write(true).mode(FILE_MODE).open(to)?;
    connection.execute("VACUUM INTO ?1", [to.to_string_lossy()])?;
    Ok(file.sync_all()?)
}

/// An absent file is fine.
fn remove(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
