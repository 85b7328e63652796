//! A sparse index of all events by time, at one small row a second.
//!
//! A mark `(second, seq)` says that every event before `seq` is of that second or of an earlier
//! one. The wall clock may go back, so event times are not ordered; the latest time so far is, and
//! marks record that. Any mark may be missing: a read then begins earlier, and finds the same.
//! Rejected: an index entry for every event, which costs as much as the index by job; and bisecting
//! the sequences, which needs ordered times.

use std::collections::BTreeSet;

use api_types::Timestamp;
use rusqlite::{Connection, Transaction, params};
use scheduler::change::EventRow;

use super::row::mark::{self, NANOS_PER_SECOND};
use super::row::{self, counter};
use crate::store::StoreError;

/// Marks where these events begin, if their second has no mark yet. Call before the latest time is
/// updated.
pub(super) fn write(transaction: &Transaction<'_>, events: &[EventRow]) -> Result<(), StoreError> {
    let Some(first) = events.first() else { return Ok(()) };
    transaction
        .prepare_cached(
            "INSERT OR IGNORE INTO event_mark (second, seq)
             SELECT last_time / ?1, ?2 FROM progress WHERE one = 1",
        )?
        .execute(params![NANOS_PER_SECOND, first.seq.cast_signed()])?;
    Ok(())
}

/// Every event up to this sequence is earlier than `time`.
pub(super) fn position_before(connection: &Connection, time: Timestamp) -> Result<u64, StoreError> {
    let second = mark::second(time);
    let mut statement = connection.prepare_cached(
        "SELECT seq FROM event_mark WHERE second < ?1 ORDER BY second DESC LIMIT 1",
    )?;
    let marked = row::one(&mut statement, [second], |row| counter(row, 0))?;
    Ok(marked.map_or(0, |seq| seq - 1))
}

/// Removes marks around events of these times that lead to no event any more, so that one old event
/// does not keep the marks of all that came and went after it. Events of a time to which the wall
/// clock went back have their mark elsewhere; it stays.
pub(super) fn remove_between(
    transaction: &Transaction<'_>,
    removed: impl Iterator<Item = Timestamp>,
) -> Result<(), StoreError> {
    let seconds: BTreeSet<_> = removed.map(mark::second).collect();
    // The first events of a second follow the mark of the last second before it.
    let mut around = transaction.prepare_cached(
        "SELECT second FROM event_mark WHERE second <= ?1 ORDER BY second DESC LIMIT 2",
    )?;
    let mut delete = transaction.prepare_cached(
        "DELETE FROM event_mark AS m WHERE second = ?1
         AND NOT EXISTS (SELECT 1 FROM event AS e WHERE e.seq >= m.seq AND e.seq < (
            SELECT n.seq FROM event_mark AS n WHERE n.second > m.second
            ORDER BY n.second LIMIT 1))
         AND EXISTS (SELECT 1 FROM event_mark AS n WHERE n.second > m.second)",
    )?;
    for second in seconds {
        for mark in row::all(&mut around, [second], |row| Ok(row.get::<_, i64>(0)?))? {
            delete.execute([mark])?;
        }
    }
    Ok(())
}

/// Removes marks before which no event of a job is left, at most this many. Events of nodes stay
/// for years, and are few: a read that begins with them needs no mark.
pub(super) fn prune(transaction: &Transaction<'_>, limit: u32) -> Result<(), StoreError> {
    let first: Option<i64> = transaction
        .prepare_cached(
            "SELECT min(seq) FROM event INDEXED BY event_job
             WHERE job = (SELECT min(number) FROM job)",
        )?
        .query_row([], |row| row.get(0))?;
    let mut oldest = transaction
        .prepare_cached("SELECT second, seq FROM event_mark ORDER BY second LIMIT ?1")?;
    let mut delete = transaction.prepare_cached("DELETE FROM event_mark WHERE second = ?1")?;
    let mut unused = Vec::new();
    let mut marks = oldest.query([limit])?;
    while let Some(mark) = marks.next()? {
        let (second, seq): (i64, i64) = (mark.get(0)?, mark.get(1)?);
        if first.is_some_and(|first| seq >= first) {
            break;
        }
        unused.push(second);
    }
    drop(marks);
    for second in unused {
        delete.execute([second])?;
    }
    Ok(())
}
