//! What an event leaves to be settled before the next one.
//!
//! A rule changes the state, its rows and its indexes, and marks what may follow from that.
//! [`Settle`](crate::settle::leftover::Settle) handles the marks once the rule is done. So one
//! consequence follows from several changes, and it sees the last of them.
//!
//! Marks are not stored. What a turn has no budget for joins the [backlog](crate::settle::leftover::Backlog), which
//! `restore` derives from what is stored; everything else is settled before the turn ends.

use alloc::collections::VecDeque;
use alloc::sync::Arc;

use api_types::{JobId, NodeId};

use crate::queue::group::GroupId;
use crate::rank::{ClassId, PoolId};

/// The marks of one event, by kind, in the order in which they are settled.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// Jobs that ended: their executions are to be asked to stop.
    pub(crate) stops: Marked<JobId>,
    /// Groups whose newest job replaces those before it.
    pub(crate) replacements: Marked<GroupId>,
    /// Draining nodes: some of their executions are to be asked to stop.
    pub(crate) drains: Marked<NodeId>,
    /// Nodes whose comparison with the pools takes longer, and the last pool that was compared.
    pub(crate) comparisons: Marked<(NodeId, PoolId)>,
    /// Nodes that take work again or changed: daemons may lack a slot there.
    pub(crate) covers: Marked<NodeId>,
    /// Nodes on which something changed that a reservation may depend on.
    pub(crate) reservations: Marked<NodeId>,
    /// Groups whose units were taken or returned, or whose limit changed.
    pub(crate) groups: Marked<GroupId>,
    /// Namespaces of whose quota something was taken or given back, or whose quota changed.
    pub(crate) quotas: Marked<Arc<str>>,
    /// Nodes that may have room for more; the search for work begins anew.
    pub(crate) nodes: Marked<NodeId>,
    /// Jobs with slots that may be placed, and their class. They look for room by themselves, after
    /// the nodes have taken what comes first.
    pub(crate) ready: Marked<(JobId, ClassId)>,
    /// Classes that a group or quota does not hold any more. They look for room like jobs that are ready.
    pub(crate) opened: Marked<Opened>,
    /// Jobs with a slot on each node that may run one more execution now.
    pub(crate) offers: Marked<JobId>,
    /// Jobs whose slots, notices or queues changed: they may have another state.
    pub(crate) jobs: Marked<JobId>,
    /// Nodes whose pinned slots changed, so that another one may be the first.
    pub(crate) pinned: Marked<NodeId>,
    /// Jobs that ended and that others wait for.
    pub(crate) named: Marked<JobId>,
    /// Slots that ended of jobs for whose slots those of others wait.
    pub(crate) counterparts: Marked<(JobId, u32)>,
    /// Jobs some of whose slots may wait for nothing any more.
    pub(crate) walks: Marked<JobId>,
    /// Jobs that are recorded, and begin with one of the next ticks.
    pub(crate) begins: Marked<JobId>,
    /// Jobs that ended and may have no execution left.
    pub(crate) ended: Marked<JobId>,
}

/// A class, and what may open the next one once it has searched for room, even if it is gone by then.
#[derive(Debug, PartialEq)]
pub(crate) struct Opened {
    pub(crate) class: ClassId,
    pub(crate) groups: Arc<[GroupId]>,
    pub(crate) namespace: Arc<str>,
}

/// Marks of one kind, in order. It keeps its memory, so that an event allocates nothing.
#[derive(Debug)]
pub(crate) struct Marked<T>(VecDeque<T>);

// === impl Marks ===

impl Marks {
    pub(crate) fn is_empty(&self) -> bool {
        let Self { stops, drains, comparisons, covers, reservations, .. } = self;
        let Self { nodes, ready, offers, jobs, pinned, ended, named, begins, .. } = self;
        let Self { replacements, groups, quotas, opened, counterparts, walks, .. } = self;
        stops.is_empty()
            && drains.is_empty()
            && comparisons.is_empty()
            && covers.is_empty()
            && reservations.is_empty()
            && nodes.is_empty()
            && ready.is_empty()
            && offers.is_empty()
            && jobs.is_empty()
            && pinned.is_empty()
            && ended.is_empty()
            && replacements.is_empty()
            && groups.is_empty()
            && opened.is_empty()
            && named.is_empty()
            && counterparts.is_empty()
            && walks.is_empty()
            && begins.is_empty()
            && quotas.is_empty()
    }
}

// === impl Marked ===

impl<T> Default for Marked<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T: PartialEq> Marked<T> {
    /// What is marked several times in a row is settled once.
    pub(crate) fn push(&mut self, what: T) {
        if self.0.back() != Some(&what) {
            self.0.push_back(what);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        self.0.pop_front()
    }
}
