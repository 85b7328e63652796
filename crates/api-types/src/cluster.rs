//! The cluster as a whole: what it has, what it does, and what it did.

use serde::{Deserialize, Serialize};

use crate::id::{JobId, NodeId};
use crate::quantity::Capacity;
use crate::time::Timestamp;

/// Response of Describe Cluster: counts over all namespaces.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct Cluster {
    /// When it was counted, RFC 3339, UTC.
    pub time: String,
    pub jobs: JobCounts,
    pub executions: LiveExecutions,
    pub nodes: NodeCounts,
    /// Of all approved nodes that are connected.
    pub capacity: Capacity,
    /// What executions hold of it.
    pub allocated: Capacity,
    /// When the oldest queued job was submitted, RFC 3339, UTC; empty if none is queued.
    pub oldest_wait: String,
}

/// Stored jobs by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct JobCounts {
    pub pending: u64,
    pub queued: u64,
    pub running: u64,
    pub completed: u64,
    pub failed: u64,
    pub stopped: u64,
}

/// Executions that have not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct LiveExecutions {
    /// Placed on a node; their process has not started.
    pub starting: u64,
    pub running: u64,
}

/// Compute nodes; one may be counted several times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct NodeCounts {
    pub total: u64,
    pub connected: u64,
    pub disconnected: u64,
    /// Those that wait for an operator's approval.
    pub pending: u64,
    pub rejected: u64,
    pub cordoned: u64,
    pub draining: u64,
    /// Connected ones whose `Health` is not `HEALTHY`.
    pub unhealthy: u64,
    /// Kept free for a job that has waited for too long.
    pub reserved: u64,
}

/// Response of Cluster Load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ClusterLoad {
    /// Seconds that each sample covers.
    pub step: u64,
    /// The oldest first; none for times in which the orchestrator did not run.
    pub samples: Vec<LoadSample>,
}

/// The load of the cluster during one step: means, and what happened in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct LoadSample {
    /// The beginning of the step, RFC 3339, UTC.
    pub time: String,
    pub capacity: Capacity,
    pub allocated: Capacity,
    /// Nodes that were connected.
    pub nodes: u64,
    /// Jobs that were queued.
    pub queued: u64,
    /// Executions that ran.
    pub running: u64,
    /// Jobs that completed.
    pub completed: u64,
    /// Jobs that failed.
    pub failed: u64,
}

/// One message of the stream of changes: what was changed since the one before.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ChangeNotice {
    /// The last event that was committed before it.
    pub through: u64,
    /// Jobs whose record or executions changed; at most 1,000.
    pub jobs: Vec<JobId>,
    /// More changed than is listed: any record may have.
    pub more: bool,
    /// Nodes whose record changed, apart from their heartbeat; at most 1,000.
    pub nodes: Vec<NodeId>,
    /// The counts of the cluster changed, or the reasons why jobs wait.
    pub cluster: bool,
}

impl ChangeNotice {
    /// The name of the event in the stream.
    pub const EVENT: &str = "changes";
}

impl LoadSample {
    /// One that began at this time, of an empty cluster.
    pub fn empty(time: Timestamp) -> Self {
        Self {
            time: time.rfc3339(),
            capacity: Capacity::default(),
            allocated: Capacity::default(),
            nodes: 0,
            queued: 0,
            running: 0,
            completed: 0,
            failed: 0,
        }
    }
}
