//! Events in their columns, and pages of those of all jobs and nodes.

use api_types::JobId;
use api_types::history::EventType;
use scheduler::change::EventRow;

use super::subject::{OF_KNOWN, read_subject};
use super::{Columns, Id, counter, of, time};
use crate::store::{EventEntry, EventsPage, EventsQuery, Namespaces, StoreError};

/// The columns for [`read_event`].
pub(in crate::store) const EVENT: &str =
    "seq, time, revision, comment, previous, new, execution, node FROM event";

/// The columns for [`read_scanned`].
pub(in crate::store) const COLUMNS: &str =
    "e.seq, e.time, e.revision, e.comment, e.previous, e.new, e.execution,
    e.node, j.id, j.namespace, e.job";

/// An examined row.
pub(in crate::store) struct Scanned {
    seq: u64,
    /// `None` while its job is being removed.
    event: Option<(EventRow, Option<String>)>,
}

pub(in crate::store) fn read_event(
    row: &impl Columns,
    job: Option<JobId>,
) -> Result<EventRow, StoreError> {
    let seq = counter(row, 0)?;
    of(format_args!("event {seq}"), read_rest(seq, row, job))
}

fn read_rest(seq: u64, row: &impl Columns, job: Option<JobId>) -> Result<EventRow, StoreError> {
    Ok(EventRow {
        seq,
        time: time(row, 1)?,
        revision: counter(row, 2)?,
        comment: row.value::<String>(3)?.into(),
        subject: read_subject(row, job)?,
    })
}

/// A page of all events that were examined, with the gaps between them.
pub(in crate::store) fn page_of_all(
    query: &EventsQuery,
    rows: Vec<Scanned>,
    last: u64,
) -> EventsPage {
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
    EventsPage { entries, through, more, job_gone: false }
}

/// A job keeps all of its events as long as it exists, so there is no gap.
pub(in crate::store) fn page_of_one(
    query: &EventsQuery,
    rows: Vec<Scanned>,
    last: u64,
) -> EventsPage {
    let more = rows.len() >= query.limit as usize;
    let through = if more { rows.last().map_or(last, |row| row.seq) } else { last };
    let entries = rows
        .into_iter()
        .filter_map(|row| row.event)
        .filter(|(event, namespace)| matches(query, event, namespace.as_deref()))
        .map(|(event, _)| EventEntry::Event(event))
        .collect();
    EventsPage { entries, through, more, job_gone: false }
}

/// All rows of the job are gone, so their attributes are unknown.
pub(in crate::store) fn page_of_none(query: &EventsQuery, last: u64) -> EventsPage {
    let entries = gap(query.after + 1, last).into_iter().collect();
    EventsPage { entries, through: last, more: false, job_gone: true }
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

pub(in crate::store) fn read_scanned(row: &impl Columns) -> Result<Scanned, StoreError> {
    let seq = counter(row, 0)?;
    let job = JobId::get_option(row, 8)?;
    if job.is_none() && row.value::<i64>(10)? > OF_KNOWN {
        return Ok(Scanned { seq, event: None });
    }
    let event = read_event(row, job)?;
    Ok(Scanned { seq, event: Some((event, row.value(9)?)) })
}
