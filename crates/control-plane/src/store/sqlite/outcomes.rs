//! What became of the slots of jobs with several: how it is stored, read and removed.
//!
//! Each chunk of 4,096 slots is a row of at most a kilobyte, so that a commit rewrites only the
//! chunks in which a slot ended.

use api_types::JobId;
use api_types::job::{JobStateType, JobType};
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use scheduler::change::{Changes, JobOutcomes};
use scheduler::outcomes::{Outcomes, SlotOutcome};
use scheduler::slots::Slots;
use scheduler::text::Text;

use super::indexes::chunks;
use super::numbers::JobNumbers;
use super::row::{self, Id, job_state, job_state_code, job_type_code};
use super::{executions, indexes};
use crate::store::{StoreError, StoredOutcomes};

/// The first format that has the outcomes of slots.
pub(super) const FORMAT: u32 = 24;

/// An older release would neither keep the outcomes nor count the failures.
pub(super) const STEP: &str = "
CREATE TABLE slot_outcome (
    job INTEGER NOT NULL,
    chunk INTEGER NOT NULL,
    bits BLOB NOT NULL,
    PRIMARY KEY (job, chunk)
);
CREATE TABLE first_failure (job INTEGER PRIMARY KEY, message TEXT NOT NULL);
ALTER TABLE job ADD COLUMN failed_slots INTEGER NOT NULL DEFAULT 0;
";

pub(super) fn write(
    transaction: &Transaction<'_>,
    numbers: &mut JobNumbers,
    changes: &Changes,
) -> Result<(), StoreError> {
    let mut upsert = transaction.prepare_cached(UPSERT)?;
    for ((job, chunk), bits) in &changes.outcomes {
        upsert.execute(params![numbers.get(transaction, *job)?, chunk, bits.bytes()])?;
    }
    let mut insert = transaction
        .prepare_cached("INSERT OR REPLACE INTO first_failure (job, message) VALUES (?1, ?2)")?;
    for (job, message) in &changes.first_failures {
        insert.execute(params![numbers.get(transaction, *job)?, &**message])?;
    }
    Ok(())
}

const UPSERT: &str = "INSERT INTO slot_outcome (job, chunk, bits) VALUES (?1, ?2, ?3)
    ON CONFLICT (job, chunk) DO UPDATE SET bits = ?3";

/// Those of live jobs.
pub(super) fn load(connection: &Connection) -> Result<Vec<JobOutcomes>, StoreError> {
    let mut statement = connection.prepare(
        "SELECT j.number, j.id, f.message, j.completed + j.failed_slots
         FROM job AS j INDEXED BY job_live LEFT JOIN first_failure AS f ON f.job = j.number
         WHERE j.live = 1 ORDER BY j.number",
    )?;
    let mut found = Vec::new();
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        // Most live jobs wait, and none of their slots has ended.
        if row.get::<_, u32>(3)? == 0 {
            continue;
        }
        let first_failure = row.get::<_, Option<String>>(2)?.map(Text::from);
        let outcomes = chunks(connection, row.get(0)?)?;
        if first_failure.is_some() || outcomes != Outcomes::default() {
            found.push(JobOutcomes { job: Id::get(row, 1)?, outcomes, first_failure });
        }
    }
    Ok(found)
}

pub(super) fn of_job(
    connection: &Connection,
    id: JobId,
) -> Result<Option<StoredOutcomes>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT number, state, slots, indexes, running, completed, failed_slots FROM job
         WHERE id = ?1",
    )?;
    row::one(&mut statement, [id.bytes()], |row| {
        let slots = indexes::slots(connection, row.get(0)?, row.get(2)?, row.get(3)?)?;
        let (completed, failed) = (row.get(5)?, row.get(6)?);
        let outcomes = of_slots(connection, row.get(0)?, &slots, (completed, failed))?;
        let state = job_state(row.get(1)?)?;
        Ok(StoredOutcomes { state, slots, running: row.get(4)?, completed, failed, outcomes })
    })
}

