//! The row `progress`: the term, the number of the last commit, and what it left for a restart.

use rusqlite::{Connection, Row, Transaction, TransactionBehavior, params};
use scheduler::change::Changes;
use scheduler::time::Moment;

use super::row::{self, counter, moment_value};
use crate::clock::{Reading, Stamp};
use crate::store::{Commit, Progress, StoreError, Term};

pub(super) fn read(connection: &Connection) -> Result<Progress, StoreError> {
    let read = |row: &Row<'_>| {
        Ok(Progress {
            term: Term(counter(row, 0)?.into()),
            began_after: counter(row, 1)?,
            last_commit: counter(row, 2)?,
            stamp: stamp(row)?,
        })
    };
    let mut statement = connection.prepare_cached(
        "SELECT term, began_after, last_commit, boot_id, boot, wall, moment
         FROM progress WHERE one = 1",
    )?;
    row::only(&mut statement, [], read)
}

/// None as long as nothing was committed.
fn stamp(row: &Row<'_>) -> Result<Option<Stamp>, StoreError> {
    let Some(boot_id) = row.get(3)? else { return Ok(None) };
    let reading = Reading { boot_id, boot: counter(row, 4)?, wall: row::time(row, 5)? };
    Ok(Some(Stamp { reading, moment: Moment(counter(row, 6)?) }))
}

pub(super) fn take(connection: &mut Connection) -> Result<Progress, StoreError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction
        .prepare_cached("UPDATE progress SET term = term + 1, began_after = last_commit")?
        .execute([])?;
    let progress = read(&transaction)?;
    transaction.commit()?;
    Ok(progress)
}

pub(super) fn write(transaction: &Transaction<'_>, commit: &Commit<'_>) -> Result<(), StoreError> {
    let Stamp { reading, moment } = commit.stamp;
    transaction
        .prepare_cached(
            "UPDATE progress SET last_commit = ?1, boot_id = ?2, boot = ?3, wall = ?4, moment = ?5
             WHERE one = 1",
        )?
        .execute(params![
            commit.id.number.cast_signed(),
            reading.boot_id,
            reading.boot.cast_signed(),
            reading.wall.0,
            moment_value(moment),
        ])?;
    Ok(())
}

/// Keeps the last sequence and the latest time apart from the events, which retention removes.
pub(super) fn write_batch(
    transaction: &Transaction<'_>,
    changes: &Changes,
    more_ended: i64,
) -> Result<(), StoreError> {
    let last_seq = changes.events.iter().map(|event| event.seq).max().unwrap_or(0);
    let last_time = changes.events.iter().map(|event| event.time.0).max().unwrap_or(0);
    transaction
        .prepare_cached(
            "UPDATE progress SET last_seq = max(last_seq, ?1), last_time = max(last_time, ?2),
                ended_jobs = ended_jobs + ?3
             WHERE one = 1",
        )?
        .execute(params![last_seq.cast_signed(), last_time, more_ended])?;
    Ok(())
}
