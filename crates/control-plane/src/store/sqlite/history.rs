//! The history of a job, in order of its events' sequence.
//!
//! A page walks the job's events from its position, or from the start of `since`, and tests each,
//! at about 1 µs: a filter that rarely matches costs that for every later event of the job.

use api_types::Timestamp;
use rusqlite::{Connection, params_from_iter};
use scheduler::change::EventRow;

use super::marks;
use super::row::{self, events::read_event};
use crate::store::{HistoryQuery, Page, StoreError, select};

pub(super) fn history(
    connection: &Connection,
    query: &HistoryQuery,
) -> Result<Page<EventRow>, StoreError> {
    let earlier = match query.since {
        Timestamp::ZERO => 0,
        since => marks::position_before(connection, since)?,
    };
    let after = query.after.unwrap_or(0).max(earlier);
    let (sql, parameters) = select::history::history(query, after, "INDEXED BY event_job");
    let mut statement = connection.prepare_cached(&sql)?;
    let items = row::all(&mut statement, params_from_iter(&parameters.0), |row| {
        read_event(row, Some(query.job))
    })?;
    Ok(Page::of(items, query.limit))
}
