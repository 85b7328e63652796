//! Executions and the results of their runs: how they are written and read.
//!
//! A page of a job's executions scans every execution of the job, without its results, and sorts:
//! about 1 µs each. Indexes in four orders would be rewritten with every change instead.

use api_types::execution::ComputeState;
use api_types::{ExecutionId, JobId};
use rusqlite::{Connection, Statement, Transaction, params, params_from_iter};
use scheduler::change::{Changes, ExecutionRow};

use super::numbers::JobNumbers;
use super::outputs;
use super::row::executions::{COLUMNS, WHAT_IT_LEFT, read_live, read_row, read_stored, text_bytes};
use super::row::{self, Columns, Id, exclusion_bytes, moment_value, name_list};
use crate::store::page::PageBuilder;
use crate::store::{
    ExecutionQuery, LiveExecution, LiveExecutionsQuery, Page, StoreError, StoredExecution, is_live,
    select,
};

/// The node that refused a slot's container. An older release forgets it, and tries that node again.
pub(super) const STEP_REFUSED: &str = "
ALTER TABLE execution ADD COLUMN refused_by BLOB;
ALTER TABLE pending_slot ADD COLUMN refused_by BLOB;
";

const FROM: &str = "FROM execution AS e CROSS JOIN job AS j ON j.number = e.job
    LEFT JOIN run_output AS o ON o.execution = e.number
    LEFT JOIN published AS p ON p.job = e.job AND p.slot = e.slot
        AND p.create_time = e.create_time AND p.id = e.id";

pub(super) fn write(
    transaction: &Transaction<'_>,
    numbers: &mut JobNumbers,
    changes: &Changes,
) -> Result<(), StoreError> {
    let mut rows: Vec<_> = changes.executions.values().collect();
    rows.sort_unstable_by_key(|row| (row.create_time, row.job, row.index, row.id));
    let mut upsert = transaction.prepare_cached(UPSERT)?;
    for row in rows {
        let job = numbers.get(transaction, row.job)?;
        write_row(&mut upsert, job, row)?;
    }
    outputs::write(transaction, &changes.outputs)?;
    let mut successor =
        transaction.prepare_cached("UPDATE execution SET next = ?2 WHERE id = ?1")?;
    for (execution, next) in &changes.successors {
        successor.execute([execution.bytes(), next.bytes()])?;
    }
    Ok(())
}

/// All but what makes it this execution may change: its ID, job, version, slot and creation.
const UPSERT: &str = "
    INSERT INTO execution (id, job, slot, create_time, modify_time, compute, desired, live, node,
        session, revision, started_at, cpu_millis, memory_bytes, disk_bytes, gpus, attempt,
        infra_failures, short_runs, exclusions, evaluation, previous, followup, desired_message,
        compute_message, offered_at, accepted_at, process_ended_at, version, refused_by)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19,
        ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30)
    ON CONFLICT (id) DO UPDATE SET modify_time = ?5, compute = ?6, desired = ?7, live = ?8,
        node = ?9, session = ?10, revision = ?11, started_at = ?12, cpu_millis = ?13,
        memory_bytes = ?14, disk_bytes = ?15, gpus = ?16, attempt = ?17, infra_failures = ?18,
        short_runs = ?19, exclusions = ?20, evaluation = ?21, previous = ?22, followup = ?23,
        desired_message = ?24, compute_message = ?25, offered_at = ?26, accepted_at = ?27,
        process_ended_at = ?28, refused_by = ?30";

fn write_row(upsert: &mut Statement<'_>, job: i64, row: &ExecutionRow) -> rusqlite::Result<()> {
    upsert.execute(params![
        row.id.bytes(),
        job,
        row.index,
        row.create_time.0,
        row.modify_time.0,
        u8::from(row.compute),
        u8::from(row.desired),
        is_live(row.compute),
        row.node.bytes(),
        row.session.cast_signed(),
        row.revision.cast_signed(),
        row.started_at.map(moment_value),
        row.resources.cpu_millis.cast_signed(),
        row.resources.memory_bytes.cast_signed(),
        row.resources.disk_bytes.cast_signed(),
        row.resources.gpus.cast_signed(),
        row.tries.attempt,
        row.tries.infra_failures,
        row.tries.short_runs,
        exclusion_bytes(&row.tries),
        row.evaluation.bytes(),
        row.previous.map(Id::bytes),
        row.followup.map(Id::bytes),
        &*row.desired_message,
        &*row.compute_message,
        moment_value(row.offered_at),
        row.accepted_at.map(moment_value),
        row.process_ended_at.map(moment_value),
        row.version.cast_signed(),
        row.tries.refused_by.map(Id::bytes),
    ])?;
    Ok(())
}

