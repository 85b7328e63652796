//! Events of all jobs, or of all nodes, in order of their sequence, with gaps where some are gone.
//!
//! Sequences have no gaps when assigned, so a missing one was removed. A page examines a bounded
//! number of rows, matching or not: about 2 µs each.

use api_types::JobId;
use api_types::history::EventType;
use rusqlite::{Connection, Row, Transaction, params};
use scheduler::change::EventRow;

use super::row::{self, Id, counter};
use super::subject::{OF_KNOWN, read_subject};
use crate::store::{EventEntry, EventsPage, EventsQuery, Namespaces, StoreError};

const COLUMNS: &str = "e.seq, e.time, e.revision, e.comment, e.previous, e.new, e.execution,
    e.node, j.id, j.namespace, e.job";

/// An examined row.
struct Scanned {
    seq: u64,
    /// `None` while its job is being removed.
    event: Option<(EventRow, Option<String>)>,
}

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
        // All its rows are gone, so its attributes are unknown.
        Some(None) => {
            let entries = gap(query.after + 1, last).into_iter().collect();
            Ok(EventsPage { entries, through: last, more: false, job_gone: true })
        }
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
    let rows = row::all(&mut statement, params![query.after.cast_signed(), query.limit], read)?;
    let more = rows.len() >= query.limit as usize;
    let through = if more { rows.last().map_or(last, |row| row.seq) } else { last };
    let mut entries = Vec::new();
    let mut expected = query.after + 1;
    for Scanned { seq, event } in rows {
        let Some((event, namespace)) = event else { continue };
        entries.extend(gap(expected, seq - 1));
        expected = seq + 1;
        if matches(query, &event, namespace.as_deref()) {
            entries.push(EventEntry::Event(event));
        }
    }
    entries.extend(gap(expected, through));
    Ok(EventsPage { entries, through, more, job_gone: false })
}

/// A job keeps all of its events as long as it exists, so there is no gap.
fn of_one(
    connection: &Connection,
    query: &EventsQuery,
    number: i64,
    last: u64,
) -> Result<EventsPage, StoreError> {
    let mut statement = connection.prepare_cached(&of_one_sql())?;
    let parameters = params![query.after.cast_signed(), query.limit, number];
    let rows = row::all(&mut statement, parameters, read)?;
    let more = rows.len() >= query.limit as usize;
    let through = if more { rows.last().map_or(last, |row| row.seq) } else { last };
    let entries = rows
        .into_iter()
        .filter_map(|row| row.event)
        .filter(|(event, namespace)| matches(query, event, namespace.as_deref()))
        .map(|(event, _)| EventEntry::Event(event))
        .collect();
    Ok(EventsPage { entries, through, more, job_gone: false })
}

pub(super) fn of_one_sql() -> String {
    format!(
        "SELECT {COLUMNS} FROM event AS e INDEXED BY event_job
            CROSS JOIN job AS j ON j.number = e.job
         WHERE e.job = ?3 AND e.seq > ?1 ORDER BY e.seq LIMIT ?2"
    )
}

/// The removed range between two sequences, if any.
fn gap(from: u64, to: u64) -> Option<EventEntry> {
    (from <= to).then_some(EventEntry::Gap { from, to })
}

/// An event of a node has no namespace, and is wanted only by those who ask for it.
fn matches(query: &EventsQuery, event: &EventRow, namespace: Option<&str>) -> bool {
    let event_type = event.event_type();
    event.time >= query.since
        && match query.event_type {
            None => event_type != EventType::NodeLevel,
            Some(wanted) => wanted == event_type,
        }
        && match &query.namespaces {
            Namespaces::All => true,
            Namespaces::Only(names) => namespace.is_some_and(|name| names.contains(name)),
        }
}

fn read(row: &Row<'_>) -> Result<Scanned, StoreError> {
    let seq = counter(row, 0)?;
    let job = JobId::get_option(row, 8)?;
    if job.is_none() && row.get::<_, i64>(10)? > OF_KNOWN {
        return Ok(Scanned { seq, event: None });
    }
    let event = EventRow {
        seq,
        time: row::time(row, 1)?,
        revision: counter(row, 2)?,
        comment: row.get::<_, String>(3)?.into(),
        subject: read_subject(row, job)?,
    };
    Ok(Scanned { seq, event: Some((event, row.get(9)?)) })
}

pub(super) fn last_event(connection: &Connection) -> Result<u64, StoreError> {
    Ok(connection
        .prepare_cached("SELECT last_seq FROM progress WHERE one = 1")?
        .query_row([], |row| counter(row, 0))?)
}
