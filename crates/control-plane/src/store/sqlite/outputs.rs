//! What executions leave behind: their output, what they used, and where their results are.

use api_types::ExecutionId;
use api_types::execution::PublishedResult;
use rusqlite::{Transaction, params};
use scheduler::change::OutputRow;

use super::row::{Id, bad_record};
use crate::store::StoreError;

/// What a run used, as JSON; null of runs that nobody measured.
pub(super) const STEP: &str = "
ALTER TABLE run_output ADD COLUMN usage TEXT;
";

/// A result with an empty type means that nothing was published, and is not stored.
pub(super) fn write(
    transaction: &Transaction<'_>,
    outputs: &[OutputRow],
) -> Result<(), StoreError> {
    let mut insert_run = transaction.prepare_cached(
        "INSERT OR REPLACE INTO run_output (execution, exit_code, stdout_truncated,
            stderr_truncated, stdout, stderr, runner_error, usage)
         SELECT number, ?2, ?3, ?4, ?5, ?6, ?7, ?8 FROM execution WHERE id = ?1",
    )?;
    let mut insert_published = transaction.prepare_cached(
        "INSERT OR REPLACE INTO published (job, slot, create_time, id, result)
         SELECT job, slot, create_time, id, ?2 FROM execution WHERE id = ?1",
    )?;
    let empty = PublishedResult::default().publisher_type;
    for output in outputs {
        if let Some(run) = &output.run_output {
            let usage = output.usage.map(|usage| serde_json::to_string(&usage)).transpose();
            let written = insert_run.execute(params![
                output.id.bytes(),
                run.exit_code,
                run.stdout_truncated,
                run.stderr_truncated,
                run.stdout,
                run.stderr,
                run.runner_error,
                usage.map_err(bad_record)?,
            ])?;
            is_stored(written, output.id)?;
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
