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
use scheduler::node_event::{History, Standing};
use serde::{Deserialize, Serialize};

use super::row::{self, Id, bad_record, counter};
use super::subject::{OF_KNOWN, read_subject};
use super::{events, marks};
use crate::store::{FORGOTTEN_NODES_EVENTS, NODE_EVENTS, NodeHistoryQuery, Page, StoreError};

const OF_FORGOTTEN: i64 = -1;

/// Surplus rows removed with one event. It is one row, unless the bound is lower in this release.
const REMOVED_AT_ONCE: u32 = 64;

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

/// [`History`] as it is stored.
#[derive(Serialize, Deserialize)]
struct Stored {
    revision: u64,
    last_event_time: i64,
    session: u64,
    connection: NodeStateType,
    membership: NodeStateType,
    eligibility: NodeStateType,
    health: NodeStateType,
}

pub(super) fn to_text(history: &History) -> Result<String, StoreError> {
    let History { revision, last_event_time, standing } = history;
    let Standing { session, connection, membership, eligibility, health } = *standing;
    let stored = Stored {
        revision: *revision,
        last_event_time: last_event_time.0,
        session,
        connection,
        membership,
        eligibility,
        health,
    };
    serde_json::to_string(&stored).map_err(bad_record)
}

pub(super) fn from_text(text: Option<String>) -> Result<History, StoreError> {
    let Some(text) = text else { return Ok(History::default()) };
    let stored = serde_json::from_str(&text).map_err(bad_record)?;
    let Stored { revision, last_event_time, session, connection, membership, eligibility, health } =
        stored;
    Ok(History {
        revision,
        last_event_time: Timestamp(last_event_time),
        standing: Standing { session, connection, membership, eligibility, health },
    })
}

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
    let mut statement = connection.prepare_cached(
        "SELECT seq, time, revision, comment, previous, new, execution, node
         FROM event INDEXED BY event_node
         WHERE job <= 0 AND node = ?1 AND seq > ?2 AND time >= ?3 ORDER BY job, seq LIMIT ?4",
    )?;
    let limit = i64::from(query.limit) + 1;
    let parameters = params![query.node.bytes(), after, query.since.0, limit];
    let mut items = row::all(&mut statement, parameters, |row| {
        Ok(EventRow {
            seq: counter(row, 0)?,
            time: row::time(row, 1)?,
            revision: counter(row, 2)?,
            comment: row.get::<_, String>(3)?.into(),
            subject: read_subject(row, None)?,
        })
    })?;
    let more = items.len() > query.limit as usize;
    items.truncate(query.limit as usize);
    Ok(Page { items, more })
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
        params![node.bytes(), OF_KNOWN, REMOVED_AT_ONCE],
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
