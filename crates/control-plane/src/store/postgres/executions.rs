//! Executions, and what they left.
//!
//! A page of a job's executions scans every execution of the job, without its results, and sorts.

use api_types::curve::UsageCurve;
use api_types::execution::ComputeState;
use api_types::log::{LogData, OutputTail, StreamTail};
use api_types::{ExecutionId, JobId};
use scheduler::change::ExecutionRow;
use tokio_postgres::Row;

use super::jobs::fitting;
use super::reader::{Param, Reader};
use super::row::executions::{COLUMNS, WHAT_IT_LEFT, read_live, read_row, read_stored};
use super::row::{Columns, Id, counter, curve, name_list, of};
use super::select::numbered;
use crate::store::{
    ExecutionQuery, LiveExecution, LiveExecutionsQuery, Page, StoreError, StoredCurve,
    StoredExecution, select,
};

const JOINS: &str = "JOIN job AS j ON j.number = e.job
    LEFT JOIN run_output AS o ON o.execution = e.number
    LEFT JOIN published AS p ON p.job = e.job AND p.slot = e.slot
        AND p.create_time = e.create_time AND p.id = e.id";

/// Executions by their numbers, in the order in which these are given.
const BY_NUMBER: &str = "unnest($1::bigint[]) WITH ORDINALITY AS w (number, place)
    JOIN execution AS e ON e.number = w.number";

/// Bytes of the texts that a node sent about an execution; the rest is small.
const TEXT_BYTES: &str = "octet_length(e.compute_message) + coalesce(octet_length(o.stdout)
    + octet_length(o.stderr) + octet_length(o.runner_error) + octet_length(o.stdout_tail)
    + octet_length(o.stderr_tail), 0)";

const OF_JOB: &str = "job = (SELECT number FROM job WHERE id = $1)";

pub(super) fn execution(
    reader: &mut Reader,
    id: ExecutionId,
) -> Result<Option<StoredExecution>, StoreError> {
    let sql =
        format!("SELECT {COLUMNS}, {WHAT_IT_LEFT} FROM execution AS e {JOINS} WHERE e.id = $1");
    reader.one(&sql, &[&id.bytes().as_slice()], read_stored)
}

pub(super) fn executions(
    reader: &mut Reader,
    query: &ExecutionQuery,
) -> Result<Page<StoredExecution>, StoreError> {
    let (sql, parameters) = select::executions::executions(query, None);
    let (sql, parameters) = numbered(&sql, &parameters.0);
    let params: Vec<_> = parameters.iter().map(|parameter| *parameter as _).collect();
    let numbers = reader.all(&sql, &params, |row| row.value::<i64>(0))?;
    let sql = format!(
        "SELECT w.number, ({TEXT_BYTES})::bigint FROM {BY_NUMBER}
            LEFT JOIN run_output AS o ON o.execution = e.number ORDER BY w.place"
    );
    let numbers = fitting(reader, &sql, &[&numbers], query.limit)?;
    let sql = format!("SELECT {COLUMNS}, {WHAT_IT_LEFT} FROM {BY_NUMBER} {JOINS} ORDER BY w.place");
    let items = reader.all(&sql, &[&numbers.items], read_stored)?;
    Ok(Page { items, more: numbers.more })
}

/// Scans every execution of the job, like a page of them.
pub(super) fn failures(
    reader: &mut Reader,
    job: JobId,
    limit: u32,
) -> Result<Vec<ExecutionRow>, StoreError> {
    let [failed, declined] = [ComputeState::Failed, ComputeState::AskForBidRejected].map(u8::from);
    let sql = format!(
        "SELECT {COLUMNS} FROM job AS j JOIN execution AS e ON e.job = j.number
         WHERE j.id = $1 AND e.compute IN ({failed}, {declined})
         ORDER BY e.modify_time DESC, e.id DESC LIMIT {limit}"
    );
    reader.all(&sql, &[&job.bytes().as_slice()], read_row)
}

