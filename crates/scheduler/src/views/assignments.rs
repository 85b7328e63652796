//! The complete desired state of a node.

use alloc::vec::Vec;

use api_types::NodeId;
use api_types::execution::DesiredState;

use crate::change::AssignmentChange;
use crate::state::{State, execution};

/// The complete desired state of a node, sent when its stream opens.
pub(crate) fn assignments(state: &State, node: NodeId) -> Vec<AssignmentChange> {
    let Some(node) = state.nodes.get(&node) else { return Vec::new() };
    node.executions()
        .iter()
        .filter_map(|id| state.executions.get(id))
        .map(|row| {
            let count = state.jobs.get(&row.job).map_or(0, |job| job.told_count());
            let is_wanted = row.desired != DesiredState::Stopped;
            execution::assignment(row, is_wanted.then(|| execution::work_order(row, count)))
        })
        .collect()
}
