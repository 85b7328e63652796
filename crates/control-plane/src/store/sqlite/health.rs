//! The health of a node as it is stored: null while it is well, JSON otherwise.

use std::time::Duration;

use api_types::{ExecutionId, Timestamp};
use scheduler::health::{Health, Trouble};
use scheduler::time::Moment;
use serde::{Deserialize, Serialize};

use super::row::bad_record;
use crate::store::StoreError;

#[derive(Serialize, Deserialize)]
struct Stored {
    /// Until when it takes no new work; none when it is being probed.
    until: Option<u64>,
    probe: Option<ExecutionId>,
    length_nanos: u64,
    began: u64,
    since: i64,
    reason: String,
}

pub(super) fn text(health: &Health) -> Option<String> {
    let (until, probe, length, trouble) = match health {
        Health::Well => return None,
        Health::BackingOff { until, length, trouble } => (Some(until.0), None, length, trouble),
        Health::Probing { probe, length, trouble } => (None, *probe, length, trouble),
    };
    let stored = Stored {
        until,
        probe,
        length_nanos: u64::try_from(length.as_nanos()).unwrap_or(u64::MAX),
        began: trouble.began.0,
        since: trouble.since.0,
        reason: trouble.reason.to_string(),
    };
    serde_json::to_string(&stored).ok()
}

pub(super) fn read(text: Option<String>) -> Result<Health, StoreError> {
    let Some(text) = text else { return Ok(Health::Well) };
    let Stored { until, probe, length_nanos, began, since, reason } =
        serde_json::from_str(&text).map_err(bad_record)?;
    let length = Duration::from_nanos(length_nanos);
    let trouble = Trouble { began: Moment(began), since: Timestamp(since), reason: reason.into() };
    Ok(match until {
        Some(until) => Health::BackingOff { until: Moment(until), length, trouble },
        None => Health::Probing { probe, length, trouble },
    })
}
