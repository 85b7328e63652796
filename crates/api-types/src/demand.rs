//! What waits for room in the cluster, for programs that add and remove nodes.

use serde::{Deserialize, Serialize};

use crate::constraint::Constraint;
use crate::engine::{EngineType, PublisherType};
use crate::source::SourceType;

/// Response of Cluster Demand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ClusterDemand {
    /// When it was counted, RFC 3339, UTC.
    pub time: String,
    /// In the order in which the service considers them: by priority, then age.
    pub classes: Vec<DemandClass>,
    /// More classes wait than are listed.
    pub more: bool,
}

/// Executions of one namespace that wait for the same kind of node and the same amounts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct DemandClass {
    pub namespace: String,
    /// The engine, publisher and input sources that a node has to offer.
    pub engine: EngineType,
    pub publisher: PublisherType,
    pub storage_sources: Vec<SourceType>,
    /// What the labels of a node have to meet, those that the namespace demands included; empty for
    /// callers who see neither the specifications nor all nodes.
    pub constraints: Vec<Constraint>,
    /// What one execution reserves.
    pub resources: DemandedResources,
    /// The highest of the jobs.
    pub priority: u32,
    /// Jobs with at least one execution that waits.
    pub jobs: u64,
    /// Executions that wait for room; not those that wait for the end of a delay, nor those of ops
    /// and daemon jobs, which wait for certain nodes.
    pub slots: u64,
    /// Whether more executions wait than were counted: at most 10,000 jobs of a response are counted
    /// in full, and each of the others as one.
    pub slots_is_more: bool,
    /// When the first of them began to wait, RFC 3339, UTC.
    pub since: String,
    /// Why the first of them is not placed, as the state of its job says; empty until it is known.
    pub message: String,
    /// Nodes that are connected and could run one while they are empty.
    pub capable_nodes: u64,
    /// Of these, the nodes that take work now: all that they lack is room.
    pub open_nodes: u64,
}

/// Cores, bytes, bytes and a count.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DemandedResources {
    /// Missing if the job leaves it to the node, which then reserves its own default.
    #[serde(rename = "CPU", default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
    /// Missing likewise.
    #[serde(rename = "Memory", default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    #[serde(rename = "Disk")]
    pub disk: u64,
    #[serde(rename = "GPU")]
    pub gpu: u64,
}
