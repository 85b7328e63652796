//! What an execution uses: CPU time, memory, disk; `docs/api.md`, "What an execution uses".

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::curve::{MOST_CORES, NodeCurve, UsageCurve};
use crate::execution::Execution;
use crate::id::{ExecutionId, JobId, NodeId};
use crate::quantity::Capacity;
use crate::time::Timestamp;

/// Executions in one frame of an agent's answer to a [`UsageRequest`]; an agent splits longer ones.
pub const MAX_FRAME_EXECUTIONS: usize = 256;

/// The same with curves, each of which is some three kilobytes long.
pub const MAX_FRAME_CURVES: usize = 32;

/// What a task uses now, or what it used until its process ended.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Usage {
    /// CPU time of all its processes since the start, in seconds of one core.
    #[serde(rename = "CPUSeconds")]
    pub cpu_seconds: f64,
    /// Cores in use, over the time between the last two measurements; 0 once it has ended.
    #[serde(rename = "CPU")]
    pub cpu: f64,
    /// Bytes of memory in use; 0 once it has ended.
    #[serde(rename = "Memory")]
    pub memory: u64,
    /// Most bytes of memory in use at any time.
    #[serde(rename = "MemoryPeak")]
    pub memory_peak: u64,
    /// Bytes on disk that it has written, where the engine has measured them.
    #[serde(rename = "Disk", skip_serializing_if = "Option::is_none")]
    pub disk: Option<u64>,
    /// When its node measured this.
    #[serde(rename = "MeasureTime")]
    pub measure_time: Timestamp,
}

/// A line of the assignments stream that requests what every execution on the node uses; the agent
/// sends it to `POST …/nodes/:nodeID/streams/:streamID`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct UsageRequest {
    #[serde(rename = "StreamID")]
    pub stream_id: Uuid,
    /// Only the executions of this job, with their curves.
    #[serde(rename = "JobID", default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<JobId>,
    /// Instead of executions, the curves of the node.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub node: bool,
}

/// What one execution uses, as its node says. Job and namespace are those of its assignment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ExecutionUsage {
    #[serde(rename = "ExecutionID")]
    pub execution_id: ExecutionId,
    #[serde(rename = "JobID")]
    pub job_id: JobId,
    #[serde(rename = "Namespace")]
    pub namespace: String,
    #[serde(rename = "Usage")]
    pub usage: Usage,
    /// Since its process started; only where the request names its job.
    #[serde(rename = "Curve", default, skip_serializing_if = "Option::is_none")]
    pub curve: Option<UsageCurve>,
}

/// Response of List Usage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ListUsage {
    /// Those that use most, each with its `Usage`.
    pub executions: Vec<Execution>,
    /// How many running executions were measured for this, the ones above included.
    pub measured: u64,
    /// Nodes that should have answered and did not: what runs there is missing above.
    #[serde(rename = "UnansweredNodeIDs")]
    pub unanswered_node_ids: Vec<NodeId>,
}

/// Response of Execution Usage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct DescribeExecutionUsage {
    #[serde(rename = "ExecutionID")]
    pub execution_id: ExecutionId,
    #[serde(rename = "NodeID")]
    pub node_id: NodeId,
    /// Whether its process runs.
    pub running: bool,
    /// Whether its node answered; true once the process has ended, because the record has the rest.
    pub answered: bool,
    /// What it may use.
    pub allocated: Capacity,
    /// Null if nothing measured it.
    pub usage: Option<Usage>,
    /// Null if it ran for less than a second, or nothing measured it.
    pub curve: Option<UsageCurve>,
}

/// Response of Job Usage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct DescribeJobUsage {
    #[serde(rename = "JobID")]
    pub job_id: JobId,
    /// What the executions below used together; null if there is none.
    pub curve: Option<UsageCurve>,
    /// What those that run may use together.
    pub allocated: Capacity,
    /// Executions in the curve.
    pub measured: u64,
    /// Nodes with running executions of the job, of which at most 64 are asked.
    pub nodes: u64,
    /// Of these, those that answered.
    pub answered: u64,
    /// There are more executions than were read: 1,000 that run, and 1,000 that ended, by index.
    pub more: bool,
    /// With `executions=true`, the curves of the first 100, by index, in 24 points at most.
    pub executions: Vec<ExecutionCurve>,
}

/// The curve of one execution of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ExecutionCurve {
    #[serde(rename = "ExecutionID")]
    pub execution_id: ExecutionId,
    pub index: u32,
    pub curve: UsageCurve,
}

/// Response of Node Usage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct DescribeNodeUsage {
    #[serde(rename = "NodeID")]
    pub node_id: NodeId,
    /// Whether the node answered; it keeps the curves.
    pub answered: bool,
    pub capacity: Capacity,
    /// The last hour in steps of ten seconds; null without an answer.
    pub hour: Option<NodeCurve>,
    /// The last day in steps of two minutes; null without an answer.
    pub day: Option<NodeCurve>,
}

/// More CPU time than any task can use, in seconds.
const MOST_CPU_SECONDS: f64 = 1e12;

// === impl Usage ===

impl Usage {
    /// The same, with numbers that a node cannot have measured brought into their range.
    pub fn bounded(self) -> Self {
        let within =
            |number: f64, most: f64| if number.is_nan() { 0.0 } else { number.clamp(0.0, most) };
        Self {
            cpu_seconds: within(self.cpu_seconds, MOST_CPU_SECONDS),
            cpu: within(self.cpu, MOST_CORES),
            memory_peak: self.memory_peak.max(self.memory),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_nobody_measured_are_brought_into_range() {
        let lie = Usage { cpu_seconds: -1.0, cpu: f64::INFINITY, memory: 9, ..Usage::default() };
        let expected = Usage { cpu: MOST_CORES, memory: 9, memory_peak: 9, ..Usage::default() };
        assert_eq!(lie.bounded(), expected);
        assert_eq!(Usage { cpu: f64::NAN, ..lie }.bounded().cpu, 0.0);
    }

    #[test]
    fn a_record_of_another_release_is_read() {
        let read: Usage = serde_json::from_str(r#"{"CPUSeconds":1.5,"More":1}"#).unwrap();
        assert_eq!(read, Usage { cpu_seconds: 1.5, ..Usage::default() });
        let json = r#"{"CPUSeconds":1.5,"CPU":0.0,"Memory":0,"MemoryPeak":0,"MeasureTime":0}"#;
        assert_eq!(serde_json::to_string(&read).unwrap(), json);
    }
}