pub(super) fn execution(
    connection: &Connection,
    id: ExecutionId,
) -> Result<Option<StoredExecution>, StoreError> {
    let sql = format!("SELECT {COLUMNS}, {WHAT_IT_LEFT} {FROM} WHERE e.id = ?1");
    row::one(&mut *connection.prepare_cached(&sql)?, [id.bytes()], read_stored)
}

pub(super) fn executions(
    connection: &Connection,
    query: &ExecutionQuery,
) -> Result<Page<StoredExecution>, StoreError> {
    let sql = format!("SELECT {COLUMNS}, {WHAT_IT_LEFT} {FROM} WHERE e.number = ?1");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut page = PageBuilder::new(query.limit);
    for number in numbers(connection, query)? {
        if !page.has_room() {
            break;
        }
        if let Some(execution) = row::one(&mut statement, [number], read_stored)? {
            let bytes = text_bytes(&execution);
            page.add(execution, bytes);
        }
    }
    Ok(page.finish())
}

/// Scans every execution of the job, like a page of them.
pub(super) fn failures(
    connection: &Connection,
    job: JobId,
    limit: u32,
) -> Result<Vec<ExecutionRow>, StoreError> {
    let failed = [ComputeState::Failed, ComputeState::AskForBidRejected].map(u8::from);
    let sql = format!(
        "SELECT {COLUMNS} FROM job AS j
            CROSS JOIN execution AS e INDEXED BY execution_job ON e.job = j.number
         WHERE j.id = ?1 AND e.compute IN (?2, ?3)
         ORDER BY e.modify_time DESC, e.id DESC LIMIT ?4"
    );
    let parameters = params![job.bytes(), failed[0], failed[1], limit];
    row::all(&mut *connection.prepare_cached(&sql)?, parameters, read_row)
}

/// The slots of the job that an execution completed, some more than once.
pub(super) fn completed_slots(connection: &Connection, number: i64) -> rusqlite::Result<Vec<u32>> {
    let mut statement = connection.prepare_cached(
        "SELECT slot FROM execution INDEXED BY execution_job WHERE job = ?1 AND compute = ?2",
    )?;
    let completed = u8::from(ComputeState::Completed);
    statement.query_map(params![number, completed], |row| row.get(0))?.collect()
}

/// The page's executions and one more, if there is one.
fn numbers(connection: &Connection, query: &ExecutionQuery) -> Result<Vec<i64>, StoreError> {
    let (sql, parameters) = select::executions::executions(query, Some("INDEXED BY execution_job"));
    let mut statement = connection.prepare_cached(&sql)?;
    row::all(&mut statement, params_from_iter(&parameters.0), |row| row.value(0))
}

/// Walks the live executions, of any node: about 1 µs for each that does not match, and there are as
/// many as the cluster has room for. An index by node would be rewritten with every change.
pub(super) fn live(
    connection: &Connection,
    query: &LiveExecutionsQuery,
) -> Result<Page<LiveExecution>, StoreError> {
    let (beyond, direction) = if query.reverse { ("<", "DESC") } else { (">", "ASC") };
    let start = if query.reverse { i64::MAX } else { 0 };
    let after = query.after.map_or(start, u64::cast_signed);
    let sql = format!(
        "SELECT {COLUMNS}, {WHAT_IT_LEFT}, e.number, coalesce(s.json, f.json)
         FROM execution AS e INDEXED BY execution_live CROSS JOIN job AS j ON j.number = e.job
            LEFT JOIN job_spec AS s ON s.job = e.job AND s.version = e.version
            LEFT JOIN former_spec AS f ON f.job = e.job AND f.version = e.version
            LEFT JOIN run_output AS o ON o.execution = e.number
            LEFT JOIN published AS p ON p.job = e.job AND p.slot = e.slot
                AND p.create_time = e.create_time AND p.id = e.id
         WHERE e.live = 1 AND e.number {beyond} ?1 AND (?2 IS NULL OR e.node = ?2)
            AND (?4 IS NULL OR j.namespace IN (SELECT value FROM json_each(?4)))
         ORDER BY e.number {direction} LIMIT ?3"
    );
    let names = name_list(&query.namespaces)?;
    let parameters = params![after, query.node.map(Id::bytes), i64::from(query.limit) + 1, names];
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(parameters)?;
    let mut page = PageBuilder::new(query.limit);
    while let Some(row) = rows.next()? {
        if !page.has_room() {
            break;
        }
        let execution = read_live(row)?;
        let bytes = execution.spec_json.len();
        page.add(execution, bytes);
    }
    Ok(page.finish())
}
