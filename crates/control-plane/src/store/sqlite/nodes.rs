//! The history of nodes: rows of the table `event` that belong to no job.
//!
//! Instead of a job's number they have [`OF_KNOWN`], or [`OF_FORGOTTEN`] once their node is
//! forgotten: numbers of jobs begin at 1. One table keeps one order for all events, and a missing
//! sequence means the same everywhere.
//!
//! Retention is part of the commit that adds an event, since it removes about one row for each:
//! see [`NODE_EVENTS`] and [`FORGOTTEN_NODES_EVENTS`].

use api_types::Timestamp;
use api_types::history::NodeStateType;
use rusqlite::{Connection, Transaction, params};
use scheduler::change::{EventRow, EventSubject};

use super::row::events::{EVENT, read_event};
use super::row::subject::{OF_FORGOTTEN, OF_KNOWN};
use super::row::{self, Id, counter};
use super::{events, marks};
use crate::store::budget::SURPLUS_AT_ONCE;
use crate::store::{FORGOTTEN_NODES_EVENTS, NODE_EVENTS, NodeHistoryQuery, Page, StoreError};

/// How far the history of each node is: null for a node of an older release, whose history begins
/// with its next change.
pub(super) const STEP: &str = "
ALTER TABLE node ADD COLUMN history TEXT;
CREATE INDEX event_node ON event (node, job, seq) WHERE job <= 0;
";

/// The lease of each node: releases without this column granted 30 seconds by default. And since when
/// it is known, and whether it is about to be forgotten.
pub(super) const STEP_LEASE: &str = "
ALTER TABLE node ADD COLUMN lease INTEGER NOT NULL DEFAULT 30;
ALTER TABLE node ADD COLUMN told_lease INTEGER NOT NULL DEFAULT 30;
ALTER TABLE node ADD COLUMN joined_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE node ADD COLUMN forgotten INTEGER NOT NULL DEFAULT 0;
";

/// Since when each node is idle; null for one that is not, or of an older release, which replaces
/// whole rows and so leaves none that is outdated.
pub(super) const STEP_IDLE: &str = "ALTER TABLE node ADD COLUMN idle_since INTEGER;";

/// In order of the sequence: what was written before a node was forgotten precedes the rest.
pub(super) fn history(
    connection: &Connection,
    query: &NodeHistoryQuery,
) -> Result<Page<EventRow>, StoreError> {
    let earlier = match query.since {
        Timestamp::ZERO => 0,
        since => marks::position_before(connection, since)?,
    };
    let after = query.after.unwrap_or(0).max(earlier).cast_signed();
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {EVENT} INDEXED BY event_node
         WHERE job <= 0 AND node = ?1 AND seq > ?2 AND time >= ?3 ORDER BY job, seq LIMIT ?4",
    ))?;
    let limit = i64::from(query.limit) + 1;
    let parameters = params![query.node.bytes(), after, query.since.0, limit];
    let items = row::all(&mut statement, parameters, |row| read_event(row, None))?;
    Ok(Page::of(items, query.limit))
}

/// Removes what the event is one too many for. Call after it was inserted.
pub(super) fn retain(transaction: &Transaction<'_>, event: &EventRow) -> Result<(), StoreError> {
    let EventSubject::Node { node, new, .. } = event.subject else { return Ok(()) };
    if new == NodeStateType::Unknown {
        return forget(transaction, node.bytes());
    }
    let Some(last) = event.revision.checked_sub(NODE_EVENTS).filter(|last| *last > 0) else {
        return Ok(());
    };
    let oldest = row::all(
        &mut *transaction.prepare_cached(
            "SELECT seq, revision FROM event INDEXED BY event_node
             WHERE job <= 0 AND job = ?2 AND node = ?1 ORDER BY seq LIMIT ?3",
        )?,
        params![node.bytes(), OF_KNOWN, SURPLUS_AT_ONCE],
        |row| Ok((row.get(0)?, counter(row, 1)?)),
    )?;
    let surplus = oldest.into_iter().filter(|(_, revision)| *revision <= last);
    events::remove(transaction, surplus.map(|(seq, _)| seq))
}

fn forget(transaction: &Transaction<'_>, node: [u8; 16]) -> Result<(), StoreError> {
    let known: Vec<i64> = row::all(
        &mut *transaction.prepare_cached(
            "SELECT seq FROM event INDEXED BY event_node
             WHERE job <= 0 AND job = ?2 AND node = ?1",
        )?,
        params![node, OF_KNOWN],
        |row| Ok(row.get(0)?),
    )?;
    let mut update = transaction.prepare_cached("UPDATE event SET job = ?2 WHERE seq = ?1")?;
    for seq in known {
        update.execute([seq, OF_FORGOTTEN])?;
    }
    let surplus = row::all(
        &mut *transaction.prepare_cached(
            "SELECT seq FROM event INDEXED BY event_job WHERE job = ?1
             ORDER BY seq DESC LIMIT -1 OFFSET ?2",
        )?,
        params![OF_FORGOTTEN, FORGOTTEN_NODES_EVENTS.cast_signed()],
        |row| Ok(row.get(0)?),
    )?;
    events::remove(transaction, surplus.into_iter())
}
