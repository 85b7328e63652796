//! Nodes that are kept free for work that has waited for too long, as records.

use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use api_types::quantity::Resources;
use api_types::{NodeId, Timestamp};

use crate::rank::{Rank, Waiter};
use crate::time::Moment;

/// What an execution may take beyond its `ExecutionTimeout`: its image, the grace period of its
/// stop, publishing.
pub(crate) const OVERHEAD: Duration = Duration::from_secs(70);

/// For whom a node is kept free.
#[derive(Debug, Clone)]
pub(crate) struct Reservation {
    pub(crate) waiter: Waiter,
    pub(crate) rank: Rank,
    pub(crate) need: Resources,
    /// Wall time, for people.
    pub(crate) since: Timestamp,
    pub(crate) room: Forecast,
}

/// What is reserved.
#[derive(Debug, Default)]
pub(crate) struct Reservations {
    /// The node that is reserved for each queue.
    pub(crate) nodes: BTreeMap<Waiter, NodeId>,
    /// The same by rank: a higher rank may take the place of the lowest.
    pub(crate) ranks: BTreeSet<(Rank, Waiter)>,
}

/// What the timeouts of the executions on a node say about its future.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Forecast {
    /// When there is room for the reserved work; none where nothing says so.
    pub(crate) at: Option<Moment>,
    /// What is left next to the reserved work: others may take it now.
    pub(crate) spare: Resources,
}

// === impl Reservation ===

impl Reservation {
    /// Whether other work is kept off the node.
    pub(crate) fn keeps_off(
        &self,
        rank: Rank,
        need: &Resources,
        longest_run: Option<Duration>,
        now: Moment,
    ) -> bool {
        if rank <= self.rank || need.fits_in(&self.room.spare) {
            return false;
        }
        let ends = longest_run.map(|longest| now + longest + OVERHEAD);
        !matches!((ends, self.room.at), (Some(ends), Some(at)) if ends <= at)
    }
}

// === impl Reservations ===

impl Reservations {
    pub(crate) fn count(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn node_of(&self, waiter: Waiter) -> Option<NodeId> {
        self.nodes.get(&waiter).copied()
    }

    pub(crate) fn insert(&mut self, waiter: Waiter, rank: Rank, node: NodeId) {
        self.nodes.insert(waiter, node);
        self.ranks.insert((rank, waiter));
    }

    pub(crate) fn remove(&mut self, waiter: Waiter, rank: Rank) {
        self.nodes.remove(&waiter);
        self.ranks.remove(&(rank, waiter));
    }
}
