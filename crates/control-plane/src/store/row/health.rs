//! The health of a node as it is stored: null while it is well, JSON otherwise.
//!
//! A release without probes of the agent reads a node that is asked, or that has recovered, as one
//! that it probes with an execution.

use std::time::Duration;

use api_types::{ExecutionId, Timestamp};
use scheduler::health::{Health, Trouble};
use scheduler::time::Moment;
use serde::{Deserialize, Serialize};

use super::bad_record;
use crate::store::StoreError;

#[derive(Serialize, Deserialize)]
struct Stored {
    /// Until when it takes no new work; none when it is being probed.
    until: Option<u64>,
    probe: Option<ExecutionId>,
    /// What its agent is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    asked: Option<ProbeRequest>,
    /// When its last back-off ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    recovered: Option<u64>,
    length_nanos: u64,
    began: u64,
    since: i64,
    reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    accuser: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct ProbeRequest {
    probe: u64,
    until: u64,
}

pub(in crate::store) fn text(health: &Health) -> Option<String> {
    let stored = match health {
        Health::Well => return None,
        Health::Recovered { at, length } => {
            let nothing =
                Trouble { began: *at, since: Timestamp::ZERO, reason: "".into(), accuser: None };
            Stored { recovered: Some(at.0), ..Stored::new(&nothing, *length) }
        }
        Health::BackingOff { until, length, trouble } => {
            Stored { until: Some(until.0), ..Stored::new(trouble, *length) }
        }
        Health::Asked { probe, until, length, trouble } => {
            let asked = ProbeRequest { probe: *probe, until: until.0 };
            Stored { asked: Some(asked), ..Stored::new(trouble, *length) }
        }
        // Which namespace the next probe avoids is forgotten at a restart.
        Health::Probing { probe, avoids: _, length, trouble } => {
            Stored { probe: *probe, ..Stored::new(trouble, *length) }
        }
    };
    serde_json::to_string(&stored).ok()
}

pub(in crate::store) fn read(text: Option<String>) -> Result<Health, StoreError> {
    let Some(text) = text else { return Ok(Health::Well) };
    let Stored { until, probe, asked, recovered, length_nanos, began, since, reason, accuser } =
        serde_json::from_str(&text).map_err(bad_record)?;
    let length = Duration::from_nanos(length_nanos);
    let trouble = Trouble {
        began: Moment(began),
        since: Timestamp(since),
        reason: reason.into(),
        accuser: accuser.map(Into::into),
    };
    Ok(match (recovered, until, asked) {
        (Some(at), _, _) => Health::Recovered { at: Moment(at), length },
        (None, Some(until), _) => Health::BackingOff { until: Moment(until), length, trouble },
        (None, None, Some(ProbeRequest { probe, until })) => {
            Health::Asked { probe, until: Moment(until), length, trouble }
        }
        (None, None, None) => Health::Probing { probe, avoids: None, length, trouble },
    })
}

// === impl Stored ===

impl Stored {
    fn new(trouble: &Trouble, length: Duration) -> Self {
        Self {
            until: None,
            probe: None,
            asked: None,
            recovered: None,
            length_nanos: u64::try_from(length.as_nanos()).unwrap_or(u64::MAX),
            began: trouble.began.0,
            since: trouble.since.0,
            reason: trouble.reason.to_string(),
            accuser: trouble.accuser.as_deref().map(ToOwned::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_read_as_it_was_written() {
        let length = Duration::from_secs(20);
        let trouble = Trouble {
            began: Moment(7),
            since: Timestamp(8),
            reason: "docker answers 500".into(),
            accuser: Some("default".into()),
        };
        let probe = ExecutionId::from_uuid(uuid::Uuid::from_u128(9));
        for health in [
            Health::Well,
            Health::Recovered { at: Moment(1), length },
            Health::BackingOff { until: Moment(2), length, trouble: trouble.clone() },
            Health::Asked { probe: 3, until: Moment(4), length, trouble: trouble.clone() },
            Health::Probing { probe: None, avoids: None, length, trouble: trouble.clone() },
            Health::Probing { probe: Some(probe), avoids: None, length, trouble },
        ] {
            assert_eq!(read(text(&health)).unwrap(), health);
        }
    }

    /// As release 0.1.0 and the builds after it wrote it.
    #[test]
    fn what_an_older_release_stored_is_read() {
        let rest = r#""length_nanos":10000000000,"began":7,"since":8,"reason":"docker""#;
        let backing_off = format!(r#"{{"until":9,"probe":null,{rest}}}"#);
        let probing = format!(r#"{{"until":null,"probe":null,{rest}}}"#);
        let health = read(Some(backing_off)).unwrap();
        assert!(matches!(health, Health::BackingOff { until: Moment(9), .. }), "{health:?}");
        assert_eq!(health.trouble().and_then(|trouble| trouble.accuser.clone()), None);
        let health = read(Some(probing)).unwrap();
        assert!(matches!(health, Health::Probing { probe: None, .. }), "{health:?}");
    }
}
