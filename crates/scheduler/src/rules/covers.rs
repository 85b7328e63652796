//! Slots on every node that matches: of ops jobs when they are submitted, of daemons at any time.

use alloc::vec::Vec;

use api_types::{JobId, NodeId};

use crate::state::State;
use crate::state::node::LiveNode;
use crate::turn::Turn;

// === Covers ===

/// Gives a per-node job a slot on every node that matches and has none, also where a trouble
/// that may pass keeps the node from work.
pub(crate) fn cover_nodes(state: &mut State, turn: &mut Turn<'_>, id: JobId) {
    let Some(class) = state.jobs[&id].class() else { return };
    let class = state.queue.class(class);
    let pool = state.queue.pool(class.pool);
    let matches = |node: &&LiveNode| node.is_in_service() && pool.suits(&node.row().record);
    let nodes: Vec<_> = state.nodes.values().filter(matches).map(LiveNode::id).collect();
    // Create all slots before placing the first: each execution receives the total number.
    for node in &nodes {
        state.cover_node(turn, id, *node);
    }
    for node in nodes {
        state.marks.nodes.push(node);
    }
}

/// Gives matching daemons a slot on a node that joined or changed, where they have none. All of
/// them have one before the first is placed: on a node that is probed, that is the last for now.
pub(crate) fn cover_by_daemons(state: &mut State, turn: &mut Turn<'_>, node: NodeId) -> Vec<JobId> {
    let daemons = state.daemons.iter().copied();
    let matches = |id: &JobId| {
        let class = state.jobs[id].class().map(|class| state.queue.class(class));
        class.is_some_and(|class| state.nodes[&node].fits(state.queue.pool(class.pool)))
    };
    let covered: Vec<_> = daemons.filter(matches).collect();
    for id in &covered {
        state.cover_node(turn, *id, node);
    }
    covered
}

/// Gives the node the daemons that it lacks, and marks it for what it has room for.
pub(crate) fn take_up_work(state: &mut State, turn: &mut Turn<'_>, id: NodeId) {
    if state.nodes.get(&id).is_some_and(LiveNode::takes_work) {
        for job in cover_by_daemons(state, turn, id) {
            state.marks.jobs.push(job);
        }
        state.marks.nodes.push(id);
    }
}
