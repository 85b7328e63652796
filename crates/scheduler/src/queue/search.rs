//! The search for the waiting job that a node with room takes next, and the classes that a group or a
//! quota keeps out of it.

use alloc::sync::Arc;
use core::cell::Cell;
use core::ops::Bound;

use api_types::NodeId;
use api_types::quantity::Resources;

use crate::marks::Opened;
use crate::queue::Queue;
use crate::queue::group::{Entry, GroupId};
use crate::queue::heads::Limits;
use crate::queue::nodes::NodeBit;
use crate::queue::quota::Entitlement;
use crate::queue::share::{Due, LaneId, Order};
use crate::rank::{ClassId, PoolId, Rank};

/// Pools that a search for waiting work passes in the time in which one execution is placed.
const POOLS_PER_STEP: usize = 8;

/// Pools that a search passes in one step. The search then places the best work found so far. A later
/// pool may hold work of a slightly higher rank, but only if more kinds of work than this wait.
const MOST_PASSED: usize = 4096;

/// Classes of namespaces with a smaller share that are compared with the oldest job; the first of
/// those that fit is then placed. Others may have a smaller share still, but only if as many fit into
/// the room and are not for this node.
const MOST_COMPARED: usize = 4096;

/// Classes that are compared in the time in which one execution is placed.
const COMPARED_PER_STEP: usize = 32;

/// Lanes that are put in order in the time in which one execution is placed.
const RESCALED_PER_STEP: usize = 32;

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

// === impl Queue: shares ===

impl Queue {
    /// Of all classes that the node has room for and that are admitted, the one whose turn is first.
    /// `oldest` is the first of them by priority and age. Also returns the part of a turn that the
    /// search took.
    pub(crate) fn fairest(
        &self,
        bit: NodeBit,
        limits: &Limits,
        oldest: (Rank, ClassId),
        admits: impl Fn(Rank, ClassId) -> bool,
    ) -> ((Rank, ClassId), usize) {
        let (rank, class) = oldest;
        let own = self.lanes.lane_of(class).and_then(|id| Some((id, self.lanes.get(id)?.share)));
        let (Some((own, share)), Some(level)) = (own, self.lanes.level(rank.priority)) else {
            return (oldest, 0);
        };
        let compared = Cell::new(0);
        let first_in = |lane: LaneId| {
            let heads = &self.lanes.get(lane)?.heads;
            heads.first(limits, |rank, id| {
                compared.set(compared.get() + 1);
                let pool = || self.pool(self.class(id).pool);
                compared.get() <= MOST_COMPARED && pool().members.contains(bit) && admits(rank, id)
            })
        };
        let mut best = Some(((share, rank), own));
        level.search(limits, &mut best, &mut |(share_of_lane, _): Due, lane| {
            // Of an equal share, the oldest is known.
            let first = if share_of_lane < share { first_in(lane) } else { None };
            first.map(|(rank, _)| (share_of_lane, rank))
        });
        let steps = compared.get() / COMPARED_PER_STEP;
        compared.set(0);
        let other = best.map(|(_, lane)| lane).filter(|lane| *lane != own);
        (other.and_then(first_in).unwrap_or(oldest), steps)
    }

    /// When it is the turn of a job of the namespace.
    pub(crate) fn order(&self, namespace: &Arc<str>, rank: Rank) -> Order {
        self.lanes.order(namespace, self.quotas.share(namespace), rank)
    }

    /// An execution is placed.
    pub(crate) fn take(&mut self, namespace: &Arc<str>, amount: &Resources) {
        self.quotas.take(namespace, amount);
        self.follow_share(namespace);
    }

    /// An execution gave this back; `ended` if that is all.
    pub(crate) fn give_back(&mut self, namespace: &Arc<str>, amount: &Resources, ended: bool) {
        self.quotas.give_back(namespace, amount, ended);
        self.follow_share(namespace);
    }

    /// The namespace is entitled to this from now on.
    pub(crate) fn entitle(&mut self, namespace: &str, to: Entitlement) {
        let namespace: Arc<str> = namespace.into();
        self.quotas.entitle(&namespace, to);
        self.follow_share(&namespace);
    }

    fn follow_share(&mut self, namespace: &Arc<str>) {
        self.lanes.follow_share(namespace, self.quotas.share(namespace));
    }

    /// What a node in service has; `None` for one that is not.
    pub(crate) fn set_capacity(&mut self, node: NodeId, capacity: Option<&Resources>) {
        if self.quotas.capacity.set(node, capacity) {
            self.lanes.rescale();
        }
    }

    /// Orders some of the namespaces by the present capacity. Returns the part of a turn that it took.
    pub(crate) fn follow_capacity(&mut self) -> usize {
        let quotas = &self.quotas;
        self.lanes.follow_capacity(|namespace| quotas.share(namespace)) / RESCALED_PER_STEP
    }

    /// The class looks for room when the turn of its first job comes.
    pub(crate) fn postpone(&mut self, id: ClassId) {
        let Some(class) = self.classes.get_mut(&id) else { return };
        let Some(rank) = class.waiting.first().copied() else { return };
        class.postponed = true;
        let share = self.quotas.share(&class.namespace);
        self.lanes.postpone(id, &class.namespace, share, rank);
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
