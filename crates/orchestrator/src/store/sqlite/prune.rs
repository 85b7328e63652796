//! Removes jobs that are over, a bounded number of rows at a time.
//!
//! A job goes in two steps: its row, specification and labels at once, which takes it out of all
//! reads and puts its number into `removal`; then all else that is keyed by that number, in as many
//! calls as it takes. A process that dies in between goes on where it was.
//!
//! Pages that become free are used again before the file grows.

use std::collections::BTreeMap;

use api_types::Timestamp;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::row;
use crate::store::{Pruned, Retention, StoreError};

/// What the row of a job costs, in rows: it has seven indexes.
const JOB_ROWS: u32 = 8;

/// Bytes of a specification that cost as much as a row: as many pages are freed.
const BYTES_PER_ROW: usize = 16 << 10;

/// What an execution costs: its row with two indexes, and its output.
const EXECUTION_ROWS: u32 = 2;

/// The part of a specification that says where the job's labels are.
#[derive(Deserialize)]
struct Labelled {
    #[serde(rename = "Labels", default)]
    labels: BTreeMap<String, IgnoredAny>,
}

/// Rows that may still be removed in this call.
struct Budget(u32);

pub(super) fn prune(
    connection: &mut Connection,
    now: Timestamp,
    retention: &Retention,
    rows: u32,
) -> Result<Pruned, StoreError> {
    let mut pruned = Pruned::default();
    if begun(connection)?.is_none() && next(connection, now, retention)?.is_none() {
        return Ok(pruned);
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut budget = Budget(rows);
    loop {
        let job = match begun(&transaction)? {
            Some(job) => job,
            None => match next(&transaction, now, retention)? {
                None => break,
                Some(_) if budget.is_used_up() => {
                    pruned.more = true;
                    break;
                }
                Some(job) => {
                    begin(&transaction, job, &mut budget)?;
                    pruned.jobs += 1;
                    job
                }
            },
        };
        if !remove_parts(&transaction, job, &mut budget)? {
            pruned.more = true;
            break;
        }
    }
    transaction.commit()?;
    Ok(pruned)
}

/// A job that is gone, of which rows are left.
fn begun(connection: &Connection) -> Result<Option<i64>, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT job FROM removal ORDER BY job LIMIT 1")?;
    Ok(statement.query_row([], |row| row.get(0)).optional()?)
}

/// The job that ended first, if it is beyond the bounds.
fn next(
    connection: &Connection,
    now: Timestamp,
    retention: &Retention,
) -> Result<Option<i64>, StoreError> {
    let ended: i64 = connection
        .prepare_cached("SELECT ended_jobs FROM progress WHERE one = 1")?
        .query_row([], |row| row.get(0))?;
    let too_many = retention.count.is_some_and(|count| ended.cast_unsigned() > count);
    let oldest = if too_many { Some(Timestamp(i64::MAX)) } else { retention.oldest(now) };
    let Some(oldest) = oldest else { return Ok(None) };
    let mut statement = connection.prepare_cached(
        "SELECT number FROM job INDEXED BY job_ended
         WHERE live = 0 AND modify_time < ?1 ORDER BY modify_time LIMIT 1",
    )?;
    Ok(statement.query_row([oldest.0], |row| row.get(0)).optional()?)
}

/// Takes the job out of all reads.
fn begin(transaction: &Transaction<'_>, job: i64, budget: &mut Budget) -> Result<(), StoreError> {
    let (id, json): ([u8; 16], String) = transaction
        .prepare_cached(
            "SELECT j.id, s.json FROM job AS j CROSS JOIN job_spec AS s ON s.job = j.number
             WHERE j.number = ?1",
        )?
        .query_row([job], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let labels = match serde_json::from_str::<Labelled>(&json) {
        Ok(Labelled { labels }) => {
            let mut delete =
                transaction.prepare_cached("DELETE FROM label WHERE key = ?1 AND id = ?2")?;
            labels.keys().try_fold(0, |rows, key| Ok(rows + delete.execute(params![key, id])?))
        }
        // A specification that cannot be read does not keep its job for ever: all labels are
        // looked through, which this release never has to do.
        Err(_) => transaction.execute("DELETE FROM label WHERE job = ?1", [job]),
    };
    let labels: usize = labels.map_err(StoreError::Sqlite)?;
    for sql in [
        "DELETE FROM job_spec WHERE job = ?1",
        "DELETE FROM job WHERE number = ?1",
        "INSERT INTO removal (job) VALUES (?1)",
    ] {
        transaction.prepare_cached(sql)?.execute([job])?;
    }
    transaction
        .prepare_cached("UPDATE progress SET ended_jobs = ended_jobs - 1 WHERE one = 1")?
        .execute([])?;
    let rows = labels + json.len() / BYTES_PER_ROW;
    budget.spend(JOB_ROWS + u32::try_from(rows).unwrap_or(u32::MAX - JOB_ROWS));
    Ok(())
}

/// Removes what else the job had; tells whether all of it is gone.
fn remove_parts(
    transaction: &Transaction<'_>,
    job: i64,
    budget: &mut Budget,
) -> Result<bool, StoreError> {
    for sql in [
        "DELETE FROM event WHERE seq IN
            (SELECT seq FROM event INDEXED BY event_job WHERE job = ?1 ORDER BY seq LIMIT ?2)",
        "DELETE FROM published WHERE job = ?1 AND (slot, create_time, id) IN
            (SELECT slot, create_time, id FROM published WHERE job = ?1
             ORDER BY slot, create_time, id LIMIT ?2)",
        "DELETE FROM pending_slot WHERE job = ?1 AND slot IN
            (SELECT slot FROM pending_slot WHERE job = ?1 ORDER BY slot LIMIT ?2)",
    ] {
        if budget.is_used_up() {
            return Ok(false);
        }
        let removed = transaction.prepare_cached(sql)?.execute(params![job, budget.0])?;
        budget.spend(u32::try_from(removed).unwrap_or(u32::MAX));
    }
    remove_executions(transaction, job, budget)?;
    if budget.is_used_up() {
        return Ok(false);
    }
    transaction.prepare_cached("DELETE FROM removal WHERE job = ?1")?.execute([job])?;
    Ok(true)
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

// === impl Budget ===

impl Budget {
    fn is_used_up(&self) -> bool {
        self.0 == 0
    }

    fn spend(&mut self, rows: u32) {
        self.0 = self.0.saturating_sub(rows);
    }
}
