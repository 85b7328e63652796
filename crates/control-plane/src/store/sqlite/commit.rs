//! Writes a commit in one transaction: the changes of many inputs and their idempotency keys, or a
//! removal.
//!
//! Each distinct job is resolved by its ID once per commit; everything else is keyed by its number.
//! A statement that runs row by row is also resolved once, because each lookup hashes its whole
//! text.

use failpoint::Fault;
use rusqlite::{Connection, Transaction, TransactionBehavior, params};
use scheduler::change::{Changes, EventRow, NodeRow};

use super::jobs::{JobRows, next_number};
use super::numbers::JobNumbers;
use super::row::subject::{self, OF_KNOWN};
use super::row::{Id, bad_record, exclusion_bytes, moment_value};
use super::row::{health, node_history};
use super::{
    audit, cluster_load, dependencies, graphs, keys, marks, nodes, outcomes, progress, prune,
    records,
};
use crate::store::budget::PROBE_BYTES;
use crate::store::ended::EndedJobs;
use crate::store::{Admission, Commit, Outcome, Removal, Removed, StoreError, Write};

pub(super) fn commit(
    connection: &mut Connection,
    ended: &mut EndedJobs,
    commit: &Commit<'_>,
) -> Result<Outcome, StoreError> {
    match commit.write {
        Write::Batch { .. } => {}
        // A scan that finds nothing writes nothing, but a fenced writer still learns that it is.
        Write::Removal(removal) => {
            let admission = progress::read(connection)?.admit(commit.id)?;
            let is_due = match removal {
                Removal::Jobs { retention, .. } => {
                    prune::is_due(connection, commit.stamp.moment, &retention, ended)?
                }
                Removal::Keys { oldest, .. } => keys::is_due(connection, oldest)?,
            };
            if admission == Admission::New && !is_due {
                return Ok(Outcome::Idle);
            }
        }
        Write::Probe => fill(connection)?,
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    match progress::read(&transaction)?.admit(commit.id)? {
        Admission::Repeat => return Ok(Outcome::Repeated),
        Admission::New => {}
    }
    let removed = match commit.write {
        Write::Batch { changes, keys, records, audit, loads } => {
            let more_ended = write(&transaction, changes, ended)?;
            keys::write(&transaction, keys)?;
            records::write(&transaction, records)?;
            audit::write(&transaction, audit)?;
            cluster_load::write(&transaction, loads)?;
            progress::write_batch(&transaction, changes, more_ended)?;
            if failpoint::reach_blocking("commit.within") == Some(Fault::Error) {
                return Err(StoreError::Full { path: "failpoint".into() });
            }
            Removed::default()
        }
        Write::Removal(Removal::Jobs { retention, rows }) => {
            prune::prune(&transaction, commit.stamp.moment, &retention, rows, ended)?
        }
        Write::Removal(Removal::Keys { oldest, limit }) => {
            keys::forget(&transaction, oldest, limit)?
        }
        Write::Probe => {
            transaction.execute("DELETE FROM probe", [])?;
            Removed::default()
        }
    };
    progress::write(&transaction, commit)?;
    transaction.commit()?;
    Ok(Outcome::Written(removed))
}

/// Writes as much as a usual commit, in a separate transaction: rows that are written and removed
/// in the same one never reach the disk.
fn fill(connection: &Connection) -> Result<(), StoreError> {
    connection.execute(
        "INSERT OR REPLACE INTO probe (one, filling) VALUES (1, zeroblob(?1))",
        [PROBE_BYTES],
    )?;
    Ok(())
}

/// Returns how many more jobs have finished.
fn write(
    transaction: &Transaction<'_>,
    changes: &Changes,
    ended: &mut EndedJobs,
) -> Result<i64, StoreError> {
    let mut numbers = JobNumbers::default();
    let more_ended = write_jobs(transaction, &mut numbers, changes, ended)?
        + dependencies::write(transaction, &mut numbers, changes, ended)?;
    graphs::write(transaction, &mut numbers, changes)?;
    super::executions::write(transaction, &mut numbers, changes)?;
    write_pending_slots(transaction, &mut numbers, changes)?;
    outcomes::write(transaction, &mut numbers, changes)?;
    super::reruns::write(transaction, &mut numbers, changes)?;
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
    ended: &mut EndedJobs,
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
        if !row.live {
            more_ended += 1;
            ended.add(&job.namespace, 1);
        }
        numbers.note(job.id, number);
    }
    for row in changes.jobs.values() {
        // Those that are known by now were just inserted, as they stand at the end.
        if !numbers.knows(row.id) {
            let number = numbers.get(transaction, row.id)?;
            let before = rows.update(number, row)?;
            let is_kept = row.live || before.is_named;
            let more = i64::from(before.is_live || before.is_named) - i64::from(is_kept);
            more_ended += more;
            if more != 0 && ended.are_counted() {
                ended.add(&namespace_of(transaction, number)?, more);
            }
        }
    }
    Ok(more_ended)
}

fn namespace_of(transaction: &Transaction<'_>, job: i64) -> Result<String, StoreError> {
    let mut statement =
        transaction.prepare_cached("SELECT namespace FROM job WHERE number = ?1")?;
    Ok(statement.query_row([job], |row| row.get(0))?)
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
            (job, slot, evaluation, pinned, attempt, infra_failures, short_runs, exclusions, refused_by,
             due, previous)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?;
    for ((job, slot), row) in &changes.pending_slots {
        let job = numbers.get(transaction, *job)?;
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
            row.tries.refused_by.map(Id::bytes),
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
                 last_heartbeat, silent_since, record, health, history, lease, told_lease,
                 joined_at, forgotten, idle_since)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16,
                 ?17)",
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
            node_history::to_text(&row.history)?,
            row.grant.lease.as_secs().cast_signed(),
            row.grant.kept.as_secs().cast_signed(),
            moment_value(row.joined_at),
            row.is_forgotten,
            row.idle_since.map(|since| since.0),
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
            Some(job) => numbers.get(transaction, job)?,
            None => OF_KNOWN,
        };
        let columns = subject::columns(&event.subject);
        insert.execute(params![
            event.seq.cast_signed(),
            job,
            event.time.0,
            event.revision.cast_signed(),
            columns.previous,
            columns.new,
            columns.execution,
            columns.node,
            &*event.comment,
        ])?;
        nodes::retain(transaction, event)?;
    }
    Ok(())
}
