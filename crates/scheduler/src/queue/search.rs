//! The search for the waiting job that a node with room takes next, and the classes that a group or a
//! quota keeps out of it.

use alloc::sync::Arc;
use core::ops::Bound;

use crate::marks::Opened;
use crate::queue::Queue;
use crate::queue::group::{Entry, GroupId};
use crate::queue::heads::Limits;
use crate::queue::nodes::NodeBit;
use crate::rank::{ClassId, PoolId, Rank};

/// Pools that a search for waiting work passes in the time in which one execution is placed.
const POOLS_PER_STEP: usize = 8;

/// Pools that a search passes in one step. The search then places the best work found so far. A later
/// pool may hold work of a slightly higher rank, but only if more kinds of work than this wait.
const MOST_PASSED: usize = 4096;

/// The last pool that a search passed in vain, by the best rank that it had.
pub(crate) type Position = (Rank, PoolId);

/// How far a search for waiting work came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Search {
    pub(crate) found: Option<(Rank, ClassId)>,
    /// What it passed before it found something. Nothing there fits into less room either.
    pub(crate) until: Option<Position>,
    /// Nothing is left to be searched.
    pub(crate) is_all: bool,
    /// The part of a turn that it took.
    pub(crate) steps: usize,
}

/// What holds an entry back, or would.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    /// A group that is full.
    Group(GroupId),
    /// The quota of its namespace, of which not enough is left.
    Quota,
}

// === impl Search ===

impl Search {
    /// Nothing is found.
    pub(crate) fn over() -> Self {
        Self { found: None, until: None, is_all: true, steps: 0 }
    }
}

// === impl Queue: the next job of a node ===

impl Queue {
    /// The first of all waiting jobs that a node with this bit has room for and that is admitted,
    /// in the pools after the one that an earlier search passed.
    ///
    /// Checks only the head of each waiting class, because all jobs of a class have the same demand,
    /// and no pool whose best rank is behind what was found.
    pub(crate) fn first_for(
        &self,
        bit: NodeBit,
        limits: &Limits,
        after: Option<Position>,
        admits: impl Fn(Rank, ClassId) -> bool,
    ) -> Search {
        let mut search = Search { until: after, ..Search::over() };
        let mut passed = 0;
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        for (best, id) in self.first.range((after, Bound::Unbounded)) {
            if search.found.is_some_and(|(rank, _)| rank < *best) {
                break;
            }
            if passed == MOST_PASSED {
                search.is_all = false;
                break;
            }
            passed += 1;
            let pool = self.pool(*id);
            if pool.members.contains(bit) {
                let first = pool.heads.first(limits, &admits);
                search.found = search.found.into_iter().chain(first).min();
            }
            if search.found.is_none() {
                search.until = Some((*best, *id));
            }
        }
        search.steps = passed / POOLS_PER_STEP;
        search
    }

    /// The rank by which searches come to the pool.
    pub(crate) fn best_of(&self, id: PoolId) -> Option<Rank> {
        self.first.iter().find(|(_, pool)| *pool == id).map(|(rank, _)| *rank)
    }
}

// === impl Queue: classes that are held ===

impl Queue {
    /// The class is kept out of the heads of its pool from now on.
    pub(crate) fn hold(&mut self, id: ClassId, by: Holder) {
        let class = self.class_mut(id);
        let Some(rank) = class.waiting.first().copied() else { return };
        // Nodes that gain room from now on are not offered to it.
        class.annotated = core::mem::take(&mut class.blocked) || class.annotated;
        class.restored = false;
        match by {
            Holder::Group(group) => self.groups.hold(Entry::Class(id), rank, group),
            Holder::Quota => self.quotas.hold(Entry::Class(id)),
        }
        self.head_changed(id);
    }

    /// No group keeps the class out of the heads of its pool.
    pub(crate) fn open_to_groups(&mut self, id: ClassId) -> Opened {
        self.groups.open(Entry::Class(id));
        self.opened(id)
    }

    /// The quota does not keep the class out of the heads of its pool.
    pub(crate) fn open_to_quota(&mut self, id: ClassId) -> Opened {
        self.quotas.open(Entry::Class(id));
        self.opened(id)
    }

    fn opened(&mut self, id: ClassId) -> Opened {
        self.head_changed(id);
        let class = self.class(id);
        let (groups, namespace) = (Arc::clone(&class.groups), Arc::clone(&class.namespace));
        Opened { class: id, groups, namespace }
    }

    /// Whether a group or the quota keeps the class out of the heads of its pool.
    pub(crate) fn is_held(&self, id: ClassId) -> bool {
        let entry = Entry::Class(id);
        self.groups.is_held(entry) || self.quotas.is_held(entry)
    }

    /// What leaves no room for another execution of the class, wherever it would run.
    pub(crate) fn lacking(&self, id: ClassId) -> Option<Holder> {
        let class = self.class(id);
        if let Some(group) = self.groups.lacking(&class.groups) {
            return Some(Holder::Group(group));
        }
        let short = self.quotas.short(&class.namespace, &class.demand.need);
        short.map(|_| Holder::Quota)
    }

    /// The first job of the class that waits for room, not for a group or the quota.
    pub(crate) fn first_of(&self, id: ClassId) -> Option<Rank> {
        let class = self.find_class(id)?;
        class.waiting.first().copied().filter(|_| !self.is_held(id))
    }
}
