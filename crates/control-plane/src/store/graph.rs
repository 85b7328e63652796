//! Graphs as readers see them.

use std::collections::BTreeMap;

use api_types::dependency::{Condition, Indexes};
use api_types::job::JobStateType;
use api_types::{GraphId, JobId, Timestamp};

use super::query::Namespaces;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredGraph {
    pub id: GraphId,
    pub namespace: String,
    pub name: String,
    pub create_time: Timestamp,
    /// Those that are still stored, by name.
    pub jobs: Vec<StoredGraphJob>,
    pub edges: Vec<StoredEdge>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredGraphJob {
    /// Within the graph.
    pub name: String,
    pub job: JobId,
    pub state: JobStateType,
    pub message: String,
}

/// One job waits for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredEdge {
    /// It may be outside the graph.
    pub from: JobId,
    pub to: JobId,
    pub condition: Condition,
    pub indexes: Indexes,
}

#[derive(Debug, Clone)]
pub struct GraphQuery {
    pub namespaces: Namespaces,
    /// Any if `None`.
    pub name: Option<String>,
    /// The `number` of the last row of the previous page.
    pub after: Option<u64>,
    pub limit: u32,
}

/// What a list shows of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredGraphSummary {
    /// Increases with each graph.
    pub number: u64,
    pub id: GraphId,
    pub namespace: String,
    pub name: String,
    pub create_time: Timestamp,
    /// Its jobs, counted by state.
    pub jobs: BTreeMap<JobStateType, u32>,
}
