//! Which nodes are suitable for which pools, as nodes come, change and go.

use core::ops::Bound;

use api_types::NodeId;
use api_types::protocol::SessionRequest;

use crate::queue::nodes::{Load, NodeBit};
use crate::queue::{Pool, Queue, nodes};
use crate::rank::PoolId;

/// Pools that a node is compared with in one step, where one with many constraints counts for
/// several: a millisecond or two. The rest has its turn later.
const CHECKS: usize = 4096;

/// Conditions that take as long as the rest of a comparison.
const CONDITIONS_PER_CHECK: usize = 8;

// === impl Queue: nodes ===

impl Queue {
    /// Gives a node a bit.
    pub(crate) fn assign_bit(&mut self, id: NodeId) -> NodeBit {
        self.nodes.enter(id)
    }

    /// Lists the node under this load, or not at all while it takes no work.
    pub(crate) fn list(&mut self, bit: NodeBit, load: Option<Load>) {
        self.nodes.list(bit, load);
    }

    /// Compares a node with this record with the pools after this one; returns the last one if others
    /// are left, because that takes long.
    #[must_use]
    pub(crate) fn compare(
        &mut self,
        bit: NodeBit,
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
            pool.members.set(bit, nodes::suits(&pool.fit, record));
            last = Some(*id);
        }
        None
    }

    /// The node is no more, or has another bit from now on. Where there are too many pools to visit,
    /// the bit is not used again before there are fewer.
    pub(crate) fn release_bit(&mut self, bit: NodeBit) {
        self.nodes.leave(bit);
        if self.pools.len() <= CHECKS {
            for bit in self.nodes.take_left() {
                for pool in self.pools.values_mut() {
                    pool.members.set(bit, false);
                }
            }
        }
    }

    /// Follows a change of a node's load.
    pub(crate) fn reload(&mut self, bit: NodeBit, load: Load) {
        if self.nodes.load(bit).is_some() {
            self.nodes.list(bit, Some(load));
        }
    }

    /// The nodes of a pool that take work, emptier ones first.
    pub(crate) fn nodes_of(&self, id: PoolId) -> impl Iterator<Item = NodeId> {
        self.nodes.emptiest_first(&self.pool(id).members)
    }

    /// The load under which the node waits for work.
    pub(crate) fn load_of(&self, bit: NodeBit) -> Option<Load> {
        self.nodes.load(bit)
    }

    /// How many nodes have a bit.
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
