//! What executions leave behind: their output, what they used, and where their results are.

use api_types::ExecutionId;
use api_types::execution::PublishedResult;
use api_types::log::{LogData, OutputTail, StreamTail};
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use scheduler::change::OutputRow;

use super::curves;
use super::row::{self, Id, bad_record, counter};
use crate::store::{MAX_TAILS_BYTES, StoreError};

/// What a run used, as JSON; null of runs that were not measured. The end of truncated streams in
/// the record, and a longer end of failed executions.
pub(super) const STEP: &str = "
ALTER TABLE run_output ADD COLUMN usage TEXT;
ALTER TABLE run_output ADD COLUMN stdout_tail TEXT NOT NULL DEFAULT '';
ALTER TABLE run_output ADD COLUMN stdout_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run_output ADD COLUMN stderr_tail TEXT NOT NULL DEFAULT '';
ALTER TABLE run_output ADD COLUMN stderr_bytes INTEGER NOT NULL DEFAULT 0;
CREATE TABLE output_tail (
    number INTEGER PRIMARY KEY,
    job INTEGER NOT NULL,
    execution INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    stdout_offset INTEGER NOT NULL,
    stderr_offset INTEGER NOT NULL,
    stdout BLOB NOT NULL,
    stderr BLOB NOT NULL
);
CREATE UNIQUE INDEX output_tail_execution ON output_tail (job, execution);
-- What the tails of a job take together.
CREATE TABLE output_tail_total (job INTEGER PRIMARY KEY, bytes INTEGER NOT NULL);
";

/// What was left out of the results, as a JSON array; null if nothing was.
pub(super) const STEP_OMITTED: &str = "ALTER TABLE run_output ADD COLUMN omitted TEXT;";

/// A result with an empty type means that nothing was published, and is not stored.
pub(super) fn write(
    transaction: &Transaction<'_>,
    outputs: &[OutputRow],
) -> Result<(), StoreError> {
    let mut insert_run = transaction.prepare_cached(
        "INSERT OR REPLACE INTO run_output (execution, exit_code, stdout_truncated,
            stderr_truncated, stdout, stderr, runner_error, usage, stdout_tail, stdout_bytes,
            stderr_tail, stderr_bytes, omitted)
         SELECT number, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13 FROM execution WHERE id = ?1",
    )?;
    let mut insert_published = transaction.prepare_cached(
        "INSERT OR REPLACE INTO published (job, slot, create_time, id, result)
         SELECT job, slot, create_time, id, ?2 FROM execution WHERE id = ?1",
    )?;
    let empty = PublishedResult::default().publisher_type;
    for output in outputs {
        if let Some(run) = &output.run_output {
            let usage = output.usage.map(|usage| serde_json::to_string(&usage)).transpose();
            let omitted = (!run.omitted.is_empty()).then(|| serde_json::to_string(&run.omitted));
            let written = insert_run.execute(params![
                output.id.bytes(),
                run.exit_code,
                run.stdout_truncated,
                run.stderr_truncated,
                run.stdout,
                run.stderr,
                run.runner_error,
                usage.map_err(bad_record)?,
                run.stdout_tail,
                run.stdout_bytes.cast_signed(),
                run.stderr_tail,
                run.stderr_bytes.cast_signed(),
                omitted.transpose().map_err(bad_record)?,
            ])?;
            is_stored(written, output.id)?;
        }
        if let Some(curve) = &output.curve {
            curves::write(transaction, output.id, curve)?;
        }
        if let Some(tail) = &output.tail {
            write_tail(transaction, output.id, tail)?;
        }
        let published = output.published_result.as_ref();
        if let Some(result) = published.filter(|result| result.publisher_type != empty) {
            let json = serde_json::to_string(result).map_err(bad_record)?;
            let written = insert_published.execute(params![output.id.bytes(), json])?;
            is_stored(written, output.id)?;
        }
    }
    Ok(())
}

fn is_stored(written: usize, id: ExecutionId) -> Result<(), StoreError> {
    match written {
        0 => Err(bad_record(format!("output of {id}, which is not stored"))),
        _ => Ok(()),
    }
}

