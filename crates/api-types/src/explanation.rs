//! Explains a job's state: what it waits for, what each node lacks, and what failed.

use serde::{Deserialize, Serialize};

use crate::execution::ComputeState;
use crate::gate::ClosedGate;
use crate::id::{ExecutionId, JobId, NodeId};
use crate::job::{DryRunNode, JobStateType};
use crate::reason::ReasonGroup;
use crate::summary::ExecutionCounts;

/// Response of Explain Job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct Explanation {
    #[serde(rename = "JobID")]
    pub job_id: JobId,
    pub state: JobStateType,
    /// The message of the job's state.
    pub message: String,
    /// What it waits for, in one line; empty unless an execution waits for room.
    #[serde(default)]
    pub title: String,
    /// No node could ever take an execution of the job, even while it is empty; an engine that is
    /// unavailable does not count, since it may return.
    #[serde(default)]
    pub hopeless: bool,
    /// Why nodes do not take another execution now, the most frequent reason first. Empty once the
    /// job is over.
    #[serde(default)]
    pub groups: Vec<ReasonGroup>,
    pub executions: ExecutionCounts,
    /// Indexes that failed and are not tried again.
    #[serde(default)]
    pub failed_count: u32,
    /// These, as `3,17,90-99`; a list above 4 KiB ends with `…`.
    #[serde(default)]
    pub failed_indexes: String,
    /// Null unless an execution waits for room.
    pub waiting: Option<WaitingJob>,
    /// What holds executions back that could be placed otherwise; they do not wait for room.
    #[serde(default)]
    pub gates: Vec<ClosedGate>,
    /// For each node, whether another execution of the job could be placed there now, and what it
    /// lacks otherwise; of ops and daemon jobs, the nodes for which an execution waits. Empty once
    /// the job is over.
    pub nodes: Vec<DryRunNode>,
    /// Executions that failed or were declined, the latest first; at most 100.
    pub failures: Vec<ExecutionFailure>,
}

/// What waits for room, and its place in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct WaitingJob {
    /// RFC 3339, UTC.
    pub since: String,
    /// Executions that wait.
    pub slots: u32,
    /// Waiting jobs that need the same kind of node and come first: those of a higher priority, and
    /// older ones.
    pub ahead: u32,
    /// Whether more are ahead than were counted.
    pub ahead_is_more: bool,
    /// The node that is kept free for the job; empty if none is.
    #[serde(with = "crate::serde_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::openapi::schema::NodeIdOrEmpty))]
    pub reserved_node: Option<NodeId>,
}

/// An execution that failed or was declined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ExecutionFailure {
    #[serde(rename = "ExecutionID")]
    pub execution_id: ExecutionId,
    #[serde(rename = "NodeID")]
    pub node_id: NodeId,
    /// 8 failed, 4 declined by its node.
    #[serde(rename = "State")]
    pub state: ComputeState,
    #[serde(rename = "Reason")]
    pub reason: String,
    /// When it ended, RFC 3339, UTC.
    #[serde(rename = "Time")]
    pub time: String,
}
