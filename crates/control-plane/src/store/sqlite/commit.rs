//! Writes a commit: the changes of many inputs and their idempotency keys, in one transaction.
//!
//! Each distinct job is resolved by its ID once per commit; everything else is keyed by its number.
//! A statement that runs row by row is also resolved once, because each lookup hashes its whole
//! text.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use api_types::JobId;
use failpoint::Fault;
use rusqlite::{Connection, Row, Transaction, TransactionBehavior, params};
use scheduler::change::{Changes, EventRow, EventSubject, NodeRow};
use scheduler::time::Moment;

use super::health;
use super::jobs::{JobRows, next_number};
use super::row::{self, Id, bad_record, counter, exclusion_bytes, job_state_code, moment_value};
use super::{keys, marks, nodes};
use crate::clock::{Reading, Stamp};
use crate::store::{Commit, StoreError};

/// The numbers of the jobs that a commit is about.
#[derive(Default)]
pub(super) struct JobNumbers(HashMap<JobId, i64>);

pub(super) fn commit(connection: &mut Connection, commit: &Commit<'_>) -> Result<(), StoreError> {
    let &Commit { number, changes, .. } = commit;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let last = last_commit(&transaction)?;
    if number <= last {
        return Ok(());
    }
    if number != last + 1 {
        return Err(StoreError::CommitGap { came: number, last });
    }
    let more_ended = write(&transaction, changes)?;
    keys::write(&transaction, commit.keys)?;
    write_progress(&transaction, commit, more_ended)?;
    if failpoint::reach_blocking("commit.within") == Some(Fault::Error) {
        return Err(StoreError::Full { path: "failpoint".into() });
    }
    transaction.commit()?;
    Ok(())
}

pub(super) fn last_commit(connection: &Connection) -> Result<u64, StoreError> {
    let last: i64 = connection
        .prepare_cached("SELECT last_commit FROM progress WHERE one = 1")?
        .query_row([], |row| row.get(0))?;
    Ok(last.cast_unsigned())
}

/// None as long as nothing was committed.
pub(super) fn last_stamp(connection: &Connection) -> Result<Option<Stamp>, StoreError> {
    let read = |row: &Row<'_>| {
        let Some(boot_id) = row.get(0)? else { return Ok(None) };
        let reading = Reading { boot_id, boot: counter(row, 1)?, wall: row::time(row, 2)? };
        Ok(Some(Stamp { reading, moment: Moment(counter(row, 3)?) }))
    };
    Ok(connection
        .prepare_cached("SELECT boot_id, boot, wall, moment FROM progress WHERE one = 1")?
        .query_row([], read)?)
}

/// Returns how many more jobs have finished.
fn write(transaction: &Transaction<'_>, changes: &Changes) -> Result<i64, StoreError> {
    let mut numbers = JobNumbers::default();
    let more_ended = write_jobs(transaction, &mut numbers, changes)?;
    super::executions::write(transaction, &mut numbers, changes)?;
    write_pending_slots(transaction, &mut numbers, changes)?;
    for (node, row) in &changes.nodes {
        match row {
            Some(row) => write_node(transaction, row)?,
            None => {
                let mut delete = transaction.prepare_cached("DELETE FROM node WHERE id = ?1")?;
                delete.execute([node.bytes()])?;
            }
        }
    }
    marks::write(transaction, &changes.events)?;
    write_events(transaction, &mut numbers, &changes.events)?;
    Ok(more_ended)
}

/// Inserts new jobs in the order in which they are listed, so that the indexes grow at their ends.
/// Returns how many more jobs have finished.
fn write_jobs(
    transaction: &Transaction<'_>,
    numbers: &mut JobNumbers,
    changes: &Changes,
) -> Result<i64, StoreError> {
    let mut more_ended = 0;
    let mut rows = JobRows::prepare(transaction)?;
    let mut new: Vec<_> = changes.new_jobs.iter().collect();
    new.sort_unstable_by_key(|job| (job.create_time, job.id));
    let first = if new.is_empty() { 0 } else { next_number(transaction)? };
    for (number, job) in (first..).zip(&new) {
        let row = changes
            .jobs
            .get(&job.id)
            .ok_or_else(|| bad_record(format!("new job {} without its state", job.id)))?;
        rows.insert(number, job, row)?;
        more_ended += i64::from(!row.live);
        numbers.0.insert(job.id, number);
    }
    for row in changes.jobs.values() {
        // Those that are known by now were just inserted, as they stand at the end.
        if !numbers.0.contains_key(&row.id) {
            let number = numbers.of(transaction, row.id)?;
            let was_live = rows.update(number, row)?;
            more_ended += i64::from(was_live) - i64::from(row.live);
        }
    }
    Ok(more_ended)
}

