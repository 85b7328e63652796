//! Work on a silent node is given up once the patience for it has ended.

use alloc::format;

use api_types::execution::DesiredState;
use api_types::{ExecutionId, NodeId};

use crate::end::{Cause, End};
use crate::rules::{ending, mass_silence, patience, removal, retry, stopping};
use crate::state::State;
use crate::text::Text;
use crate::timer::Timer;
use crate::turn::Turn;

/// Gives up executions whose patience has ended, and sets the timer for the next one.
pub(crate) fn give_up_due(state: &mut State, turn: &mut Turn<'_>, id: NodeId) {
    let Some(since) = state.nodes.get(&id).and_then(|node| node.row().silent_since) else {
        return;
    };
    // The first to be given up after a restart or a pause may be one of many.
    if mass_silence::are_leases_renewed(state, turn.now) {
        mass_silence::detect_mass_silence(state, turn.now);
    }
    let abandoned = state.nodes.get(&id).and_then(|node| node.abandoned.clone());
    let cause = if abandoned.is_some() { Cause::Removed } else { Cause::Lost };
    let why = abandoned.unwrap_or_else(|| {
        let silent = turn.now.since(since).as_secs();
        format!("its node was lost: no heartbeat for {silent} s").into()
    });
    let left = turn.budget.half();
    for execution in state.executions_on(id) {
        if turn.budget.is_down_to(left) {
            break;
        }
        if patience::execution_due(state, execution, since).is_some_and(|due| due <= turn.now) {
            give_up_execution(state, turn, execution, cause, &why);
        }
    }
    for (job, index) in patience::ops_slots_on(state, id) {
        if patience::slot_due(state, id, job, since).is_some_and(|due| due <= turn.now) {
            retry::abandon_ops(state, turn, job, index, &why);
        }
    }
    match turn.budget.is_down_to(left) {
        // The rest is due now; to find out what is due first would walk all of it.
        true => state.timers.set(turn.now, Timer::GiveUp(id)),
        false => patience::arm_give_up(state, id),
    }
    removal::remove_if_forgotten(state, turn, id);
}

fn give_up_execution(
    state: &mut State,
    turn: &mut Turn<'_>,
    id: ExecutionId,
    cause: Cause,
    why: &Text,
) {
    let row = &state.executions[&id];
    if row.desired == DesiredState::Stopped {
        return ending::end(state, turn, id, End::Cancelled, why.clone());
    }
    match state.why_over(row.job) {
        // Its own turn to be asked to stop has not come yet.
        Some(over) => stopping::stop_execution(state, turn, id, &over),
        None => ending::end(state, turn, id, End::Disturbed(cause), why.clone()),
    }
}

/// Ends all executions of a node that is not connected as lost, without further waiting.
pub(crate) fn abandon_node(state: &mut State, turn: &mut Turn<'_>, id: NodeId, why: Text) {
    if let Some(node) = state.nodes.get_mut(&id) {
        node.abandoned = Some(why);
    }
    give_up_due(state, turn, id);
}