/// What became of the slots of the job with this number, with the counts of its row.
pub(super) fn of_slots(
    connection: &Connection,
    number: i64,
    slots: &Slots,
    (completed, failed): (u32, u32),
) -> Result<Outcomes, StoreError> {
    row::outcomes::of_slots(slots, (completed, failed), || chunks(connection, number))
}

/// Removes up to `limit` chunks of a job; returns the number removed.
pub(super) fn remove(
    transaction: &Transaction<'_>,
    job: i64,
    limit: u32,
) -> Result<u32, StoreError> {
    let found: Vec<i64> = row::all(
        &mut *transaction.prepare_cached(
            "SELECT chunk FROM slot_outcome WHERE job = ?1 ORDER BY chunk LIMIT ?2",
        )?,
        params![job, limit],
        |row| Ok(row.get(0)?),
    )?;
    let mut delete =
        transaction.prepare_cached("DELETE FROM slot_outcome WHERE job = ?1 AND chunk = ?2")?;
    for chunk in &found {
        delete.execute([job, *chunk])?;
    }
    transaction.prepare_cached("DELETE FROM first_failure WHERE job = ?1")?.execute([job])?;
    Ok(u32::try_from(found.len()).unwrap_or(u32::MAX))
}

// === Files of older releases ===

/// Derives the outcomes of jobs that an older release wrote: a completed slot has an execution that
/// completed, and a job that failed with a slot names it.
pub(super) fn derive(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    let mut select = transaction.prepare(
        "SELECT number, state, slots, indexes, completed, message FROM job
         WHERE number > ?1 AND type IN (?2, ?3) AND (completed > 0 OR state = ?4)
         ORDER BY number LIMIT 1",
    )?;
    let types = [JobType::Batch, JobType::Ops].map(job_type_code);
    let failed = job_state_code(JobStateType::Failed);
    let mut last = 0_i64;
    loop {
        let found = select
            .query_row(params![last, types[0], types[1], failed], |row| {
                let message: String = row.get(5)?;
                let failed =
                    if row.get::<_, i64>(1)? == failed { named_slot(&message) } else { None };
                Ok((row.get(0)?, row.get(2)?, row.get(3)?, failed))
            })
            .optional()?;
        let Some((number, count, listed, failed)) = found else { return Ok(()) };
        // A damaged list of indexes fails the start, as it did before.
        if let Ok(slots) = indexes::slots(transaction, number, count, listed) {
            derive_of(transaction, number, &slots, failed)?;
        }
        last = number;
    }
}

fn derive_of(
    transaction: &Transaction<'_>,
    number: i64,
    slots: &Slots,
    failed: Option<u32>,
) -> rusqlite::Result<()> {
    let failed = failed.filter(|index| slots.contains(*index));
    if slots.len() > 1 {
        let mut outcomes = Outcomes::default();
        for index in executions::completed_slots(transaction, number)? {
            if slots.contains(index) {
                outcomes.record(slots, index, SlotOutcome::Completed);
            }
        }
        if let Some(index) = failed {
            outcomes.record(slots, index, SlotOutcome::Failed);
        }
        // One that completed after the end of its job was not counted.
        let completed = outcomes.tally(slots).completed;
        transaction
            .prepare_cached("UPDATE job SET completed = ?2 WHERE number = ?1")?
            .execute(params![number, completed])?;
        let mut upsert = transaction.prepare_cached(UPSERT)?;
        for (chunk, bits) in outcomes.chunks() {
            upsert.execute(params![number, chunk, bits.bytes()])?;
        }
    }
    if failed.is_some() {
        transaction
            .prepare_cached("UPDATE job SET failed_slots = 1 WHERE number = ?1")?
            .execute([number])?;
    }
    Ok(())
}

/// The slot at the beginning of a message: `[2] on node-a: exit code 3`.
fn named_slot(message: &str) -> Option<u32> {
    message.strip_prefix('[')?.split_once("] ")?.0.parse().ok()
}
