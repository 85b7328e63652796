//! Executions, and what they left, in their columns.

use api_types::ExecutionId;
use api_types::execution::RunOutput;
use api_types::quantity::Resources;
use scheduler::change::ExecutionRow;

use super::{Columns, Id, compute_state, counter, desired_state, from_json, of, text};
use crate::store::{LiveExecution, StoreError, StoredExecution};

/// The columns that [`read_row`] reads.
pub(in crate::store) const COLUMNS: &str = "e.id, j.id, e.slot, e.node, e.session, e.evaluation,
    e.cpu_millis, e.memory_bytes, e.disk_bytes, e.gpus, e.desired, e.desired_message, e.compute,
    e.compute_message, e.attempt, e.infra_failures, e.short_runs, e.exclusions, e.refused_by,
    e.previous, e.followup, e.revision, e.create_time, e.modify_time, e.offered_at, e.accepted_at, e.started_at,
    e.process_ended_at, e.version";

/// How many columns these are.
const COLUMN_COUNT: usize = 29;

/// How many columns [`WHAT_IT_LEFT`] has.
const LEFT_COUNT: usize = 14;

pub(in crate::store) const WHAT_IT_LEFT: &str = "e.next, p.result, o.exit_code, o.stdout_truncated,
    o.stderr_truncated, o.stdout, o.stderr, o.runner_error, o.usage,
    o.stdout_tail, o.stdout_bytes, o.stderr_tail, o.stderr_bytes,
    o.omitted";

pub(in crate::store) fn read_row(row: &impl Columns) -> Result<ExecutionRow, StoreError> {
    let id = Id::get(row, 0)?;
    of(id, read_rest(id, row))
}

fn read_rest(id: ExecutionId, row: &impl Columns) -> Result<ExecutionRow, StoreError> {
    Ok(ExecutionRow {
        id,
        job: Id::get(row, 1)?,
        index: row.value(2)?,
        node: Id::get(row, 3)?,
        session: counter(row, 4)?,
        evaluation: Id::get(row, 5)?,
        resources: Resources {
            cpu_millis: counter(row, 6)?,
            memory_bytes: counter(row, 7)?,
            disk_bytes: counter(row, 8)?,
            gpus: counter(row, 9)?,
        },
        desired: desired_state(row.value(10)?)?,
        desired_message: row.value::<String>(11)?.into(),
        compute: compute_state(row.value(12)?)?,
        compute_message: row.value::<String>(13)?.into(),
        tries: super::tries(row, 14)?,
        previous: Id::get_option(row, 19)?,
        followup: Id::get_option(row, 20)?,
        revision: counter(row, 21)?,
        create_time: super::time(row, 22)?,
        modify_time: super::time(row, 23)?,
        offered_at: super::moment(row, 24)?,
        accepted_at: super::moment_option(row, 25)?,
        started_at: super::moment_option(row, 26)?,
        process_ended_at: super::moment_option(row, 27)?,
        version: counter(row, 28)?,
    })
}

pub(in crate::store) fn read_stored(row: &impl Columns) -> Result<StoredExecution, StoreError> {
    let execution = read_row(row)?;
    of(execution.id, read_left(execution, row))
}

fn read_left(execution: ExecutionRow, row: &impl Columns) -> Result<StoredExecution, StoreError> {
    let at = COLUMN_COUNT;
    let published_result = row.value::<Option<String>>(at + 1)?;
    let usage = row.value::<Option<String>>(at + 8)?;
    let omitted = row.value::<Option<String>>(at + 13)?;
    let omitted = omitted.map(|json| from_json(&json)).transpose()?;
    let run_output = match row.value(at + 2)? {
        None => None,
        Some(exit_code) => Some(RunOutput {
            exit_code,
            stdout_truncated: row.value(at + 3)?,
            stderr_truncated: row.value(at + 4)?,
            stdout: row.value(at + 5)?,
            stderr: row.value(at + 6)?,
            runner_error: row.value(at + 7)?,
            stdout_tail: row.value(at + 9)?,
            stdout_bytes: counter(row, at + 10)?,
            stderr_tail: row.value(at + 11)?,
            stderr_bytes: counter(row, at + 12)?,
            omitted: omitted.unwrap_or_default(),
        }),
    };
    Ok(StoredExecution {
        row: execution,
        next: Id::get_option(row, at)?,
        run_output,
        usage: usage.map(|json| from_json(&json)).transpose()?,
        published_result: published_result.map(|json| from_json(&json)).transpose()?,
    })
}

/// Reads, after the columns of [`read_stored`], the number of the execution, and the specification of
/// the version that it was offered with.
pub(in crate::store) fn read_live(row: &impl Columns) -> Result<LiveExecution, StoreError> {
    let at = COLUMN_COUNT + LEFT_COUNT;
    let (number, spec_json) = (counter(row, at)?, text(row, at + 1)?);
    Ok(LiveExecution { number, execution: read_stored(row)?, spec_json })
}

/// Bytes of the texts that a node sent about an execution; the rest is small.
pub(in crate::store) fn text_bytes(execution: &StoredExecution) -> usize {
    let output = execution.run_output.as_ref();
    let output = output.map_or(0, |run| {
        let ends = run.stdout_tail.len() + run.stderr_tail.len();
        run.stdout.len() + run.stderr.len() + run.runner_error.len() + ends
    });
    execution.row.compute_message.len() + output
}
