//! Graphs: jobs that are submitted together and depend on each other.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::dependency::{Condition, Indexes};
use crate::id::{GraphId, JobId};
use crate::job::JobStateType;
use crate::submission::JobSubmission;
use crate::time::Timestamp;

/// The most jobs of a graph: one turn records them all.
pub const MAX_JOBS: usize = 1000;

/// The most dependencies of all jobs of a graph together.
pub const MAX_EDGES: usize = 5000;

/// The body of Create Graph.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase", default)]
pub struct CreateGraphRequest {
    /// One line; `graph` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// By their names within the graph, all in one namespace. In `DependsOn`, `Job` names another one.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub jobs: BTreeMap<String, JobSubmission>,
}

/// The response to Create Graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct CreateGraph {
    #[serde(rename = "GraphID")]
    pub graph_id: GraphId,
    pub jobs: BTreeMap<String, JobId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A graph with its jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct Graph {
    #[serde(rename = "ID")]
    pub id: GraphId,
    pub name: String,
    pub namespace: String,
    pub create_time: Timestamp,
    /// `Running` while any of its jobs goes on, otherwise the worst of their states: `Failed`, then
    /// `Stopped`, then `Completed`.
    pub state: JobStateType,
    /// Those that are still stored, by name.
    pub jobs: Vec<GraphJob>,
    pub edges: Vec<GraphEdge>,
}

/// A job of a graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct GraphJob {
    /// Within the graph.
    pub name: String,
    #[serde(rename = "JobID")]
    pub job_id: JobId,
    pub state: JobStateType,
    pub message: String,
}

/// A dependency of a job of a graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct GraphEdge {
    /// The job that is waited for; it may be outside the graph.
    pub from: JobId,
    /// The job that waits.
    pub to: JobId,
    pub condition: Condition,
    #[serde(default)]
    pub indexes: Indexes,
}

/// The response to Describe Graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct DescribeGraph {
    pub graph: Graph,
}

/// A row of a list of graphs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct GraphSummary {
    #[serde(rename = "ID")]
    pub id: GraphId,
    pub name: String,
    pub namespace: String,
    pub create_time: Timestamp,
    pub state: JobStateType,
    /// How many of its jobs are in each state.
    pub jobs: BTreeMap<String, u32>,
}

/// A page of graphs, the newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ListGraphs {
    pub graphs: Vec<GraphSummary>,
    /// Empty on the last page.
    pub next_token: String,
}

/// The response to Stop Graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct StopGraph {
    /// Jobs that had not ended.
    pub stopped: u32,
}

/// The state of a graph with jobs in these states.
pub fn state_of(states: impl IntoIterator<Item = JobStateType>) -> JobStateType {
    let rank = |state: &JobStateType| match state {
        JobStateType::Completed => 0,
        JobStateType::Stopped => 1,
        JobStateType::Failed => 2,
        JobStateType::Pending | JobStateType::Queued | JobStateType::Running => 3,
    };
    let worst = states.into_iter().max_by_key(rank).unwrap_or(JobStateType::Completed);
    if worst.is_terminal() { worst } else { JobStateType::Running }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_graph_runs_while_any_job_does_and_ends_with_the_worst_state() {
        use JobStateType::{Completed, Failed, Queued, Running, Stopped};
        assert_eq!(state_of([Failed, Queued]), Running);
        assert_eq!(state_of([Completed, Failed, Stopped]), Failed);
        assert_eq!(state_of([Completed, Stopped]), Stopped);
        assert_eq!(state_of([Completed]), Completed);
    }
}
