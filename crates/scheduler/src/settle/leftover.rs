//! Work that one turn has no budget for.
//!
//! No input may hold the driver for long, whatever it brings about: a job of 100,000 executions is
//! stopped, a node that ran thousands goes silent, a million timers are due together. So a turn
//! ends, places or annotates some hundred executions and jobs at most; what is left is kept here,
//! or stays due among the timers, and continues with the next tick, which the scheduler asks for at
//! once. Inputs that arrive until then are handled in between.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound;

use api_types::{ExecutionId, JobId, NodeId};

use crate::queue::group::GroupId;
use crate::queue::search::Position;
use crate::rank::{ClassId, PoolId, Rank, Waiter};
use crate::state::{State, counterparts, dependants};
use crate::text::Text;

/// What is left over between two inputs, and who has waited for too long.
#[derive(Default)]
pub(crate) struct Settle {
    pub(crate) backlog: Backlog,
    pub(crate) starving: Starving,
}

/// Everything continues after the entry that was handled last. Classes whose jobs may find room are in
/// [lanes](crate::queue::share::Lanes).
#[derive(Default)]
pub(crate) struct Backlog {
    /// Nodes that are compared with pools, and the last pool of those.
    pub(crate) comparisons: BTreeMap<NodeId, PoolId>,
    /// Nodes that have room for more, and where the search for work continues.
    pub(crate) nodes: BTreeMap<NodeId, Option<Position>>,
    /// Jobs that may run more executions on the nodes for which their slots wait, and the last slot
    /// whose node was asked.
    pub(crate) offers: BTreeMap<JobId, Option<u32>>,
    /// Groups some of whose entries are to be opened or held.
    pub(crate) groups: BTreeSet<GroupId>,
    /// Namespaces some of whose entries are to be opened or held, for their quota.
    pub(crate) quotas: BTreeSet<Arc<str>>,
    /// Groups whose newest job replaces others, and the last of them that was stopped.
    pub(crate) replacements: BTreeMap<GroupId, u64>,
    /// Blocked classes some of whose jobs do not say yet that they wait.
    pub(crate) refreshes: BTreeMap<ClassId, Option<Rank>>,
    /// Jobs that are over, some of whose executions are not asked to stop yet.
    pub(crate) stops: BTreeMap<JobId, Option<ExecutionId>>,
    /// Draining nodes, some of whose executions are not asked to stop yet.
    pub(crate) drains: BTreeSet<NodeId>,
    /// Nodes that take work again, for daemons that do not run there.
    pub(crate) covers: BTreeSet<NodeId>,
    /// Nodes that were silent at the last restart, whose jobs are to say so anew.
    pub(crate) silences: BTreeSet<NodeId>,
    /// Jobs that waited for something which may exist now.
    pub(crate) provided: BTreeSet<JobId>,
    /// Jobs that are over, and the last of those that wait for them which was told so.
    pub(crate) named: BTreeMap<JobId, Option<JobId>>,
    /// Slots that ended of jobs for whose slots those of others wait, and the last of those jobs
    /// which was told so.
    pub(crate) counterparts: BTreeMap<(JobId, u32), Option<JobId>>,
    /// Jobs some of whose slots may wait for nothing any more, and the next slot that is checked.
    pub(crate) walks: BTreeMap<JobId, u32>,
    /// Jobs that are recorded and have not begun.
    pub(crate) begins: BTreeSet<JobId>,
    /// Jobs of which nothing that scheduling needs could be read, and why. They are in no class.
    pub(crate) damaged: BTreeMap<JobId, Text>,
}

/// Who has waited for too long.
#[derive(Debug, Default)]
pub(crate) struct Starving {
    /// The head of every queue in which something waits.
    pub(crate) heads: BTreeMap<Waiter, Head>,
    /// Those that have waited for too long, in the order in which rounds consider them.
    pub(crate) starving: BTreeSet<(Rank, Waiter)>,
    /// Where the next round continues, if the last one reached its bound.
    pub(crate) cursor: Option<(Rank, Waiter)>,
}

/// The first waiter of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) rank: Rank,
    /// It has waited for too long; until then a timer runs.
    pub(crate) starves: bool,
}

// === impl Backlog ===

impl Backlog {
    pub(crate) fn is_empty(&self) -> bool {
        let Self { comparisons, nodes, refreshes, stops, drains, .. } = self;
        let Self { covers, silences, provided, damaged, offers, named, begins, .. } = self;
        let Self { groups, quotas, replacements, counterparts, walks, .. } = self;
        comparisons.is_empty()
            && nodes.is_empty()
            && refreshes.is_empty()
            && stops.is_empty()
            && drains.is_empty()
            && covers.is_empty()
            && silences.is_empty()
            && provided.is_empty()
            && damaged.is_empty()
            && offers.is_empty()
            && groups.is_empty()
            && quotas.is_empty()
            && replacements.is_empty()
            && named.is_empty()
            && counterparts.is_empty()
            && walks.is_empty()
            && begins.is_empty()
    }

    /// What may be left over from before a restart, but for what the records name themselves.
    pub(crate) fn restore(&mut self, state: &mut State) {
        let waiting: Vec<_> = state.queue.waiting_classes().map(|(id, _)| id).collect();
        for id in waiting {
            state.queue.postpone(id);
        }
        for group in state.queue.groups.replacing() {
            state.queue.groups.begin_replacing(group);
            self.replacements.insert(group, 0);
        }
        let to_change = state.queue.groups.iter().filter(|(_, group)| group.has_to_change());
        self.groups.extend(to_change.map(|(id, _)| id));
        let quotas = &state.queue.quotas;
        let to_change = quotas.limited().iter().filter(|it| quotas.next_change(it).is_some());
        self.quotas.extend(to_change.cloned());
        self.nodes.extend(state.nodes.keys().map(|node| (*node, None)));
        let over = state.named.iter().filter(|(_, named)| named.ended.is_some());
        self.named.extend(over.map(|(id, _)| (*id, None)));
        self.begins.extend(dependants::not_reviewed(state));
        self.walks.extend(counterparts::with_waiting_slots(state).map(|job| (job, 0)));
        if !state.daemons.is_empty() {
            // A node may have begun to take work again just before the process ended.
            self.covers.extend(state.nodes.keys().copied());
        }
    }
}

// === impl Starving ===

impl Starving {
    /// The next head that starves, in the order in which rounds consider them.
    pub(crate) fn next(&self) -> Option<(Rank, Waiter)> {
        let after = self.cursor.map_or(Bound::Unbounded, Bound::Excluded);
        self.starving.range((after, Bound::Unbounded)).next().copied()
    }
}
