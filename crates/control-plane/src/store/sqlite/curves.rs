//! What executions used over time: eight bytes a point, so that the curve of an execution takes a
//! kilobyte at most.

use api_types::curve::UsageCurve;
use api_types::{ExecutionId, JobId};
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::row::curve::{of_bytes, to_bytes};
use super::row::{self, Id};
use crate::store::{StoreError, StoredCurve};

/// Apart from the outputs, because a page of executions needs none of it. An older release neither
/// writes nor removes these rows.
pub(super) const STEP: &str = "
CREATE TABLE usage_curve (execution INTEGER PRIMARY KEY, curve BLOB NOT NULL);
";

pub(super) fn write(
    transaction: &Transaction<'_>,
    id: ExecutionId,
    curve: &UsageCurve,
) -> Result<(), StoreError> {
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO usage_curve (execution, curve)
             SELECT number, ?2 FROM execution WHERE id = ?1",
        )?
        .execute(params![id.bytes(), to_bytes(curve)])?;
    Ok(())
}

pub(super) fn remove(transaction: &Transaction<'_>, execution: i64) -> Result<(), StoreError> {
    transaction
        .prepare_cached("DELETE FROM usage_curve WHERE execution = ?1")?
        .execute([execution])?;
    Ok(())
}

pub(super) fn curve(
    connection: &Connection,
    id: ExecutionId,
) -> Result<Option<UsageCurve>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT c.curve FROM execution AS e CROSS JOIN job AS j ON j.number = e.job
            CROSS JOIN usage_curve AS c ON c.execution = e.number
         WHERE e.id = ?1",
    )?;
    let found: Option<Vec<u8>> = statement.query_row([id.bytes()], |row| row.get(0)).optional()?;
    found.as_deref().map(of_bytes).transpose()
}

/// By index; walks the executions of the job without their rows.
pub(super) fn of_job(
    connection: &Connection,
    job: JobId,
    limit: u32,
) -> Result<Vec<StoredCurve>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT e.id, e.slot, c.curve
         FROM execution AS e INDEXED BY execution_job
            CROSS JOIN usage_curve AS c ON c.execution = e.number
         WHERE e.job = (SELECT number FROM job WHERE id = ?1)
         ORDER BY e.slot, e.create_time, e.id LIMIT ?2",
    )?;
    row::all(&mut statement, params![job.bytes(), limit], |row| {
        let bytes: Vec<u8> = row.get(2)?;
        Ok(StoredCurve { id: Id::get(row, 0)?, index: row.get(1)?, curve: of_bytes(&bytes)? })
    })
}
