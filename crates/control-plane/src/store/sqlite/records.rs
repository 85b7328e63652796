//! Records of several kinds, each a text.

use std::sync::Arc;

use rusqlite::{Connection, Transaction, params};

use super::row::{self, bad_record, counter};
use crate::records::{Record, RecordKey, RecordKind, RecordRow};
use crate::store::StoreError;

/// See [`crate::records`].
pub(super) const STEP: &str = "
CREATE TABLE record (
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (kind, key)
) WITHOUT ROWID;
";

/// Groups and schedules are records, so that only the format changes: an older release reads no kind
/// that it does not know, and would ignore the groups of a plan.
pub(super) const STEP_GROUPS: &str = "";

pub(super) fn write(transaction: &Transaction<'_>, rows: &[RecordRow]) -> Result<(), StoreError> {
    for RecordRow { key: RecordKey { kind, key }, version, value } in rows {
        match value {
            Some(value) => transaction
                .prepare_cached(
                    "INSERT INTO record (kind, key, version, value) VALUES (?1, ?2, ?3, ?4)
                     ON CONFLICT (kind, key) DO UPDATE SET
                        version = excluded.version, value = excluded.value",
                )?
                .execute(params![kind.word(), key, version.cast_signed(), value])?,
            None => transaction
                .prepare_cached("DELETE FROM record WHERE kind = ?1 AND key = ?2")?
                .execute(params![kind.word(), key])?,
        };
    }
    Ok(())
}

pub(super) fn load(connection: &Connection) -> Result<Vec<Record>, StoreError> {
    let mut statement =
        connection.prepare("SELECT kind, key, version, value FROM record ORDER BY kind, key")?;
    row::all(&mut statement, [], |row| {
        let word: String = row.get(0)?;
        let kind = RecordKind::of_word(&word)
            .ok_or_else(|| bad_record(format!("a record of the unknown kind '{word}'")))?;
        let value: Arc<str> = row.get(3)?;
        Ok(Record { key: kind.key(row.get::<_, String>(1)?), version: counter(row, 2)?, value })
    })
}
