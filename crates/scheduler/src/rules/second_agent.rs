//! Two agents with the identity of one node: the later one is refused.

use alloc::format;

use api_types::NodeId;

use crate::state::State;
use crate::state::history::Transition;
use crate::turn::Turn;

/// The agent of the node's session is alive, so others with its identity are refused.
pub(crate) fn holder_is_alive(state: &mut State, turn: &mut Turn<'_>, id: NodeId) {
    let Some(node) = state.nodes.get_mut(&id) else { return };
    let machines = node.agents.is_alive(turn);
    let is_gone = node.agents.forget_gone(turn.now);
    let connection = node.row().history.standing.connection;
    for machine in &machines {
        let comment = format!(
            "a second agent on '{machine}' has the identity of this node, and is refused: both have \
             a copy of one data directory"
        );
        let transition =
            Transition { previous: connection, new: connection, comment: comment.into() };
        state.append(turn, id, transition);
    }
    if is_gone || !machines.is_empty() {
        state.store_node(turn, id);
    }
}
