//! Events: of all jobs and nodes, of one job, and of one node, in order of their sequence.

use api_types::Timestamp;
use scheduler::change::EventRow;

use super::jobs;
use super::reader::{Params, Reader};
use super::row::events::{
    COLUMNS, EVENT, page_of_all, page_of_none, page_of_one, read_event, read_scanned,
};
use super::row::{Id, counter, mark};
use super::select::numbered;
use crate::store::{
    EventsPage, EventsQuery, HistoryQuery, NodeHistoryQuery, Page, StoreError, select,
};

pub(super) fn last_event(reader: &mut Reader) -> Result<u64, StoreError> {
    reader.only("SELECT last_seq FROM progress WHERE one = 1", &[], |row| counter(row, 0))
}

/// A page examines a bounded number of rows, matching or not.
pub(super) fn events(reader: &mut Reader, query: &EventsQuery) -> Result<EventsPage, StoreError> {
    let last = last_event(reader)?;
    let after = query.after.cast_signed();
    let limit = query.limit;
    let Some(job) = query.job else {
        let sql = format!(
            "SELECT {COLUMNS} FROM event AS e LEFT JOIN job AS j ON j.number = e.job
             WHERE e.seq > $1 ORDER BY e.seq LIMIT {limit}"
        );
        let rows = reader.all(&sql, &[&after], read_scanned)?;
        return Ok(page_of_all(query, rows, last));
    };
    let Some(number) = jobs::number(reader, job)? else { return Ok(page_of_none(query, last)) };
    let rows = reader.all(&of_one_sql(limit), &[&number, &after], read_scanned)?;
    Ok(page_of_one(query, rows, last))
}

pub(super) fn of_one_sql(limit: u32) -> String {
    format!(
        "SELECT {COLUMNS} FROM event AS e JOIN job AS j ON j.number = e.job
         WHERE e.job = $1 AND e.seq > $2 ORDER BY e.seq LIMIT {limit}"
    )
}

pub(super) fn history(
    reader: &mut Reader,
    query: &HistoryQuery,
) -> Result<Page<EventRow>, StoreError> {
    let after = query.after.unwrap_or(0).max(earlier(reader, query.since)?);
    let (sql, parameters) = select::history::history(query, after, "");
    let (sql, parameters) = numbered(&sql, &parameters.0);
    let params: Vec<_> = parameters.iter().map(|parameter| *parameter as _).collect();
    let items = reader.all(&sql, &params, |row| read_event(row, Some(query.job)))?;
    Ok(Page::of(items, query.limit))
}

/// In order of the sequence: what was written before a node was forgotten precedes the rest.
pub(super) fn node_history(
    reader: &mut Reader,
    query: &NodeHistoryQuery,
) -> Result<Page<EventRow>, StoreError> {
    let after = query.after.unwrap_or(0).max(earlier(reader, query.since)?).cast_signed();
    let sql = format!(
        "SELECT {EVENT} WHERE job <= 0 AND node = $1 AND seq > $2 AND time >= $3
         ORDER BY job, seq LIMIT {}",
        i64::from(query.limit) + 1
    );
    let node = query.node.bytes();
    let params: Params<'_> = &[&node.as_slice(), &after, &query.since.0];
    let items = reader.all(&sql, params, |row| read_event(row, None))?;
    Ok(Page::of(items, query.limit))
}

/// Events up to this sequence need no test of their time.
fn earlier(reader: &mut Reader, since: Timestamp) -> Result<u64, StoreError> {
    match since {
        Timestamp::ZERO => Ok(0),
        since => position_before(reader, since),
    }
}

/// Every event up to this sequence is earlier than `time`.
pub(super) fn position_before(reader: &mut Reader, time: Timestamp) -> Result<u64, StoreError> {
    let sql = "SELECT seq FROM event_mark WHERE second < $1 ORDER BY second DESC LIMIT 1";
    let marked = reader.one(sql, &[&mark::second(time)], |row| counter(row, 0))?;
    Ok(marked.map_or(0, |seq| seq - 1))
}
