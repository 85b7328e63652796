//! Containers that a node refuses, although it runs others.
//!
//! Either the container is wrong, or something of the node that only this container uses: one
//! damaged layer, directory or device. The slot is tried once more on another node, which tells the
//! two apart. If there is none, or if it refuses too, the task has failed. No refusal counts against
//! a node, and none charges the budget for failures unrelated to the task.
//!
//! All slots of a job have the same container. So until one starts, they are placed one at a time,
//! and only those that were tried: an array does not try every node with every slot.

use api_types::JobId;

use crate::change::ExecutionRow;
use crate::end::End;
use crate::rules::retry;
use crate::state::State;
use crate::turn::Turn;

// === Refusals ===

/// The node of this execution refused its container.
pub(crate) fn refused(state: &mut State, turn: &mut Turn<'_>, row: ExecutionRow) {
    hold_untried(state, row.job);
    let was_refused = row.tries.refused_by.is_some_and(|first| first != row.node);
    if was_refused || !fits_elsewhere(state, &row) {
        let mut row = row;
        row.tries.refused_by = None;
        retry::run_again(state, turn, row, End::Failed { timeout: false });
    } else {
        let mut tries = row.tries.clone();
        tries.refused_by = Some(row.node);
        tries.exclusions.exclude(row.node, turn.now);
        retry::try_again(state, turn, row, tries);
    }
}

/// Slots are placed one at a time, and none that was never tried.
fn hold_untried(state: &mut State, id: JobId) {
    let Some(job) = state.jobs.get_mut(&id) else { return };
    job.extras.to_mut().fetch.refused();
    let rank = job.plan.rank;
    if let Some(class) = job.class()
        && !job.has_ready_slot(class)
    {
        state.queue.stop_waiting(class, rank);
    }
}

/// Whether another node takes work that could run the slot, if not now.
fn fits_elsewhere(state: &State, row: &ExecutionRow) -> bool {
    let Some(job) = state.jobs.get(&row.job).filter(|job| !job.plan.is_per_node()) else {
        return false;
    };
    let Some(class) = job.class().map(|class| state.queue.class(class)) else { return false };
    let others = state.queue.nodes_of(class.pool).filter(|node| *node != row.node);
    let mut others = others.filter_map(|node| state.nodes.get(&node));
    others.any(|node| node.is_large_enough(&class.demand))
}
