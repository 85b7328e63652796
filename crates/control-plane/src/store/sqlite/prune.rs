//! Removes expired jobs, a bounded number of rows at a time.
//!
//! A job goes in two steps: first its row, specification and labels together, which hides it from
//! all reads and puts its number into `removal`; then everything else with that number, in as many
//! calls as needed. After a crash in between, removal resumes.
//!
//! Jobs go by age, and above a number of them: then the namespace with the most finished jobs loses
//! its oldest, so that a flood of one namespace removes no other's.
//!
//! One that live jobs depend on is kept, and counts as live; see `dependencies.rs`.
//!
//! Freed pages are reused before the file grows.
//!
//! Rows are found first and deleted one by one, here and wherever the writer deletes: `IN (SELECT …)`
//! and `RETURNING` are shorter, but for each, SQLite opens a temporary table, with a page cache of its
//! own. That took as long as all the rest of a removal.

use std::collections::BTreeMap;

use api_types::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use scheduler::time::Moment;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::row::{self, moment_value};
use super::specs::JOIN_NEWEST;
use super::{curves, dependencies, events, graphs, marks, outcomes, outputs, reruns};
use crate::store::budget::{Budget, TAIL_ROWS, spec_rows};
use crate::store::ended::EndedJobs;
use crate::store::{EXECUTION_ROWS, JOB_ROWS, Removed, Retention, StoreError};

/// For the namespace that loses its oldest.
pub(super) const STEP: &str = "
CREATE INDEX job_ended_namespace ON job (namespace, ended_at) WHERE live = 0;
";

/// The part of a specification that holds the job's labels.
#[derive(Deserialize)]
struct Labelled {
    #[serde(rename = "Labels", default)]
    labels: BTreeMap<String, IgnoredAny>,
}

/// Whether anything is to be removed.
pub(super) fn is_due(
    connection: &Connection,
    now: Moment,
    retention: &Retention,
    ended: &mut EndedJobs,
) -> Result<bool, StoreError> {
    Ok(begun(connection)?.is_some() || next(connection, now, retention, ended)?.is_some())
}

pub(super) fn prune(
    transaction: &Transaction<'_>,
    now: Moment,
    retention: &Retention,
    rows: u32,
    ended: &mut EndedJobs,
) -> Result<Removed, StoreError> {
    let mut removed = Removed::default();
    let mut budget = Budget(rows);
    loop {
        let job = match begun(transaction)? {
            Some(job) => job,
            None => match next(transaction, now, retention, ended)? {
                None => break,
                Some(_) if budget.is_used_up() => {
                    removed.more = true;
                    break;
                }
                Some(job) => {
                    begin(transaction, job, &mut budget, ended)?;
                    removed.count += 1;
                    job
                }
            },
        };
        if !remove_parts(transaction, job, &mut budget)? {
            removed.more = true;
            break;
        }
    }
    marks::prune(transaction, rows)?;
    Ok(removed)
}

/// A removed job with rows left.
fn begun(connection: &Connection) -> Result<Option<i64>, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT job FROM removal ORDER BY job LIMIT 1")?;
    Ok(statement.query_row([], |row| row.get(0)).optional()?)
}

/// The finished job that exceeds the bounds and goes first.
fn next(
    connection: &Connection,
    now: Moment,
    retention: &Retention,
    ended: &mut EndedJobs,
) -> Result<Option<i64>, StoreError> {
    if let Some(oldest) = retention.oldest(now) {
        let mut statement = connection.prepare_cached(
            "SELECT number FROM job INDEXED BY job_ended
             WHERE live = 0 AND named = 0 AND ended_at < ?1 ORDER BY ended_at LIMIT 1",
        )?;
        let found = statement.query_row([moment_value(oldest)], |row| row.get(0)).optional()?;
        if found.is_some() {
            return Ok(found);
        }
    }
    let Some(most) = retention.count else { return Ok(None) };
    let count: i64 = connection
        .prepare_cached("SELECT ended_jobs FROM progress WHERE one = 1")?
        .query_row([], |row| row.get(0))?;
    if count.cast_unsigned() <= most {
        return Ok(None);
    }
    let Some(namespace) = ended.largest(|| count_by_namespace(connection))? else {
        return Ok(None);
    };
    let mut statement = connection.prepare_cached(
        "SELECT number FROM job INDEXED BY job_ended_namespace
         WHERE live = 0 AND named = 0 AND namespace = ?1 ORDER BY ended_at LIMIT 1",
    )?;
    Ok(statement.query_row([namespace], |row| row.get(0)).optional()?)
}

