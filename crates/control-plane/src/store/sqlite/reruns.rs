//! What a rerun needs of a job that has ended: the node of each slot of an ops job.
//!
//! A slot that was placed has executions, which say where. One that waited for its node until the
//! job ended has none, so its node is stored then.

use api_types::{JobId, NodeId};
use rusqlite::{Connection, Row, Transaction, params};
use scheduler::change::Changes;

use super::numbers::JobNumbers;
use super::row::{self, Id};
use crate::store::StoreError;

/// An older release would read a job's scattered indexes as damaged, and tell tasks another count.
pub(super) const STEP: &str = "
CREATE TABLE unplaced_slot (
    job INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    node BLOB NOT NULL,
    PRIMARY KEY (job, slot)
) WITHOUT ROWID;
";

pub(super) fn write(
    transaction: &Transaction<'_>,
    numbers: &mut JobNumbers,
    changes: &Changes,
) -> Result<(), StoreError> {
    let mut insert = transaction.prepare_cached(
        "INSERT OR REPLACE INTO unplaced_slot (job, slot, node) VALUES (?1, ?2, ?3)",
    )?;
    for (job, index, node) in &changes.unplaced {
        insert.execute(params![numbers.get(transaction, *job)?, index, node.bytes()])?;
    }
    Ok(())
}

/// The node of each slot of an ops job that has ended, by index.
pub(super) fn nodes(connection: &Connection, job: JobId) -> Result<Vec<(u32, NodeId)>, StoreError> {
    let read = |row: &Row<'_>| Ok((row.get(0)?, NodeId::get(row, 1)?));
    let mut placed = connection.prepare_cached(
        "SELECT DISTINCT slot, node FROM execution INDEXED BY execution_job
         WHERE job = (SELECT number FROM job WHERE id = ?1)",
    )?;
    let mut unplaced = connection.prepare_cached(
        "SELECT slot, node FROM unplaced_slot WHERE job = (SELECT number FROM job WHERE id = ?1)",
    )?;
    let mut found = row::all(&mut placed, [job.bytes()], read)?;
    found.extend(row::all(&mut unplaced, [job.bytes()], read)?);
    found.sort_unstable_by_key(|(index, _)| *index);
    Ok(found)
}

/// Removes up to `limit` rows of a job; returns the number removed.
pub(super) fn remove(
    transaction: &Transaction<'_>,
    job: i64,
    limit: u32,
) -> Result<u32, StoreError> {
    let slots: Vec<i64> = row::all(
        &mut *transaction.prepare_cached(
            "SELECT slot FROM unplaced_slot WHERE job = ?1 ORDER BY slot LIMIT ?2",
        )?,
        params![job, limit],
        |row| Ok(row.get(0)?),
    )?;
    let mut delete =
        transaction.prepare_cached("DELETE FROM unplaced_slot WHERE job = ?1 AND slot = ?2")?;
    for slot in &slots {
        delete.execute([job, *slot])?;
    }
    Ok(u32::try_from(slots.len()).unwrap_or(u32::MAX))
}
