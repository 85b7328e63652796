//! Events of all jobs in order of their sequence, with the gaps that retention left.
//!
//! Sequences are given out without a gap, so that one which is not there was removed. A page looks
//! at a bounded number of rows, whether they match or not: about 2 µs each.

use api_types::history::EventType;
use api_types::{JobId, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::history::read_subject;
use super::row::{self, Id, counter};
use crate::engine::change::{EventRow, EventSubject};
use crate::store::{EventEntry, EventsPage, EventsQuery, StoreError};

const COLUMNS: &str = "e.seq, e.time, e.revision, e.comment, e.previous, e.new, e.execution,
    e.node, j.id, j.namespace";

/// A row that was looked at.
struct Looked {
    seq: u64,
    /// None when its job is being removed.
    event: Option<(EventRow, String)>,
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
        // Everything of it is gone, and nobody knows any more what it was.
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
    for Looked { seq, event } in rows {
        let Some((event, namespace)) = event else { continue };
        entries.extend(gap(expected, seq - 1));
        expected = seq + 1;
        if matches(query, &event, &namespace) {
            entries.push(EventEntry::Event(event));
        }
    }
    entries.extend(gap(expected, through));
    Ok(EventsPage { entries, through, more, job_gone: false })
}

/// A job has all of its events as long as it is there, so that there is no gap.
fn of_one(
    connection: &Connection,
    query: &EventsQuery,
    number: i64,
    last: u64,
) -> Result<EventsPage, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM event AS e INDEXED BY event_job
            CROSS JOIN job AS j ON j.number = e.job
         WHERE e.job = ?3 AND e.seq > ?1 ORDER BY e.seq LIMIT ?2"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let parameters = params![query.after.cast_signed(), query.limit, number];
    let rows = row::all(&mut statement, parameters, read)?;
    let more = rows.len() >= query.limit as usize;
    let through = if more { rows.last().map_or(last, |row| row.seq) } else { last };
    let entries = rows
        .into_iter()
        .filter_map(|row| row.event)
        .filter(|(event, namespace)| matches(query, event, namespace))
        .map(|(event, _)| EventEntry::Event(event))
        .collect();
    Ok(EventsPage { entries, through, more, job_gone: false })
}

/// What is missing from one sequence to another, if anything is.
fn gap(from: u64, to: u64) -> Option<EventEntry> {
    (from <= to).then_some(EventEntry::Gap { from, to })
}

fn matches(query: &EventsQuery, event: &EventRow, namespace: &str) -> bool {
    let event_type = match event.subject {
        EventSubject::Job { .. } => EventType::JobLevel,
        EventSubject::Execution { .. } => EventType::ExecutionLevel,
    };
    event.time >= query.since
        && query.event_type.is_none_or(|wanted| wanted == event_type)
        && query.namespace.as_ref().is_none_or(|wanted| wanted == namespace)
}

fn read(row: &Row<'_>) -> Result<Looked, StoreError> {
    let seq = counter(row, 0)?;
    let Some(job) = JobId::get_option(row, 8)? else { return Ok(Looked { seq, event: None }) };
    let event = EventRow {
        seq,
        time: row::time(row, 1)?,
        job,
        revision: counter(row, 2)?,
        comment: row.get::<_, String>(3)?.into(),
        subject: read_subject(row)?,
    };
    Ok(Looked { seq, event: Some((event, row.get(9)?)) })
}

pub(super) fn last_event(connection: &Connection) -> Result<u64, StoreError> {
    Ok(connection
        .prepare_cached("SELECT last_seq FROM progress WHERE one = 1")?
        .query_row([], |row| counter(row, 0))?)
}

/// Times never go back along the sequence, so that halving finds it in a few looks.
pub(super) fn last_event_before(
    connection: &Connection,
    time: Timestamp,
) -> Result<u64, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT seq, time FROM event WHERE seq >= ?1 AND seq < ?2 ORDER BY seq LIMIT 1",
    )?;
    // All up to `before` are earlier, all from `not_before` on are not.
    let (mut before, mut not_before) = (0, last_event(connection)? + 1);
    while not_before - before > 1 {
        let middle = before + (not_before - before) / 2;
        let found = statement
            .query_row([middle.cast_signed(), not_before.cast_signed()], |row| {
                Ok((counter(row, 0)?, row::time(row, 1)?))
            })
            .optional()?;
        match found {
            Some((seq, earlier)) if earlier < time => before = seq,
            Some(_) | None => not_before = middle,
        }
    }
    Ok(before)
}
