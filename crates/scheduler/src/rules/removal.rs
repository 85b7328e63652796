//! A node that is forgotten is removed once nothing is left on it.

use alloc::vec::Vec;

use api_types::NodeId;
use api_types::job::JobType;

use crate::rules::retry;
use crate::state::State;
use crate::timer::Timer;
use crate::turn::Turn;

/// Removes a node that is to be forgotten, once nothing is left on it.
pub(crate) fn remove_if_forgotten(state: &mut State, turn: &mut Turn<'_>, id: NodeId) {
    let Some(node) = state.nodes.get(&id) else { return };
    if !node.row().is_forgotten || !node.executions().is_empty() {
        return;
    }
    drop_pinned(state, turn, id);
    state.remove_node(turn, id);
}

/// Drops the slots that only this node could have run.
fn drop_pinned(state: &mut State, turn: &mut Turn<'_>, id: NodeId) {
    let Some(node) = state.nodes.get(&id) else { return };
    let ready = node.pinned().iter().map(|(rank, index)| (rank.job, *index));
    let slots: Vec<_> = ready.chain(node.delayed().iter().copied()).collect();
    for (job_id, index) in slots {
        let Some(job) = state.jobs.get(&job_id) else { continue };
        if job.extras.pending().get(index).is_none_or(|slot| slot.pinned != Some(id)) {
            continue;
        }
        match job.plan.job_type {
            JobType::Ops => {
                retry::abandon_ops(state, turn, job_id, index, "its node was forgotten")
            }
            JobType::Batch | JobType::Service | JobType::Daemon => {
                state.timers.cancel(Timer::Retry(job_id, index));
                state.uncover(turn, job_id, index, id);
            }
        }
    }
}
