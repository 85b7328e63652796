//! Idempotency keys: each is unique within its namespace and expires by age.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use scheduler::time::Moment;

use super::row::{self, moment_value};
use crate::store::{IdempotencyRow, Removed, RequestKey, StoreError};

/// An existing row with the same key has expired, or it would have been found.
pub(super) fn write(
    transaction: &Transaction<'_>,
    keys: &[IdempotencyRow],
) -> Result<(), StoreError> {
    let mut upsert = transaction.prepare_cached(
        "INSERT INTO idempotency (namespace, key, stored_at, body_hash, answer)
         VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (namespace, key) DO UPDATE SET stored_at = excluded.stored_at,
            body_hash = excluded.body_hash, answer = excluded.answer",
    )?;
    for IdempotencyRow { key, body_hash, answer, stored_at } in keys {
        let stored_at = moment_value(*stored_at);
        upsert.execute(params![key.namespace, key.key, stored_at, body_hash, answer])?;
    }
    Ok(())
}

/// The rows of these keys that are not older than this.
///
/// Each key is one lookup of one statement. A join with all of them in a table of JSON was measured
/// as well: it costs twice as much for keys that are there, and as much for those that are not.
pub(super) fn find(
    connection: &Connection,
    keys: &[RequestKey],
    oldest: Moment,
) -> Result<HashMap<RequestKey, IdempotencyRow>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT stored_at, body_hash, answer FROM idempotency
         WHERE namespace = ?1 AND key = ?2 AND stored_at >= ?3",
    )?;
    let mut found = HashMap::new();
    for key in keys {
        let parameters = params![key.namespace, key.key, moment_value(oldest)];
        let row = row::one(&mut statement, parameters, |row| {
            Ok(IdempotencyRow {
                key: key.clone(),
                stored_at: row::moment(row, 0)?,
                body_hash: row.get(1)?,
                answer: row.get(2)?,
            })
        })?;
        found.extend(row.map(|row| (key.clone(), row)));
    }
    Ok(found)
}

/// Whether a key is older than this.
pub(super) fn is_due(connection: &Connection, oldest: Moment) -> Result<bool, StoreError> {
    let first: Option<i64> = connection
        .prepare_cached("SELECT stored_at FROM idempotency ORDER BY stored_at LIMIT 1")?
        .query_row([], |row| row.get(0))
        .optional()?;
    Ok(first.is_some_and(|first| first < moment_value(oldest)))
}

pub(super) fn forget(
    transaction: &Transaction<'_>,
    oldest: Moment,
    limit: u32,
) -> Result<Removed, StoreError> {
    let expired: Vec<i64> = row::all(
        &mut *transaction.prepare_cached(
            "SELECT rowid FROM idempotency INDEXED BY idempotency_time
             WHERE stored_at < ?1 ORDER BY stored_at LIMIT ?2",
        )?,
        params![moment_value(oldest), limit],
        |row| Ok(row.get(0)?),
    )?;
    let mut delete = transaction.prepare_cached("DELETE FROM idempotency WHERE rowid = ?1")?;
    for key in &expired {
        delete.execute([key])?;
    }
    let count = u32::try_from(expired.len()).unwrap_or(u32::MAX);
    Ok(Removed { count, more: is_due(transaction, oldest)? })
}
