//! What an execution uses: CPU time, memory, disk; `docs/api.md`, "What an execution uses".

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::execution::Execution;
use crate::id::{ExecutionId, JobId, NodeId};
use crate::time::Timestamp;

/// Executions in one frame of an agent's answer to a [`UsageRequest`]; an agent splits longer ones.
pub const MAX_FRAME_EXECUTIONS: usize = 256;

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

/// More cores than any machine has.
const MOST_CORES: f64 = 1e6;

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
