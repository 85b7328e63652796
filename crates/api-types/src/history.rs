//! The history of a job: one event per recorded change.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::engine::{UnknownWord, words};
use crate::execution::ComputeState;
use crate::id::{ExecutionId, JobId, NodeId};
use crate::job::JobStateType;

words!(
    /// The level of an event.
    EventType, "an event type", {
        JobLevel = "JobLevel",
        ExecutionLevel = "ExecutionLevel",
    }
);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HistoryEvent {
    #[serde(rename = "Type")]
    pub event_type: EventType,
    #[serde(rename = "JobID")]
    pub job_id: JobId,
    /// Empty on job-level events.
    #[serde(rename = "NodeID", with = "crate::serde_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::openapi::NodeIdOrEmpty))]
    pub node_id: Option<NodeId>,
    /// Empty on job-level events.
    #[serde(rename = "ExecutionID", with = "crate::serde_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::openapi::ExecutionIdOrEmpty))]
    pub execution_id: Option<ExecutionId>,
    /// Null on execution-level events.
    #[serde(rename = "JobState")]
    pub job_state: Option<JobStateChange>,
    /// Null on job-level events.
    #[serde(rename = "ExecutionState")]
    pub execution_state: Option<ExecutionStateChange>,
    /// The revision of the job or execution after the change.
    #[serde(rename = "NewRevision")]
    pub new_revision: u64,
    /// The reason, for the user.
    #[serde(rename = "Comment")]
    pub comment: String,
    /// RFC 3339, UTC, nanoseconds.
    #[serde(rename = "Time")]
    pub time: String,
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

/// Response of Job History.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ListHistory {
    pub history: Vec<HistoryEvent>,
    pub next_token: String,
}
