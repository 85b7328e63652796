//! Heartbeats: a node renews its lease, and is asked whether it can run tasks.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::cut_message;
use crate::quantity::Capacity;

/// Heartbeats per lease: two may be lost on the way.
const HEARTBEATS_PER_LEASE: u64 = 3;

/// `PUT …/nodes/:nodeID/heartbeat`: renews the lease.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct Heartbeat {
    pub session: u64,
    /// Resources that the agent's executions hold.
    pub used_capacity: Capacity,
    pub running_executions: u64,
    /// Executions that are accepted and not yet started.
    pub enqueued_executions: u64,
    /// For how long the part of the agent that decides has not finished what it is at; 0 when it
    /// is idle. A node that hangs is offered nothing.
    #[serde(default)]
    pub stalled_millis: u64,
    /// The lease that the agent keeps to, of the last answer that it has read; 0 from an agent of a
    /// release that does not say so.
    #[serde(default)]
    pub lease_seconds: u64,
    /// The outcome of the latest probe. The agent repeats it until an answer no longer requests
    /// that probe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probed: Option<ProbeOutcome>,
}

/// The outcome of a probe that the answer to a heartbeat requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ProbeOutcome {
    /// The number of the request.
    pub probe: u64,
    /// What failed; absent if the node can run tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct HeartbeatAnswer {
    /// The node is taken for silent when it has not renewed for this long.
    pub lease_seconds: u64,
    pub heartbeat_seconds: u64,
    /// Requests a probe: the agent finds out whether its node can run tasks, once for each number.
    /// Every answer repeats the request until the outcome has arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<u64>,
    /// As in the answer to joining.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub term: String,
}

// === impl Heartbeat ===

impl Heartbeat {
    /// The lease that the agent keeps to, if it says so.
    pub fn lease(&self) -> Option<Duration> {
        (self.lease_seconds > 0).then(|| Duration::from_secs(self.lease_seconds))
    }

    /// Cuts the text of a probe's outcome like that of a report.
    pub fn cut_texts(&mut self) {
        if let Some(failure) = self.probed.as_mut().and_then(|probed| probed.failure.as_mut()) {
            cut_message(failure);
        }
    }
}

// === impl HeartbeatAnswer ===

impl HeartbeatAnswer {
    /// Grants this lease; the interval leaves room for two lost heartbeats.
    pub fn granting(lease: Duration) -> Self {
        let lease_seconds = lease.as_secs().max(1);
        Self {
            lease_seconds,
            heartbeat_seconds: (lease_seconds / HEARTBEATS_PER_LEASE).max(1),
            probe: None,
            term: String::new(),
        }
    }
}
