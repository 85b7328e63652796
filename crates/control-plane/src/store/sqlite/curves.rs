//! What executions used over time: eight bytes a point, so that the curve of an execution takes a
//! kilobyte at most.

use api_types::curve::{MAX_POINTS, UsageCurve};
use api_types::{ExecutionId, JobId, Timestamp};
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::row::{self, Id, bad_record};
use crate::store::{StoreError, StoredCurve};

/// Apart from the outputs, because a page of executions needs none of it. An older release neither
/// writes nor removes these rows.
pub(super) const STEP: &str = "
CREATE TABLE usage_curve (execution INTEGER PRIMARY KEY, curve BLOB NOT NULL);
";

/// Bytes before the points: when they begin and end, and the step.
const HEAD_BYTES: usize = 20;

const POINT_BYTES: usize = 8;

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

fn to_bytes(curve: &UsageCurve) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES + POINT_BYTES * curve.cpu.len());
    bytes.extend_from_slice(&curve.begin_time.0.to_le_bytes());
    bytes.extend_from_slice(&curve.end_time.0.to_le_bytes());
    bytes.extend_from_slice(&curve.step.to_le_bytes());
    for (cores, memory) in curve.cpu.iter().zip(&curve.memory) {
        bytes.extend_from_slice(&cores.to_le_bytes());
        bytes.extend_from_slice(&approximate(*memory).to_le_bytes());
    }
    bytes
}

fn of_bytes(bytes: &[u8]) -> Result<UsageCurve, StoreError> {
    let damaged = || bad_record("the curve of an execution");
    let (begin, rest) = bytes.split_first_chunk().ok_or_else(damaged)?;
    let (end, rest) = rest.split_first_chunk().ok_or_else(damaged)?;
    let (step, rest) = rest.split_first_chunk().ok_or_else(damaged)?;
    let (points, rest) = rest.as_chunks::<POINT_BYTES>();
    if !rest.is_empty() || points.len() > MAX_POINTS {
        return Err(damaged());
    }
    let number = |point: &[u8; POINT_BYTES], at: usize| {
        let [a, b, c, d] = [point[at], point[at + 1], point[at + 2], point[at + 3]];
        f32::from_le_bytes([a, b, c, d])
    };
    Ok(UsageCurve {
        begin_time: Timestamp(i64::from_le_bytes(*begin)),
        end_time: Timestamp(i64::from_le_bytes(*end)),
        step: u32::from_le_bytes(*step),
        cpu: points.iter().map(|point| number(point, 0)).collect(),
        memory: points.iter().map(|point| whole(number(point, 4))).collect(),
    })
}

#[expect(clippy::cast_precision_loss, reason = "seven digits suffice for a chart")]
fn approximate(bytes: u64) -> f32 {
    bytes as f32
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it was made from a number of bytes"
)]
fn whole(bytes: f32) -> u64 {
    bytes as u64
}
