//! Which nodes are suitable for which pools, as nodes come, change and go.

use core::ops::Bound;

use api_types::NodeId;

use super::{Place, Pool, PoolId, Queue};
use crate::demand::Fit;
use crate::node::{LiveNode, Load};

/// Pools that a node is compared with at once, where one with many constraints counts for several:
/// a millisecond or two. The rest has its turn later.
const CHECKS: usize = 4096;

/// Conditions that take as long as the rest of a comparison.
const CONDITIONS_PER_CHECK: usize = 8;

// === impl Queue: nodes ===

impl Queue {
    /// Follows a node that joined, or whose properties, load or willingness to take work changed.
    /// Returns where the comparison with the pools continues, if that takes long.
    #[must_use]
    pub(crate) fn follow(&mut self, node: &mut LiveNode) -> Option<PoolId> {
        let was_compared = core::mem::replace(&mut node.is_compared, true);
        if !was_compared && let Some(former) = node.place.take() {
            self.leave_place(former);
        }
        let place = *node.place.get_or_insert_with(|| self.nodes.enter(node.row.id));
        self.nodes.list(place, node.takes_work().then(|| node.present_load()));
        if was_compared { None } else { self.compare(node, None) }
    }

    /// Continues to compare the node with pools; returns the last one if others are left.
    #[must_use]
    pub(crate) fn compare(&mut self, node: &LiveNode, after: Option<PoolId>) -> Option<PoolId> {
        let place = node.place?;
        let mut left = CHECKS;
        let mut last = after;
        for (id, pool) in self
            .pools
            .range_mut((after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded))
        {
            if left == 0 {
                return last;
            }
            left = left.saturating_sub(1 + pool.fit.conditions() / CONDITIONS_PER_CHECK);
            pool.members.set(place, suits(&pool.fit, node));
            last = Some(*id);
        }
        None
    }

    /// The node is no more.
    pub(crate) fn forget(&mut self, node: &LiveNode) {
        if let Some(place) = node.place {
            self.leave_place(place);
        }
    }

    /// Where there are too many pools to visit, the place is not used again before there are fewer.
    fn leave_place(&mut self, place: Place) {
        self.nodes.leave(place);
        if self.pools.len() <= CHECKS {
            for place in self.nodes.take_left() {
                for pool in self.pools.values_mut() {
                    pool.members.set(place, false);
                }
            }
        }
    }

    /// Follows a change of a node's load.
    pub(crate) fn reload(&mut self, node: &LiveNode) {
        if let Some(place) = node.place
            && self.nodes.load(place).is_some()
        {
            self.nodes.list(place, Some(node.present_load()));
        }
    }

    /// The nodes of a pool that take work, emptier ones first.
    pub(crate) fn nodes_of(&self, id: PoolId) -> impl Iterator<Item = NodeId> {
        self.nodes.of(&self.pool(id).members)
    }

    /// The load under which the node waits for work.
    pub(crate) fn load_of(&self, node: &LiveNode) -> Option<Load> {
        self.nodes.load(node.place?)
    }

    /// How many nodes have a place.
    pub(crate) fn nodes(&self) -> usize {
        self.nodes.count()
    }
}

// === impl Pool ===

impl Pool {
    /// Whether the node takes work and is suitable for it.
    pub(crate) fn fits(&self, node: &LiveNode) -> bool {
        node.takes_work() && self.suits(node)
    }

    pub(crate) fn suits(&self, node: &LiveNode) -> bool {
        suits(&self.fit, node)
    }
}

pub(super) fn suits(fit: &Fit, node: &LiveNode) -> bool {
    let record = &node.row.record;
    let info = &record.compute_node_info;
    let (engines, publishers) = (&info.execution_engines, &info.publishers);
    fit.unmet(&record.labels, engines, publishers, &info.storage_sources).is_none()
}
