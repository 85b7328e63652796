//! Executions and the results of their runs: how they are written and read.
//!
//! A page of a job's executions scans every execution of the job, without its results, and sorts:
//! about 1 µs each. Indexes in four orders would be rewritten with every change instead.

use api_types::execution::{ComputeState, RunOutput};
use api_types::quantity::Resources;
use api_types::{ExecutionId, JobId};
use rusqlite::{Connection, Row, Statement, Transaction, params};
use scheduler::change::{Changes, ExecutionRow};
use scheduler::slots::Slots;

use super::jobs::PAGE_BYTES;
use super::numbers::JobNumbers;
use super::row::{
    self, Id, bad_record, compute_state, counter, desired_state, exclusion_bytes, moment_value,
    name_list,
};
use super::{outputs, specs};
use crate::store::{
    ExecutionOrder, ExecutionQuery, LiveExecution, LiveExecutionsQuery, Page, StoreError,
    StoredExecution, is_live,
};

/// The columns that [`read_row`] reads.
pub(super) const COLUMNS: &str = "e.id, j.id, e.slot, e.node, e.session, e.evaluation,
    e.cpu_millis, e.memory_bytes, e.disk_bytes, e.gpus, e.desired, e.desired_message, e.compute,
    e.compute_message, e.attempt, e.infra_failures, e.short_runs, e.exclusions, e.refused_by,
    e.previous, e.followup, e.revision, e.create_time, e.modify_time, e.offered_at, e.accepted_at, e.started_at,
    e.process_ended_at, e.version";

/// How many columns these are.
const COLUMN_COUNT: usize = 29;

const FROM: &str = "FROM execution AS e CROSS JOIN job AS j ON j.number = e.job
    LEFT JOIN run_output AS o ON o.execution = e.number
    LEFT JOIN published AS p ON p.job = e.job AND p.slot = e.slot
        AND p.create_time = e.create_time AND p.id = e.id";

/// How many columns [`WHAT_IT_LEFT`] has.
const LEFT_COUNT: usize = 14;

const WHAT_IT_LEFT: &str = "e.next, p.result, o.exit_code, o.stdout_truncated,
    o.stderr_truncated, o.stdout, o.stderr, o.runner_error, o.usage,
    o.stdout_tail, o.stdout_bytes, o.stderr_tail, o.stderr_bytes,
    o.omitted";

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
    let mut numbers = numbers(connection, query)?;
    let mut more = numbers.len() > query.limit as usize;
    numbers.truncate(query.limit as usize);
    let sql = format!("SELECT {COLUMNS}, {WHAT_IT_LEFT} {FROM} WHERE e.number = ?1");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut items = Vec::with_capacity(numbers.len());
    let mut bytes = 0;
    for number in numbers {
        if bytes > PAGE_BYTES {
            more = true;
            break;
        }
        if let Some(execution) = row::one(&mut statement, [number], read_stored)? {
            bytes += text_bytes(&execution);
            items.push(execution);
        }
    }
    Ok(Page { items, more })
}

/// Bytes of the texts that a node sent about an execution; the rest is small.
fn text_bytes(execution: &StoredExecution) -> usize {
    let output = execution.run_output.as_ref();
    let output = output.map_or(0, |run| {
        let ends = run.stdout_tail.len() + run.stderr_tail.len();
        run.stdout.len() + run.stderr.len() + run.runner_error.len() + ends
    });
    execution.row.compute_message.len() + output
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
    let (beyond, direction) = if query.reverse { ("<", "DESC") } else { (">", "ASC") };
    let by = |column: &str| {
        let after = format!("AND ({column}, id) {beyond} (?3, ?4)");
        (after, format!("{column} {direction}, id"))
    };
    let (after, order) = match query.order {
        ExecutionOrder::ModifyTime => by("modify_time"),
        ExecutionOrder::CreateTime => by("create_time"),
        ExecutionOrder::Id => (format!("AND id {beyond} ?4"), "id".to_owned()),
        ExecutionOrder::State => by("compute"),
        ExecutionOrder::Index => by("slot"),
    };
    let states = match query.states.as_slice() {
        [] => String::new(),
        states => {
            let codes: Vec<_> = states.iter().map(|state| u8::from(*state).to_string()).collect();
            format!("AND compute IN ({})", codes.join(", "))
        }
    };
    let slots = query.slots.as_ref().map(within).unwrap_or_default();
    let after = if query.after.is_some() { after.as_str() } else { "" };
    let sql = format!(
        "SELECT number FROM execution INDEXED BY execution_job
         WHERE job = (SELECT number FROM job WHERE id = ?1) {slots} {states} {after}
         ORDER BY {order} {direction} LIMIT ?2"
    );
    let job = query.job.bytes();
    let limit = i64::from(query.limit) + 1;
    let mut statement = connection.prepare_cached(&sql)?;
    let read = |row: &Row<'_>| Ok(row.get(0)?);
    match query.after {
        None => row::all(&mut statement, params![job, limit], read),
        Some(after) => {
            row::all(&mut statement, params![job, limit, after.key, after.id.bytes()], read)
        }
    }
}