/// Hides the job from all reads.
fn begin(
    transaction: &Transaction<'_>,
    job: i64,
    budget: &mut Budget,
    ended: &mut EndedJobs,
) -> Result<(), StoreError> {
    let sql =
        format!("SELECT j.id, s.json, j.namespace FROM job AS j {JOIN_NEWEST} WHERE j.number = ?1");
    let read = |row: &Row<'_>| Ok((row.get(0)?, row::text(row, 1)?, row.get(2)?));
    let (id, json, namespace): ([u8; 16], _, String) =
        row::only(&mut *transaction.prepare_cached(&sql)?, [job], read)?;
    ended.add(&namespace, -1);
    let labels = match serde_json::from_str::<Labelled>(&json) {
        Ok(Labelled { labels }) => {
            let mut delete =
                transaction.prepare_cached("DELETE FROM label WHERE key = ?1 AND id = ?2")?;
            labels.keys().try_fold(0, |rows, key| Ok(rows + delete.execute(params![key, id])?))
        }
        // An unreadable specification does not keep its job forever: all labels are scanned, which
        // this release never needs.
        Err(_) => transaction.execute("DELETE FROM label WHERE job = ?1", [job]),
    };
    let labels: usize = labels.map_err(StoreError::Sqlite)?;
    for sql in [
        "DELETE FROM job_spec WHERE job = ?1",
        "DELETE FROM former_spec WHERE job = ?1",
        "DELETE FROM job WHERE number = ?1",
        "INSERT INTO removal (job) VALUES (?1)",
    ] {
        transaction.prepare_cached(sql)?.execute([job])?;
    }
    transaction
        .prepare_cached("UPDATE progress SET ended_jobs = ended_jobs - 1 WHERE one = 1")?
        .execute([])?;
    let labels = u32::try_from(labels).unwrap_or(u32::MAX);
    budget.spend(JOB_ROWS.saturating_add(labels).saturating_add(spec_rows(json.len())));
    Ok(())
}

/// Removes the job's other rows; returns whether all of them are gone.
fn remove_parts(
    transaction: &Transaction<'_>,
    job: i64,
    budget: &mut Budget,
) -> Result<bool, StoreError> {
    for remove in [
        remove_events,
        remove_published,
        remove_pending_slots,
        remove_outcomes,
        remove_dependencies,
        remove_unplaced,
        remove_executions,
    ] {
        remove(transaction, job, budget)?;
        if budget.is_used_up() {
            return Ok(false);
        }
    }
    graphs::remove(transaction, job)?;
    for sql in
        ["DELETE FROM output_tail_total WHERE job = ?1", "DELETE FROM removal WHERE job = ?1"]
    {
        transaction.prepare_cached(sql)?.execute([job])?;
    }
    Ok(true)
}

/// Also removes the marks that lead to none but these.
fn remove_events(
    transaction: &Transaction<'_>,
    job: i64,
    budget: &mut Budget,
) -> Result<(), StoreError> {
    let found: Vec<(i64, Timestamp)> = row::all(
        &mut *transaction.prepare_cached(
            "SELECT seq, time FROM event INDEXED BY event_job WHERE job = ?1
             ORDER BY seq LIMIT ?2",
        )?,
        params![job, budget.0],
        |row| Ok((row.get(0)?, row::time(row, 1)?)),
    )?;
    events::remove(transaction, found.iter().map(|(seq, _)| *seq))?;
    budget.spend(u32::try_from(found.len()).unwrap_or(u32::MAX));
    marks::remove_between(transaction, found.into_iter().map(|(_, time)| time))
}

