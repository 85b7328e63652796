//! Which node to reserve: the one that will have enough capacity first, as far as timeouts predict.

use alloc::vec::Vec;

use api_types::NodeId;
use api_types::execution::DesiredState;
use api_types::quantity::Resources;

use crate::rank::{ClassId, Rank, Waiter};
use crate::reservation::{Forecast, OVERHEAD};
use crate::settle::reservation::MAX_INSPECTED;
use crate::state::State;
use crate::state::node::LiveNode;
use crate::time::Moment;

/// What a search for a node came to.
pub(crate) struct Search {
    pub(crate) found: Option<NodeId>,
    pub(crate) inspected: usize,
}

// === Which node ===

/// The node that has room first, as far as timeouts tell; one that is reserved for a lower rank
/// only where there is no other.
pub(crate) fn find_reservable(
    state: &State,
    now: Moment,
    waiter: Waiter,
    rank: Rank,
    avoided: Option<NodeId>,
) -> Search {
    let mut search = Search { found: None, inspected: 1 };
    let Some(class) = class_of(state, waiter, rank) else { return search };
    let class = state.queue.class(class);
    let (all, only) = match waiter {
        Waiter::Class(_) => (Some(state.queue.nodes_of(class.pool)), None),
        Waiter::Pinned(only) => (None, state.nodes.get(&only)),
    };
    let only = only.filter(|only| only.fits(state.queue.pool(class.pool))).map(LiveNode::id);
    let mut best = None;
    for id in all.into_iter().flatten().chain(only) {
        let node = &state.nodes[&id];
        search.inspected += 1;
        let admitted = match waiter {
            Waiter::Class(_) => class.admits(id) && avoided != Some(id),
            Waiter::Pinned(_) => true,
        };
        let held = node.reservation().map(|held| held.rank);
        let is_free = held.is_none_or(|lower| rank < lower);
        let need = class.demand.need.on(node.defaults());
        if !admitted || !is_free || !node.can_be_emptied_for(&need) {
            continue;
        }
        search.inspected += node.executions().len();
        let room = foresee(state, node, &need, now).at;
        let order = (held.is_some(), room.is_none(), room);
        if best.is_none_or(|best| order < best) {
            (search.found, best) = (Some(id), Some(order));
        }
        if search.inspected > MAX_INSPECTED {
            break;
        }
    }
    search
}

/// The class whose demand the head of the queue has.
pub(crate) fn class_of(state: &State, waiter: Waiter, rank: Rank) -> Option<ClassId> {
    match waiter {
        Waiter::Class(id) => state.queue.find_class(id).map(|_| id),
        Waiter::Pinned(_) => state.jobs.get(&rank.job)?.class(),
    }
}

/// When the executions on the node that end by themselves leave room for `need`.
pub(crate) fn foresee(state: &State, node: &LiveNode, need: &Resources, now: Moment) -> Forecast {
    let mut ends: Vec<_> = node
        .executions()
        .iter()
        .filter_map(|id| state.executions.get(id))
        .filter_map(|row| {
            let plan = &state.jobs.get(&row.job)?.plan;
            let stops = row.desired == DesiredState::Stopped;
            if !plan.job_type.is_finite() && !stops {
                return None;
            }
            let from = row.started_at.unwrap_or(now);
            let end = match (stops, plan.longest_run()) {
                (true, _) => Some(now + OVERHEAD),
                (false, longest) => longest.map(|longest| from + longest + OVERHEAD),
            };
            Some((end.is_none(), end, row.offered_at, row.id, row.held()))
        })
        .collect();
    ends.sort_unstable_by_key(|(unknown, end, offered, id, _)| (*unknown, *end, *offered, *id));
    let mut free = node.free();
    let mut at = Some(now);
    for (_, end, _, _, resources) in ends {
        if need.fits_in(&free) {
            break;
        }
        free = free.plus(&resources);
        at = end;
    }
    Forecast { at, spare: free.minus(need) }
}
