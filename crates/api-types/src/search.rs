//! What a search finds.

use serde::{Deserialize, Serialize};

use crate::node::Node;
use crate::summary::JobSummary;

/// Response of Search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct SearchResults {
    /// Live jobs first, the newest of each first.
    pub jobs: Vec<JobSummary>,
    /// In order of their names.
    pub nodes: Vec<Node>,
    /// Whether more of the searched jobs match.
    pub more_jobs: bool,
    /// Whether more nodes match.
    pub more_nodes: bool,
    /// Whether there are jobs that were not searched; `name_prefix` of List Jobs finds those too.
    pub older_jobs: bool,
}