fn write_pending_slots(
    transaction: &Transaction<'_>,
    numbers: &mut JobNumbers,
    changes: &Changes,
) -> Result<(), StoreError> {
    let mut delete =
        transaction.prepare_cached("DELETE FROM pending_slot WHERE job = ?1 AND slot = ?2")?;
    let mut replace = transaction.prepare_cached(
        "INSERT OR REPLACE INTO pending_slot
            (job, slot, evaluation, pinned, attempt, infra_failures, short_runs, exclusions, due, previous)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?;
    for ((job, slot), row) in &changes.pending_slots {
        let job = numbers.of(transaction, *job)?;
        let Some(row) = row else {
            delete.execute(params![job, slot])?;
            continue;
        };
        replace.execute(params![
            job,
            slot,
            row.evaluation.bytes(),
            row.pinned.map(Id::bytes),
            row.tries.attempt,
            row.tries.infra_failures,
            row.tries.short_runs,
            exclusion_bytes(&row.tries),
            row.due.map(moment_value),
            row.previous.map(Id::bytes),
        ])?;
    }
    Ok(())
}

fn write_node(transaction: &Transaction<'_>, row: &NodeRow) -> Result<(), StoreError> {
    let record = serde_json::to_string(&*row.record).map_err(bad_record)?;
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO node
                (id, session, membership, connection, eligibility, message, drain_deadline,
                 last_heartbeat, silent_since, record, health, history)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?
        .execute(params![
            row.id.bytes(),
            row.session.cast_signed(),
            row.membership.as_str(),
            row.connection.as_str(),
            row.eligibility.as_str(),
            row.message,
            row.drain_deadline.map(moment_value),
            row.last_heartbeat.0,
            row.silent_since.map(moment_value),
            record,
            health::text(&row.health),
            nodes::to_text(&row.history)?,
        ])?;
    Ok(())
}

fn write_events(
    transaction: &Transaction<'_>,
    numbers: &mut JobNumbers,
    events: &[EventRow],
) -> Result<(), StoreError> {
    let mut insert = transaction.prepare_cached(
        "INSERT INTO event (seq, job, time, revision, previous, new, execution, node, comment)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    for event in events {
        let job = match event.job() {
            Some(job) => numbers.of(transaction, job)?,
            None => nodes::OF_KNOWN,
        };
        let (previous, new, execution, node) = match event.subject {
            EventSubject::Job { previous, new, .. } => {
                (job_state_code(previous), job_state_code(new), None, None)
            }
            EventSubject::Execution { id, node, previous, new, .. } => {
                let (previous, new) = (u8::from(previous).into(), u8::from(new).into());
                (previous, new, Some(id.bytes()), Some(node.bytes()))
            }
            EventSubject::Node { node, previous, new } => {
                let (previous, new) = (nodes::state_code(previous), nodes::state_code(new));
                (previous, new, None, Some(node.bytes()))
            }
        };
        insert.execute(params![
            event.seq.cast_signed(),
            job,
            event.time.0,
            event.revision.cast_signed(),
            previous,
            new,
            execution,
            node,
            &*event.comment,
        ])?;
        nodes::retain(transaction, event)?;
    }
    Ok(())
}

/// Keeps the last sequence and the latest time apart from the events, which retention removes.
fn write_progress(
    transaction: &Transaction<'_>,
    commit: &Commit<'_>,
    more_ended: i64,
) -> Result<(), StoreError> {
    let Commit { number, stamp: Stamp { reading, moment }, changes, .. } = *commit;
    let last_seq = changes.events.iter().map(|event| event.seq).max().unwrap_or(0);
    let last_time = changes.events.iter().map(|event| event.time.0).max().unwrap_or(0);
    transaction
        .prepare_cached(
            "UPDATE progress SET last_commit = ?1, last_seq = max(last_seq, ?2),
                last_time = max(last_time, ?3), ended_jobs = ended_jobs + ?4, boot_id = ?5,
                boot = ?6, wall = ?7, moment = ?8
             WHERE one = 1",
        )?
        .execute(params![
            number.cast_signed(),
            last_seq.cast_signed(),
            last_time,
            more_ended,
            reading.boot_id,
            reading.boot.cast_signed(),
            reading.wall.0,
            moment_value(moment),
        ])?;
    Ok(())
}

// === impl JobNumbers ===

impl JobNumbers {
    pub(super) fn of(
        &mut self,
        transaction: &Transaction<'_>,
        id: JobId,
    ) -> Result<i64, StoreError> {
        match self.0.entry(id) {
            Entry::Occupied(entry) => Ok(*entry.get()),
            Entry::Vacant(entry) => {
                let number = super::jobs::number(transaction, id)?
                    .ok_or_else(|| bad_record(format!("a change of {id}, which is not stored")))?;
                Ok(*entry.insert(number))
            }
        }
    }
}
