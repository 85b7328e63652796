//! How often a slot was tried, and where it failed.

use api_types::NodeId;

use crate::exclusion::Exclusions;

/// How often a slot has been tried.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tries {
    /// Runs that count against `RetryPolicy.Attempts`, including this one.
    pub attempt: u32,
    /// Failures since the last successful run for reasons unrelated to the task.
    pub infra_failures: u32,
    /// Consecutive failed runs that were short; they lengthen the retry delay.
    pub short_runs: u32,
    /// Nodes on which the slot failed for reasons unrelated to the task.
    pub exclusions: Exclusions,
    /// The node that refused the slot's container, until another one starts or refuses it.
    pub refused_by: Option<NodeId>,
}
