//! Classifies failures of SQLite: a full disk, a damaged file, or something unforeseen.

use std::path::Path;

use rusqlite::ErrorCode;

use crate::store::StoreError;

/// A failed write with less than this free counts as a full disk: file systems refuse in steps of
/// their block and extent sizes, and some reserve a last part.
const NO_ROOM_BYTES: u64 = 4 << 20;

/// Classifies a failure of SQLite on this file; other errors pass unchanged.
pub(super) fn classify(path: &Path, error: StoreError) -> StoreError {
    let StoreError::Sqlite(error) = error else { return error };
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full { path: path.to_owned() },
        Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) if has_no_room(path) => {
            StoreError::Full { path: path.to_owned() }
        }
        Some(ErrorCode::DatabaseCorrupt) => damaged(path, error.to_string()),
        Some(ErrorCode::NotADatabase) => damaged(path, "it is not a database"),
        _ => error.into(),
    }
}

pub(super) fn damaged(path: &Path, detail: impl Into<String>) -> StoreError {
    StoreError::Damaged { path: path.to_owned(), detail: detail.into() }
}

fn has_no_room(path: &Path) -> bool {
    rustix::fs::statvfs(path)
        .is_ok_and(|system| system.f_bavail.saturating_mul(system.f_frsize) < NO_ROOM_BYTES)
}