/// Walks the live executions, of any node, first without their specifications.
pub(super) fn live(
    reader: &mut Reader,
    query: &LiveExecutionsQuery,
) -> Result<Page<LiveExecution>, StoreError> {
    const SPEC: &str = "LEFT JOIN job_spec AS s ON s.job = e.job AND s.version = e.version
        LEFT JOIN former_spec AS f ON f.job = e.job AND f.version = e.version";
    let (beyond, direction) = if query.reverse { ("<", "DESC") } else { (">", "ASC") };
    let start = if query.reverse { i64::MAX } else { 0 };
    let after = query.after.map_or(start, u64::cast_signed);
    let node = query.node.map(|node| node.bytes().to_vec());
    let names = name_list(&query.namespaces);
    let mut params = vec![&after as Param<'_>];
    let mut tests = String::new();
    if let Some(node) = &node {
        params.push(node);
        tests.push_str(&format!(" AND e.node = ${}", params.len()));
    }
    if let Some(names) = &names {
        params.push(names);
        tests.push_str(&format!(" AND j.namespace = ANY(${})", params.len()));
    }
    let sql = format!(
        "SELECT e.number, coalesce(octet_length(s.json), octet_length(f.json), 0)::bigint
         FROM (SELECT e.number FROM execution AS e JOIN job AS j ON j.number = e.job
               WHERE e.live = 1 AND e.number {beyond} $1 {tests}
               ORDER BY e.number {direction} LIMIT {}) AS w
            JOIN execution AS e ON e.number = w.number {SPEC}
         ORDER BY e.number {direction}",
        i64::from(query.limit) + 1
    );
    let numbers = fitting(reader, &sql, &params, query.limit)?;
    let sql = format!(
        "SELECT {COLUMNS}, {WHAT_IT_LEFT}, e.number, coalesce(s.json, f.json)
         FROM {BY_NUMBER} {JOINS} {SPEC} ORDER BY w.place"
    );
    let items = reader.all(&sql, &[&numbers.items], read_live)?;
    Ok(Page { items, more: numbers.more })
}

/// The end of the output of a failed execution.
pub(super) fn tail(reader: &mut Reader, id: ExecutionId) -> Result<Option<OutputTail>, StoreError> {
    let sql = "SELECT t.stdout_offset, t.stderr_offset, t.stdout, t.stderr
         FROM execution AS e JOIN job AS j ON j.number = e.job
            JOIN output_tail AS t ON t.job = e.job AND t.execution = e.number
         WHERE e.id = $1";
    reader.one(sql, &[&id.bytes().as_slice()], |row| of(id, read_tail(row)))
}

/// By index; walks the executions of the job without their rows.
pub(super) fn curves(
    reader: &mut Reader,
    job: JobId,
    limit: u32,
) -> Result<Vec<StoredCurve>, StoreError> {
    let sql = format!(
        "SELECT e.id, e.slot, c.curve
         FROM execution AS e JOIN usage_curve AS c ON c.execution = e.number
         WHERE e.{OF_JOB} ORDER BY e.slot, e.create_time, e.id LIMIT {limit}"
    );
    reader.all(&sql, &[&job.bytes().as_slice()], |row| {
        let (id, bytes): (ExecutionId, Vec<u8>) = (Id::get(row, 0)?, row.value(2)?);
        let curve = of(id, curve::of_bytes(&bytes))?;
        Ok(StoredCurve { id, index: row.value(1)?, curve })
    })
}

pub(super) fn curve(
    reader: &mut Reader,
    id: ExecutionId,
) -> Result<Option<UsageCurve>, StoreError> {
    let sql = "SELECT c.curve FROM execution AS e JOIN job AS j ON j.number = e.job
            JOIN usage_curve AS c ON c.execution = e.number
         WHERE e.id = $1";
    reader.one(sql, &[&id.bytes().as_slice()], |row| {
        of(id, curve::of_bytes(&row.value::<Vec<u8>>(0)?))
    })
}

fn read_tail(row: &Row) -> Result<OutputTail, StoreError> {
    let (stdout, stderr): (Vec<u8>, Vec<u8>) = (row.value(2)?, row.value(3)?);
    Ok(OutputTail {
        stdout: StreamTail { offset: counter(row, 0)?, data: LogData::from(&stdout[..]) },
        stderr: StreamTail { offset: counter(row, 1)?, data: LogData::from(&stderr[..]) },
    })
}
