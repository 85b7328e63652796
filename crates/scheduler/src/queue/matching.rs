//! Which nodes are suitable for which pools, as nodes come, change and go.

use core::ops::Bound;

use api_types::NodeId;
use api_types::protocol::SessionRequest;

use crate::queue::nodes::{Load, Place};
use crate::queue::{Pool, Queue, nodes};
use crate::rank::PoolId;

/// Pools that a node is compared with in one step, where one with many constraints counts for
/// several: a millisecond or two. The rest has its turn later.
const CHECKS: usize = 4096;

/// Conditions that take as long as the rest of a comparison.
const CONDITIONS_PER_CHECK: usize = 8;

// === impl Queue: nodes ===

impl Queue {
    /// Gives a node a place.
    pub(crate) fn enter_place(&mut self, id: NodeId) -> Place {
        self.nodes.enter(id)
    }

    /// Lists the node under this load, or not at all while it takes no work.
    pub(crate) fn list(&mut self, place: Place, load: Option<Load>) {
        self.nodes.list(place, load);
    }

    /// Compares a node with this record with the pools after this one; returns the last one if others
    /// are left, because that takes long.
    #[must_use]
    pub(crate) fn compare(
        &mut self,
        place: Place,
        record: &SessionRequest,
        after: Option<PoolId>,
    ) -> Option<PoolId> {
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
            pool.members.set(place, nodes::suits(&pool.fit, record));
            last = Some(*id);
        }
        None
    }

    /// The node is no more, or has another place from now on. Where there are too many pools to visit,
    /// the place is not used again before there are fewer.
    pub(crate) fn leave_place(&mut self, place: Place) {
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
    pub(crate) fn reload(&mut self, place: Place, load: Load) {
        if self.nodes.load(place).is_some() {
            self.nodes.list(place, Some(load));
        }
    }

    /// The nodes of a pool that take work, emptier ones first.
    pub(crate) fn nodes_of(&self, id: PoolId) -> impl Iterator<Item = NodeId> {
        self.nodes.emptiest_first(&self.pool(id).members)
    }

    /// The load under which the node waits for work.
    pub(crate) fn load_of(&self, place: Place) -> Option<Load> {
        self.nodes.load(place)
    }

    /// How many nodes have a place.
    pub(crate) fn nodes(&self) -> usize {
        self.nodes.count()
    }
}

// === impl Pool ===

impl Pool {
    /// Whether a node with this record is suitable for it.
    pub(crate) fn suits(&self, record: &SessionRequest) -> bool {
        nodes::suits(&self.fit, record)
    }
}
