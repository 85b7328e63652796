//! The history of a job, in order of its events' sequence.
//!
//! A page walks the job's events from its position, or from the start of `since`, and tests each,
//! at about 1 µs: a filter that rarely matches costs that for every later event of the job.

use api_types::Timestamp;
use api_types::history::EventType;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use scheduler::change::EventRow;

use super::marks;
use super::row::{self, Id, counter};
use super::subject::read_subject;
use crate::store::{HistoryQuery, Page, StoreError};

pub(super) fn history(
    connection: &Connection,
    query: &HistoryQuery,
) -> Result<Page<EventRow>, StoreError> {
    let earlier = match query.since {
        Timestamp::ZERO => 0,
        since => marks::position_before(connection, since)?,
    };
    let after = query.after.unwrap_or(0).max(earlier).cast_signed();
    let mut parameters: Vec<Value> = vec![
        query.job.bytes().to_vec().into(),
        after.into(),
        query.since.0.into(),
        (i64::from(query.limit) + 1).into(),
    ];
    let mut tests = String::new();
    match query.event_type {
        None => {}
        Some(EventType::JobLevel) => tests.push_str(" AND execution IS NULL"),
        Some(EventType::ExecutionLevel) => tests.push_str(" AND execution IS NOT NULL"),
        // They are in no job's history.
        Some(EventType::NodeLevel) => tests.push_str(" AND 0"),
    }
    if let Some(execution) = query.execution {
        parameters.push(execution.bytes().to_vec().into());
        tests.push_str(&format!(" AND execution = ?{}", parameters.len()));
    }
    if let Some(node) = query.node {
        parameters.push(node.bytes().to_vec().into());
        tests.push_str(&format!(" AND node = ?{}", parameters.len()));
    }
    let sql = format!(
        "SELECT seq, time, revision, comment, previous, new, execution, node
         FROM event INDEXED BY event_job
         WHERE job = (SELECT number FROM job WHERE id = ?1) AND seq > ?2 AND time >= ?3 {tests}
         ORDER BY seq LIMIT ?4"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut items = row::all(&mut statement, params_from_iter(parameters), |row| {
        Ok(EventRow {
            seq: counter(row, 0)?,
            time: row::time(row, 1)?,
            revision: counter(row, 2)?,
            comment: row.get::<_, String>(3)?.into(),
            subject: read_subject(row, Some(query.job))?,
        })
    })?;
    let more = items.len() > query.limit as usize;
    items.truncate(query.limit as usize);
    Ok(Page { items, more })
}