/// Keeps a tail, and makes room for it.
fn write_tail(
    transaction: &Transaction<'_>,
    id: ExecutionId,
    tail: &OutputTail,
) -> Result<(), StoreError> {
    let found = transaction
        .prepare_cached("SELECT number, job FROM execution WHERE id = ?1")?
        .query_row([id.bytes()], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))
        .optional()?;
    let Some((execution, job)) = found else { return is_stored(0, id) };
    let bytes = |tail: &StreamTail| {
        let bytes = tail.data.clone().into_bytes();
        bytes.ok_or_else(|| bad_record(format!("the end of the output of {id}")))
    };
    let (stdout, stderr) = (bytes(&tail.stdout)?, bytes(&tail.stderr)?);
    // A repeated report replaces what the first one brought.
    remove_tail(transaction, job, execution)?;
    let size = i64::try_from(stdout.len() + stderr.len()).unwrap_or(i64::MAX);
    let mut total = add_to_total(transaction, job, size)?;
    while total > MAX_TAILS_BYTES.cast_signed() {
        let oldest = transaction
            .prepare_cached(
                "SELECT execution FROM output_tail WHERE job = ?1 ORDER BY execution LIMIT 1",
            )?
            .query_row([job], |row| row.get::<_, i64>(0))
            .optional()?;
        let Some(oldest) = oldest else { break };
        remove_tail(transaction, job, oldest)?;
        total = add_to_total(transaction, job, 0)?;
    }
    transaction
        .prepare_cached(
            "INSERT INTO output_tail (job, execution, bytes, stdout_offset, stderr_offset, stdout,
                stderr)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            job,
            execution,
            size,
            tail.stdout.offset.cast_signed(),
            tail.stderr.offset.cast_signed(),
            stdout,
            stderr,
        ])?;
    Ok(())
}

/// Returns the new total.
fn add_to_total(transaction: &Transaction<'_>, job: i64, bytes: i64) -> Result<i64, StoreError> {
    transaction
        .prepare_cached(
            "INSERT INTO output_tail_total (job, bytes) VALUES (?1, ?2)
             ON CONFLICT (job) DO UPDATE SET bytes = bytes + ?2",
        )?
        .execute(params![job, bytes])?;
    let mut total =
        transaction.prepare_cached("SELECT bytes FROM output_tail_total WHERE job = ?1")?;
    Ok(total.query_row([job], |row| row.get(0))?)
}

/// Returns whether there was one.
pub(super) fn remove_tail(
    transaction: &Transaction<'_>,
    job: i64,
    execution: i64,
) -> Result<bool, StoreError> {
    let kept = transaction
        .prepare_cached("SELECT bytes FROM output_tail WHERE job = ?1 AND execution = ?2")?
        .query_row([job, execution], |row| row.get::<_, i64>(0))
        .optional()?;
    let Some(bytes) = kept else { return Ok(false) };
    transaction
        .prepare_cached("DELETE FROM output_tail WHERE job = ?1 AND execution = ?2")?
        .execute([job, execution])?;
    add_to_total(transaction, job, -bytes)?;
    Ok(true)
}

pub(super) fn tail(
    connection: &Connection,
    id: ExecutionId,
) -> Result<Option<OutputTail>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT t.stdout_offset, t.stderr_offset, t.stdout, t.stderr
         FROM execution AS e CROSS JOIN job AS j ON j.number = e.job
            CROSS JOIN output_tail AS t ON t.job = e.job AND t.execution = e.number
         WHERE e.id = ?1",
    )?;
    row::one(&mut statement, [id.bytes()], |row| {
        let (stdout, stderr): (Vec<u8>, Vec<u8>) = (row.get(2)?, row.get(3)?);
        Ok(OutputTail {
            stdout: StreamTail { offset: counter(row, 0)?, data: LogData::from(&stdout[..]) },
            stderr: StreamTail { offset: counter(row, 1)?, data: LogData::from(&stderr[..]) },
        })
    })
}
