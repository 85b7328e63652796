//! The history of a job or a node: one event per recorded change.

use serde::{Deserialize, Serialize};

use crate::execution::ComputeState;
use crate::id::{ExecutionId, JobId, NodeId};
use crate::job::JobStateType;
use crate::word::words;

words!(
    /// The level of an event.
    EventType, "an event type", {
        JobLevel = "JobLevel",
        ExecutionLevel = "ExecutionLevel",
        /// Of a node; it belongs to no job.
        NodeLevel = "NodeLevel",
    }
);

words!(
    /// What the history of a node says of it, for one field of its record at a time.
    NodeStateType, "a node state", {
        /// Not a member of the cluster: before a node joins, and after it is forgotten.
        Unknown = "UNKNOWN",
        Connected = "CONNECTED",
        Disconnected = "DISCONNECTED",
        Pending = "PENDING",
        Approved = "APPROVED",
        Rejected = "REJECTED",
        Eligible = "ELIGIBLE",
        Cordoned = "CORDONED",
        Draining = "DRAINING",
        /// Draining, and no execution is left on it; its record still says `DRAINING`.
        Drained = "DRAINED",
        Healthy = "HEALTHY",
        BackingOff = "BACKING_OFF",
        Probing = "PROBING",
        Stalled = "STALLED",
    }
);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HistoryEvent {
    #[serde(rename = "Type")]
    pub event_type: EventType,
    /// Empty on node-level events.
    #[serde(rename = "JobID", with = "crate::serde_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::openapi::schema::JobIdOrEmpty))]
    pub job_id: Option<JobId>,
    /// Empty on job-level events.
    #[serde(rename = "NodeID", with = "crate::serde_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::openapi::schema::NodeIdOrEmpty))]
    pub node_id: Option<NodeId>,
    /// Empty on job-level and node-level events.
    #[serde(rename = "ExecutionID", with = "crate::serde_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::openapi::schema::ExecutionIdOrEmpty))]
    pub execution_id: Option<ExecutionId>,
    /// Null except on job-level events.
    #[serde(rename = "JobState")]
    pub job_state: Option<JobStateChange>,
    /// Null except on execution-level events.
    #[serde(rename = "ExecutionState")]
    pub execution_state: Option<ExecutionStateChange>,
    /// Only on node-level events.
    #[serde(rename = "NodeState", default, skip_serializing_if = "Option::is_none")]
    pub node_state: Option<NodeStateChange>,
    /// The revision of the job or execution after the change; for a node, the number of its event.
    #[serde(rename = "NewRevision")]
    pub new_revision: u64,
    /// The reason, for the user.
    #[serde(rename = "Comment")]
    pub comment: String,
    /// RFC 3339, UTC, nanoseconds.
    #[serde(rename = "Time")]
    pub time: String,
    /// The job's name; only on the stream of events.
    #[serde(rename = "JobName", default, skip_serializing_if = "Option::is_none")]
    pub job_name: Option<String>,
    /// The index of the slot that the execution fills; only on the stream of events.
    #[serde(rename = "Index", default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// The node's name, unless it is forgotten; only on the stream of events.
    #[serde(rename = "NodeName", default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct JobStateChange {
    pub previous: JobStateType,
    pub new: JobStateType,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ExecutionStateChange {
    pub previous: ComputeState,
    pub new: ComputeState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct NodeStateChange {
    pub previous: NodeStateType,
    pub new: NodeStateType,
}

/// Stands on the event stream for events that retention removed: all from `From` to `To`,
/// both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct HistoryGap {
    pub from: u64,
    pub to: u64,
}

impl HistoryGap {
    /// The event name on the stream; history events have none.
    pub const EVENT: &str = "gap";
}

/// Response of Job History and Node History.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ListHistory {
    pub history: Vec<HistoryEvent>,
    pub next_token: String,
}
