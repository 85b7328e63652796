//! The audit log.

use api_types::audit::AuditRecord;
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::row::{self, bad_record, counter};
use crate::audit::{AUDIT_RECORDS, Chain};
use crate::store::{AuditQuery, Page, StoreError};

/// Records that one new record removes at most: it is one, unless the bound was lowered.
const REMOVED_AT_ONCE: u32 = 64;

/// See [`crate::audit`]; `time` is Unix nanoseconds. There is no index besides the sequence: every
/// submission adds a record, and filters are for admins, who can wait for a walk.
pub(super) const STEP: &str = "
CREATE TABLE audit (
    sequence INTEGER PRIMARY KEY,
    time INTEGER NOT NULL,
    user TEXT NOT NULL,
    operation TEXT NOT NULL,
    hash TEXT NOT NULL,
    record TEXT NOT NULL
);
";

pub(super) fn write(
    transaction: &Transaction<'_>,
    records: &[AuditRecord],
) -> Result<(), StoreError> {
    for record in records {
        let time = api_types::Timestamp::parse(&record.time).unwrap_or_default();
        let text = serde_json::to_string(record).map_err(bad_record)?;
        transaction
            .prepare_cached(
                "INSERT INTO audit (sequence, time, user, operation, hash, record)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![
                record.sequence.cast_signed(),
                time.0,
                record.user,
                record.operation,
                record.hash,
                text,
            ])?;
        if let Some(last) = record.sequence.checked_sub(AUDIT_RECORDS).filter(|last| *last > 0) {
            transaction
                .prepare_cached(
                    "DELETE FROM audit WHERE sequence IN (
                        SELECT sequence FROM audit WHERE sequence <= ?1
                        ORDER BY sequence LIMIT ?2)",
                )?
                .execute(params![last.cast_signed(), REMOVED_AT_ONCE])?;
        }
    }
    Ok(())
}

pub(super) fn chain(connection: &Connection) -> Result<Chain, StoreError> {
    let last = connection
        .prepare_cached("SELECT sequence, hash FROM audit ORDER BY sequence DESC LIMIT 1")?
        .query_row([], |row| Ok(Chain { sequence: counter(row, 0)?, hash: row.get(1)? }))
        .optional()?;
    Ok(last.unwrap_or_default())
}

pub(super) fn records(
    connection: &Connection,
    query: &AuditQuery,
) -> Result<Page<AuditRecord>, StoreError> {
    let (beyond, direction) = if query.reverse { ("<", "DESC") } else { (">", "ASC") };
    let start = if query.reverse { i64::MAX } else { 0 };
    let sql = format!(
        "SELECT record FROM audit
         WHERE sequence {beyond} ?1 AND time >= ?2 AND (?3 IS NULL OR user = ?3)
            AND (?4 IS NULL OR operation = ?4)
         ORDER BY sequence {direction} LIMIT ?5"
    );
    let after = query.after.map_or(start, u64::cast_signed);
    let limit = i64::from(query.limit) + 1;
    let parameters = params![after, query.since.0, query.user, query.operation, limit];
    let mut items = row::all(&mut *connection.prepare_cached(&sql)?, parameters, |row| {
        serde_json::from_str(&row.get::<_, String>(0)?).map_err(bad_record)
    })?;
    let more = items.len() > query.limit as usize;
    items.truncate(query.limit as usize);
    Ok(Page { items, more })
}
