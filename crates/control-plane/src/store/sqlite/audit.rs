//! The audit log.

use api_types::Timestamp;
use api_types::audit::{AuditChain, AuditRecord};
use rusqlite::{Connection, Transaction, params};

use super::row::{self, audit_table, bad_record, counter};
use crate::audit::{AUDIT_RECORDS, CHANGES_KEPT, Chain, Chains};
use crate::store::budget::SURPLUS_AT_ONCE;
use crate::store::{AuditQuery, Page, StoreError};

/// See [`crate::audit`]; `time` is Unix nanoseconds. The sequence is the only index: every
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

/// The second chain. The log of a release with one is the beginning of the first.
pub(super) const STEP_REST: &str = "
CREATE TABLE audit_rest (
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
        let table = audit_table(record.chain);
        let time = Timestamp::parse(&record.time).unwrap_or_default();
        let text = serde_json::to_string(record).map_err(bad_record)?;
        transaction
            .prepare_cached(&format!(
                "INSERT INTO {table} (sequence, time, user, operation, hash, record)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
            ))?
            .execute(params![
                record.sequence.cast_signed(),
                time.0,
                record.user,
                record.operation,
                record.hash,
                text,
            ])?;
        let too_many = record.sequence.saturating_sub(AUDIT_RECORDS);
        match record.chain {
            AuditChain::Changes => remove(transaction, table, too_many, time - CHANGES_KEPT)?,
            AuditChain::Rest if too_many > 0 => {
                remove(transaction, table, too_many, Timestamp::ZERO)?;
            }
            AuditChain::Rest => {}
        }
    }
    Ok(())
}

/// Removes records up to a sequence, and those before the first that is as new as this; always the
/// oldest, so that what stays is a chain without a gap.
fn remove(
    transaction: &Transaction<'_>,
    table: &str,
    through: u64,
    before: Timestamp,
) -> Result<(), StoreError> {
    let sql = format!(
        "WITH oldest AS (SELECT sequence, time FROM {table} ORDER BY sequence LIMIT ?3)
         DELETE FROM {table} WHERE sequence IN (SELECT sequence FROM oldest)
            AND (sequence <= ?1
                OR sequence < coalesce(
                    (SELECT min(sequence) FROM oldest WHERE time >= ?2), ?4))"
    );
    let parameters = params![through.cast_signed(), before.0, SURPLUS_AT_ONCE, i64::MAX];
    transaction.prepare_cached(&sql)?.execute(parameters)?;
    Ok(())
}

pub(super) fn chains(connection: &Connection) -> Result<Chains, StoreError> {
    let end = |chain| {
        let sql = format!(
            "SELECT sequence, hash FROM {} ORDER BY sequence DESC LIMIT 1",
            audit_table(chain)
        );
        let last = row::one(&mut *connection.prepare_cached(&sql)?, [], |row| {
            Ok(Chain { sequence: counter(row, 0)?, hash: row.get(1)? })
        })?;
        Ok::<_, StoreError>(last.unwrap_or_default())
    };
    Ok(Chains { changes: end(AuditChain::Changes)?, rest: end(AuditChain::Rest)? })
}

pub(super) fn records(
    connection: &Connection,
    query: &AuditQuery,
) -> Result<Page<AuditRecord>, StoreError> {
    let (beyond, direction) = if query.reverse { ("<", "DESC") } else { (">", "ASC") };
    let start = if query.reverse { i64::MAX } else { 0 };
    let sql = format!(
        "SELECT record FROM {}
         WHERE sequence {beyond} ?1 AND time >= ?2 AND (?3 IS NULL OR user = ?3)
            AND (?4 IS NULL OR operation = ?4)
         ORDER BY sequence {direction} LIMIT ?5",
        audit_table(query.chain)
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
