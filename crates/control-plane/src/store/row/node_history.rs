//! How far the history of a node is, as it is stored.

use api_types::Timestamp;
use api_types::history::NodeStateType;
use scheduler::node_event::{History, Standing};
use serde::{Deserialize, Serialize};

use super::bad_record;
use crate::store::StoreError;

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

pub(in crate::store) fn to_text(history: &History) -> Result<String, StoreError> {
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

pub(in crate::store) fn from_text(text: Option<String>) -> Result<History, StoreError> {
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