fn remove_published(
    transaction: &Transaction<'_>,
    job: i64,
    budget: &mut Budget,
) -> Result<(), StoreError> {
    let keys: Vec<(i64, i64, [u8; 16])> = row::all(
        &mut *transaction.prepare_cached(
            "SELECT slot, create_time, id FROM published WHERE job = ?1
             ORDER BY slot, create_time, id LIMIT ?2",
        )?,
        params![job, budget.0],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )?;
    let mut delete = transaction.prepare_cached(
        "DELETE FROM published WHERE job = ?1 AND slot = ?2 AND create_time = ?3 AND id = ?4",
    )?;
    for (slot, create_time, id) in keys {
        delete.execute(params![job, slot, create_time, id])?;
        budget.spend(1);
    }
    Ok(())
}

fn remove_pending_slots(
    transaction: &Transaction<'_>,
    job: i64,
    budget: &mut Budget,
) -> Result<(), StoreError> {
    let slots: Vec<i64> = row::all(
        &mut *transaction.prepare_cached(
            "SELECT slot FROM pending_slot WHERE job = ?1 ORDER BY slot LIMIT ?2",
        )?,
        params![job, budget.0],
        |row| Ok(row.get(0)?),
    )?;
    let mut delete =
        transaction.prepare_cached("DELETE FROM pending_slot WHERE job = ?1 AND slot = ?2")?;
    for slot in slots {
        delete.execute([job, slot])?;
        budget.spend(1);
    }
    Ok(())
}

fn remove_outcomes(
    transaction: &Transaction<'_>,
    job: i64,
    budget: &mut Budget,
) -> Result<(), StoreError> {
    budget.spend(outcomes::remove(transaction, job, budget.0)?);
    Ok(())
}

fn remove_dependencies(
    transaction: &Transaction<'_>,
    job: i64,
    budget: &mut Budget,
) -> Result<(), StoreError> {
    budget.spend(dependencies::remove(transaction, job, budget.0)?);
    Ok(())
}

fn remove_unplaced(
    transaction: &Transaction<'_>,
    job: i64,
    budget: &mut Budget,
) -> Result<(), StoreError> {
    budget.spend(reruns::remove(transaction, job, budget.0)?);
    Ok(())
}

fn remove_executions(
    transaction: &Transaction<'_>,
    job: i64,
    budget: &mut Budget,
) -> Result<(), StoreError> {
    let numbers: Vec<i64> = row::all(
        &mut *transaction.prepare_cached(
            "SELECT number FROM execution INDEXED BY execution_job WHERE job = ?1
             ORDER BY slot, create_time, id LIMIT ?2",
        )?,
        params![job, budget.0.div_ceil(EXECUTION_ROWS)],
        |row| Ok(row.get(0)?),
    )?;
    for number in numbers {
        if outputs::remove_tail(transaction, job, number)? {
            budget.spend(TAIL_ROWS);
        }
        curves::remove(transaction, number)?;
        for sql in [
            "DELETE FROM run_output WHERE execution = ?1",
            "DELETE FROM execution WHERE number = ?1",
        ] {
            transaction.prepare_cached(sql)?.execute([number])?;
        }
        budget.spend(EXECUTION_ROWS);
    }
    Ok(())
}

/// Walks an index with one entry for each finished job: a tenth of a second for a million.
fn count_by_namespace(connection: &Connection) -> Result<Vec<(String, i64)>, StoreError> {
    let mut statement = connection.prepare(
        "SELECT namespace, count(*) FROM job INDEXED BY job_ended_namespace
         WHERE live = 0 AND named = 0 GROUP BY namespace",
    )?;
    row::all(&mut statement, [], |row| Ok((row.get(0)?, row.get(1)?)))
}