/// Executions of these slots. The outer bounds narrow the walk of the index.
fn within(slots: &Slots) -> String {
    let Some(first) = slots.at_or_above(0) else { return "AND false".to_owned() };
    let last = slots.end() - 1;
    let ranges: Vec<_> = slots
        .ranges()
        .map(|range| format!("slot BETWEEN {} AND {}", range.start(), range.end()))
        .collect();
    let ranges = ranges.join(" OR ");
    format!("AND slot BETWEEN {first} AND {last} AND ({ranges})")
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
    let number_column = COLUMN_COUNT + LEFT_COUNT;
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
    let mut items = Vec::new();
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        if items.len() == query.limit as usize || bytes > PAGE_BYTES {
            return Ok(Page { items, more: true });
        }
        let spec_json = specs::text(row, number_column + 1)?;
        bytes += spec_json.len();
        let execution = read_stored(row)?;
        items.push(LiveExecution { number: counter(row, number_column)?, execution, spec_json });
    }
    Ok(Page { items, more: false })
}

pub(super) fn read_row(row: &Row<'_>) -> Result<ExecutionRow, StoreError> {
    Ok(ExecutionRow {
        id: Id::get(row, 0)?,
        job: Id::get(row, 1)?,
        index: row.get(2)?,
        node: Id::get(row, 3)?,
        session: counter(row, 4)?,
        evaluation: Id::get(row, 5)?,
        resources: Resources {
            cpu_millis: counter(row, 6)?,
            memory_bytes: counter(row, 7)?,
            disk_bytes: counter(row, 8)?,
            gpus: counter(row, 9)?,
        },
        desired: desired_state(row.get(10)?)?,
        desired_message: row.get::<_, String>(11)?.into(),
        compute: compute_state(row.get(12)?)?,
        compute_message: row.get::<_, String>(13)?.into(),
        tries: row::tries(row, 14)?,
        previous: Id::get_option(row, 19)?,
        followup: Id::get_option(row, 20)?,
        revision: counter(row, 21)?,
        create_time: row::time(row, 22)?,
        modify_time: row::time(row, 23)?,
        offered_at: row::moment(row, 24)?,
        accepted_at: row::moment_option(row, 25)?,
        started_at: row::moment_option(row, 26)?,
        process_ended_at: row::moment_option(row, 27)?,
        version: counter(row, 28)?,
    })
}

fn read_stored(row: &Row<'_>) -> Result<StoredExecution, StoreError> {
    let at = COLUMN_COUNT;
    let published_result = row.get::<_, Option<String>>(at + 1)?;
    let usage = row.get::<_, Option<String>>(at + 8)?;
    let omitted = row.get::<_, Option<String>>(at + 13)?;
    let omitted =
        omitted.map(|json| serde_json::from_str(&json).map_err(bad_record)).transpose()?;
    let run_output = match row.get(at + 2)? {
        None => None,
        Some(exit_code) => Some(RunOutput {
            exit_code,
            stdout_truncated: row.get(at + 3)?,
            stderr_truncated: row.get(at + 4)?,
            stdout: row.get(at + 5)?,
            stderr: row.get(at + 6)?,
            runner_error: row.get(at + 7)?,
            stdout_tail: row.get(at + 9)?,
            stdout_bytes: counter(row, at + 10)?,
            stderr_tail: row.get(at + 11)?,
            stderr_bytes: counter(row, at + 12)?,
            omitted: omitted.unwrap_or_default(),
        }),
    };
    Ok(StoredExecution {
        row: read_row(row)?,
        next: Id::get_option(row, at)?,
        run_output,
        usage: usage.map(|json| serde_json::from_str(&json).map_err(bad_record)).transpose()?,
        published_result: published_result
            .map(|json| serde_json::from_str(&json).map_err(bad_record))
            .transpose()?,
    })
}
