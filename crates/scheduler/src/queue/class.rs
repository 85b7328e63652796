//! A class of waiting jobs: those of one namespace that ask for the same.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;

use api_types::NodeId;

use crate::demand::{Demand, Want};
use crate::queue::group::GroupId;
use crate::rank::{PoolId, Rank};

pub(crate) struct Class {
    pub(crate) demand: Arc<Demand>,
    pub(crate) namespace: Arc<str>,
    /// Nodes of the pool on which none of its slots may be placed, in order.
    pub(crate) excluded: Arc<[NodeId]>,
    /// The concurrency groups of its jobs, in order.
    pub(crate) groups: Arc<[GroupId]>,
    pub(crate) pool: PoolId,
    /// How many live jobs are of this class.
    pub(crate) jobs: u32,
    pub(crate) waiting: BTreeSet<Rank>,
    /// Jobs wait and no node of the pool has room: each node that gained room was offered to them.
    pub(crate) blocked: bool,
    /// The class is in the backlog: its jobs are placed when their turn comes.
    pub(crate) postponed: bool,
    /// Jobs wait as before a restart, and no search for a node has happened since.
    pub(crate) restored: bool,
    /// Each of its jobs says already that it waits: it was restored like that.
    pub(crate) annotated: bool,
    /// Some of its jobs do not say yet what they wait for.
    pub(crate) unsaid: bool,
    /// Why its jobs wait, as last reported.
    pub(crate) explanation: Option<Arc<str>>,
}

/// What makes a class.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClassKey {
    pub(crate) want: Want,
    pub(crate) excluded: Arc<[NodeId]>,
    pub(crate) groups: Arc<[GroupId]>,
}

// === impl Class ===

impl Class {
    pub(crate) fn want(&self) -> Want {
        let (namespace, demand) = (Arc::clone(&self.namespace), Arc::clone(&self.demand));
        Want { namespace, demand }
    }

    pub(crate) fn key(&self) -> ClassKey {
        let (excluded, groups) = (Arc::clone(&self.excluded), Arc::clone(&self.groups));
        ClassKey { want: self.want(), excluded, groups }
    }

    /// Whether the class allows this node, provided that it has room.
    pub(crate) fn admits(&self, node: NodeId) -> bool {
        self.excluded.binary_search(&node).is_err()
    }
}
