//! What operators do with nodes.

use alloc::string::String;
use alloc::sync::Arc;

use api_types::NodeId;
use api_types::node::{
    Connection, Eligibility, GivenLabels, Membership, NodeAction, set_given_labels,
};

use crate::change::Effect;
use crate::input::{Answer, Refusal};
use crate::rules::giving_up;
use crate::state::State;
use crate::text;
use crate::text::Text;
use crate::timer::Timer;
use crate::turn::Turn;

/// Why an operator's action ends the work of a node.
pub(crate) const FORGOTTEN: Text = Text::Constant("its node was forgotten by an operator");

pub(crate) const REJECTED: &str = "its node was rejected by an operator";

// === Operators ===

/// What runs there stays, whatever its constraints.
pub(crate) fn label_node(
    state: &mut State,
    turn: &mut Turn<'_>,
    id: NodeId,
    given: &GivenLabels,
) -> Answer {
    let Some(node) = state.nodes.get_mut(&id) else {
        return Answer::Refused(Refusal::NoSuchNode(id));
    };
    let mut record = (*node.row().record).clone();
    set_given_labels(&mut record.labels, given);
    node.replace_record(Arc::new(record));
    state.node_changed(turn, id);
    Answer::Done
}

pub(crate) fn node_action(
    state: &mut State,
    turn: &mut Turn<'_>,
    id: NodeId,
    action: NodeAction,
    message: String,
) -> Answer {
    let Some(node) = state.nodes.get_mut(&id) else {
        return Answer::Refused(Refusal::NoSuchNode(id));
    };
    let row = node.edit();
    row.message.clone_from(&message);
    match action {
        NodeAction::Approve | NodeAction::Reject => {}
        NodeAction::Cordon | NodeAction::Uncordon | NodeAction::Drain => {
            row.drain_deadline = None;
            state.timers.cancel(Timer::DrainDeadline(id));
        }
    }
    match action {
        NodeAction::Approve => row.membership = Membership::Approved,
        NodeAction::Reject => row.membership = Membership::Rejected,
        NodeAction::Cordon => row.eligibility = Eligibility::Cordoned,
        NodeAction::Uncordon => row.eligibility = Eligibility::Eligible,
        NodeAction::Drain => {
            row.eligibility = Eligibility::Draining;
            row.drain_deadline = Some(turn.now + state.settings.drain_deadline);
        }
    }
    let deadline = row.drain_deadline;
    state.node_changed(turn, id);
    match action {
        NodeAction::Approve | NodeAction::Cordon | NodeAction::Uncordon => {}
        NodeAction::Reject => {
            reject(state, turn, id, text::with_reason(REJECTED, &message).into());
        }
        NodeAction::Drain => {
            if let Some(deadline) = deadline {
                state.timers.set(deadline, Timer::DrainDeadline(id));
            }
            state.marks.drains.push(id);
        }
    }
    Answer::Done
}

/// Gives up the node's work without waiting for it, whether or not the node is silent.
fn reject(state: &mut State, turn: &mut Turn<'_>, id: NodeId, why: Text) {
    let Some(node) = state.nodes.get(&id) else { return };
    if node.row().connection == Connection::Connected {
        state.disconnect(id, turn.now);
        state.timers.cancel(Timer::Lease(id));
    }
    turn.out.effects.push(Effect::CloseStream { node: id });
    state.node_changed(turn, id);
    giving_up::abandon_node(state, turn, id, why);
}

pub(crate) fn forget_node(state: &mut State, turn: &mut Turn<'_>, id: NodeId, now: bool) -> Answer {
    let Some(node) = state.nodes.get(&id) else {
        return Answer::Refused(Refusal::NoSuchNode(id));
    };
    if node.row().connection == Connection::Connected {
        return Answer::Refused(Refusal::NodeConnected(id));
    }
    let executions = node.executions().len();
    if executions > 0 && !now {
        return Answer::Refused(Refusal::NodeBusy { node: id, executions });
    }
    state.note_to_forget(turn, id);
    giving_up::abandon_node(state, turn, id, FORGOTTEN);
    Answer::Done
}

pub(crate) fn retention_timer_fired(state: &mut State, turn: &mut Turn<'_>, id: NodeId) {
    let Some(node) = state.nodes.get(&id) else { return };
    if node.row().connection == Connection::Connected {
        return;
    }
    if let Answer::Refused(_) = forget_node(state, turn, id, false) {
        // The node may still be running work: retry after another retention period.
        state.timers.set(turn.now + state.settings.node_retention, Timer::Retention(id));
    }
}
