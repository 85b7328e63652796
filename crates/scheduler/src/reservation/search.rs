//! Which node to reserve: the one that will have enough capacity first, as far as timeouts predict.

use alloc::vec::Vec;
use core::time::Duration;

use api_types::NodeId;
use api_types::execution::DesiredState;
use api_types::quantity::Resources;

use super::{MAX_INSPECTED, Waiter};
use crate::Scheduler;
use crate::node::LiveNode;
use crate::pool::{ClassId, Rank};
use crate::time::Moment;

/// What an execution may take beyond its `ExecutionTimeout`: its image, the grace period of its
/// stop, publishing.
pub(super) const OVERHEAD: Duration = Duration::from_secs(70);

/// What the timeouts of the executions on a node say about its future.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Forecast {
    /// When there is room for the reserved work; none where nothing says so.
    pub(super) at: Option<Moment>,
    /// What is left then beside the reserved work: others may take it now.
    pub(super) spare: Resources,
}

/// What a search for a node came to.
pub(super) struct Search {
    pub(super) found: Option<NodeId>,
    pub(super) inspected: usize,
}

// === impl Scheduler: which node ===

impl Scheduler {
    /// The node that has room first, as far as timeouts tell; one that is reserved for a lower rank
    /// only where there is no other.
    pub(super) fn find_reservable(
        &self,
        now: Moment,
        waiter: Waiter,
        rank: Rank,
        avoided: Option<NodeId>,
    ) -> Search {
        let mut search = Search { found: None, inspected: 1 };
        let Some(class) = self.class_of(waiter, rank) else { return search };
        let class = self.queue.class(class);
        let (all, only) = match waiter {
            Waiter::Class(_) => (Some(self.queue.nodes_of(class.pool)), None),
            Waiter::Pinned(only) => (None, self.nodes.get(&only)),
        };
        let only = only.filter(|only| self.queue.pool(class.pool).fits(only)).map(LiveNode::id);
        let mut best = None;
        for id in all.into_iter().flatten().chain(only) {
            let node = &self.nodes[&id];
            search.inspected += 1;
            let admitted = match waiter {
                Waiter::Class(_) => class.admits(id) && avoided != Some(id),
                Waiter::Pinned(_) => true,
            };
            let held = node.reservation.as_ref().map(|held| held.rank);
            let is_free = held.is_none_or(|lower| rank < lower);
            let need = class.demand.need.on(&node.defaults);
            if !admitted || !is_free || !node.can_be_emptied_for(&need) {
                continue;
            }
            search.inspected += node.executions.len();
            let room = self.foresee(node, &need, now).at;
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
    pub(super) fn class_of(&self, waiter: Waiter, rank: Rank) -> Option<ClassId> {
        match waiter {
            Waiter::Class(id) => self.queue.find_class(id).map(|_| id),
            Waiter::Pinned(_) => self.jobs.get(&rank.job)?.class,
        }
    }

    /// When the executions on the node that end by themselves leave room for `need`.
    pub(super) fn foresee(&self, node: &LiveNode, need: &Resources, now: Moment) -> Forecast {
        let mut ends: Vec<_> = node
            .executions
            .iter()
            .filter_map(|id| self.executions.get(id))
            .filter_map(|row| {
                let plan = &self.jobs.get(&row.job)?.plan;
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
}

// === impl LiveNode ===

impl LiveNode {
    /// Whether it would have room once everything has ended that ends by itself.
    pub(super) fn can_be_emptied_for(&self, need: &Resources) -> bool {
        need.fits_in(&self.max_job) && need.fits_in(&self.capacity.minus(&self.unending))
    }
}
