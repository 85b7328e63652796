//! Events of all jobs, or of all nodes, in order of their sequence, with gaps where some are gone.
//!
//! Sequences have no gaps when assigned, so a missing one was removed. A page examines a bounded
//! number of rows, matching or not: about 2 µs each.

use rusqlite::{Connection, Transaction, params};

use super::row::events::{COLUMNS, page_of_all, page_of_none, page_of_one, read_scanned};
use super::row::{self, counter};
use crate::store::{EventsPage, EventsQuery, StoreError};

/// Removes the events with these sequences.
pub(super) fn remove(
    transaction: &Transaction<'_>,
    sequences: impl Iterator<Item = i64>,
) -> Result<(), StoreError> {
    let mut delete = transaction.prepare_cached("DELETE FROM event WHERE seq = ?1")?;
    for seq in sequences {
        delete.execute([seq])?;
    }
    Ok(())
}

pub(super) fn events(
    connection: &Connection,
    query: &EventsQuery,
) -> Result<EventsPage, StoreError> {
    let last = last_event(connection)?;
    let number = query.job.map(|job| super::jobs::number(connection, job)).transpose()?;
    match number {
        None => of_all(connection, query, last),
        Some(Some(number)) => of_one(connection, query, number, last),
        Some(None) => Ok(page_of_none(query, last)),
    }
}

fn of_all(
    connection: &Connection,
    query: &EventsQuery,
    last: u64,
) -> Result<EventsPage, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM event AS e LEFT JOIN job AS j ON j.number = e.job
         WHERE e.seq > ?1 ORDER BY e.seq LIMIT ?2"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let rows =
        row::all(&mut statement, params![query.after.cast_signed(), query.limit], read_scanned)?;
    Ok(page_of_all(query, rows, last))
}

fn of_one(
    connection: &Connection,
    query: &EventsQuery,
    number: i64,
    last: u64,
) -> Result<EventsPage, StoreError> {
    let mut statement = connection.prepare_cached(&of_one_sql())?;
    let parameters = params![query.after.cast_signed(), query.limit, number];
    let rows = row::all(&mut statement, parameters, read_scanned)?;
    Ok(page_of_one(query, rows, last))
}

pub(super) fn of_one_sql() -> String {
    format!(
        "SELECT {COLUMNS} FROM event AS e INDEXED BY event_job
            CROSS JOIN job AS j ON j.number = e.job
         WHERE e.job = ?3 AND e.seq > ?1 ORDER BY e.seq LIMIT ?2"
    )
}

pub(super) fn last_event(connection: &Connection) -> Result<u64, StoreError> {
    let mut statement = connection.prepare_cached("SELECT last_seq FROM progress WHERE one = 1")?;
    row::only(&mut statement, [], |row| counter(row, 0))
}
