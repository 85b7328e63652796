//! Shares: whose turn it is among namespaces that have work of the same priority.
//!
//! The order of jobs is priority, share of the namespace over its weight, age. A share is what the
//! namespace holds of the resource of which it holds most, of all nodes in service. It changes with
//! each placement, so the ranks of jobs do not contain it. Instead, the classes that wait are grouped
//! in *lanes*, one per priority and namespace, and a change of a share moves the lanes of one
//! namespace only. The lanes of a priority are the leaves of a tree like that of
//! [heads](crate::queue::heads), which finds the smallest share that fits without visiting the rest.
//!
//! Rejected: a share in each rank (a placement would move all classes of a namespace in all pools),
//! and a share that remembers former use (a restart would have to store it).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::ops::Bound;

use api_types::NodeId;
use api_types::quantity::Resources;

use crate::demand::Need;
use crate::queue::heads::Heads;
use crate::rank::{ClassId, Rank};

/// A share of one, of a namespace with weight 1: fine enough to tell a millicore of a million cores
/// with the largest weight.
const WHOLE_BITS: u32 = 48;

/// Lanes that get a new share in one step after the capacity changed, below a millisecond. Until all
/// have it, some are ordered by the former capacity.
const MOST_RESCALED: usize = 1024;

/// What a namespace holds of its scarcest resource, over its weight; smaller shares come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Share(u64);

/// When it is the turn of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Order {
    pub(crate) priority: Reverse<u32>,
    pub(crate) share: Share,
    pub(crate) rank: Rank,
}

/// The capacity of all nodes in service.
#[derive(Default)]
pub(crate) struct Capacity {
    of_node: BTreeMap<NodeId, Resources>,
    total: Resources,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct LaneId(u32);

/// Classes of one namespace whose first job has the same priority.
pub(crate) struct Lane {
    namespace: Arc<str>,
    priority: Reverse<u32>,
    pub(crate) share: Share,
    /// Those that no group or quota holds.
    pub(crate) heads: Heads<ClassId>,
    /// Those that look for room when their turn comes, with the rank of their first job when they
    /// were put here.
    postponed: BTreeSet<(Rank, ClassId)>,
}

/// The order of a lane among those of its priority: its share, and its best rank.
pub(crate) type Due = (Share, Rank);

/// All lanes.
#[derive(Default)]
pub(crate) struct Lanes {
    lanes: BTreeMap<LaneId, Lane>,
    ids: BTreeMap<(Arc<str>, Reverse<u32>), LaneId>,
    /// By priority, those with heads.
    levels: BTreeMap<Reverse<u32>, Heads<LaneId, Due>>,
    /// Those with postponed classes.
    backlog: BTreeSet<(Order, LaneId)>,
    /// The lane in which the head of each class is.
    lane_of: BTreeMap<ClassId, LaneId>,
    last_id: u32,
    /// The lane that was rescaled last, and how many may still have a former share.
    rescaled: LaneId,
    stale: usize,
}

// === impl Share ===

impl Share {
    pub(crate) fn of(held: &Resources, total: &Resources, weight: u64) -> Self {
        let part = |held: u64, total: u64| {
            let whole = u128::from(total) * u128::from(weight.max(1));
            let part = (u128::from(held) << WHOLE_BITS).checked_div(whole).unwrap_or_default();
            u64::try_from(part).unwrap_or(u64::MAX)
        };
        let cpu = part(held.cpu_millis, total.cpu_millis);
        let memory = part(held.memory_bytes, total.memory_bytes);
        Self(cpu.max(memory).max(part(held.gpus, total.gpus)))
    }

    /// In millionths.
    pub(crate) fn millionths(self) -> u64 {
        let millionths = (u128::from(self.0) * 1_000_000) >> WHOLE_BITS;
        u64::try_from(millionths).unwrap_or(u64::MAX)
    }
}

// === impl Capacity ===

impl Capacity {
    /// What the node has, or `None` if it is not in service. Returns whether that is a change.
    pub(crate) fn set(&mut self, node: NodeId, capacity: Option<&Resources>) -> bool {
        let before = match capacity {
            Some(capacity) => self.of_node.insert(node, *capacity),
            None => self.of_node.remove(&node),
        };
        if before.as_ref() == capacity {
            return false;
        }
        self.total = self.total.minus(&before.unwrap_or(Resources::ZERO));
        self.total = self.total.plus(capacity.unwrap_or(&Resources::ZERO));
        true
    }

    pub(crate) fn total(&self) -> &Resources {
        &self.total
    }
}

// === impl Lanes: heads ===

impl Lanes {
    /// The head of a class; `None` if no job of it waits for room alone. `share` is that of the
    /// namespace.
    pub(crate) fn set_head(
        &mut self,
        class: ClassId,
        namespace: &Arc<str>,
        share: Share,
        head: Option<(Rank, Need)>,
    ) {
        let to = head.map(|(rank, _)| self.lane(namespace, rank.priority, share));
        if let Some(from) = self.lane_of.get(&class).copied().filter(|from| to != Some(*from)) {
            self.lane_of.remove(&class);
            self.change(from, |lane| lane.heads.set(class, None));
        }
        if let Some(to) = to {
            self.lane_of.insert(class, to);
            self.change(to, |lane| lane.heads.set(class, head));
        }
    }

    /// The lanes of a priority.
    pub(crate) fn level(&self, priority: Reverse<u32>) -> Option<&Heads<LaneId, Due>> {
        self.levels.get(&priority)
    }

    pub(crate) fn get(&self, id: LaneId) -> Option<&Lane> {
        self.lanes.get(&id)
    }

    /// The lane in which the head of the class is.
    pub(crate) fn lane_of(&self, class: ClassId) -> Option<LaneId> {
        self.lane_of.get(&class).copied()
    }

    /// Whether a namespace with a smaller share has heads of this priority.
    pub(crate) fn has_smaller(&self, priority: Reverse<u32>, share: Share) -> bool {
        let first = self.level(priority).and_then(Heads::best);
        first.is_some_and(|(first, _)| first < share)
    }
}

// === impl Lanes: what is postponed ===

impl Lanes {
    pub(crate) fn postpone(
        &mut self,
        class: ClassId,
        namespace: &Arc<str>,
        share: Share,
        rank: Rank,
    ) {
        let lane = self.lane(namespace, rank.priority, share);
        self.change(lane, |lane| {
            lane.postponed.insert((rank, class));
        });
    }

    /// Whose turn is next.
    pub(crate) fn next_postponed(&self) -> Option<Order> {
        self.backlog.first().map(|(order, _)| *order)
    }

    pub(crate) fn pop_postponed(&mut self) -> Option<ClassId> {
        let (_, id) = self.backlog.first().copied()?;
        let (rank, class) = self.lanes.get(&id)?.postponed.first().copied()?;
        self.change(id, |lane| {
            lane.postponed.remove(&(rank, class));
        });
        Some(class)
    }

    /// Those whose turn comes before this one.
    pub(crate) fn postponed_before(&self, order: Order) -> impl Iterator<Item = ClassId> {
        let Order { priority, share, rank } = order;
        let lanes = self.backlog.iter().filter_map(|(_, id)| self.lanes.get(id));
        let before = lanes.take_while(move |lane| (lane.priority, lane.share) <= (priority, share));
        before.flat_map(move |lane| {
            let is_level = (lane.priority, lane.share) == (priority, share);
            let end = match is_level {
                true => Bound::Excluded((rank, ClassId::default())),
                false => Bound::Unbounded,
            };
            lane.postponed.range((Bound::Unbounded, end)).map(|(_, class)| *class)
        })
    }

    pub(crate) fn is_any_postponed(&self) -> bool {
        !self.backlog.is_empty()
    }
}

// === impl Lanes: shares ===

impl Lanes {
    /// When it is the turn of a job, as the lanes are ordered; `share` where its namespace has none.
    pub(crate) fn order(&self, namespace: &Arc<str>, share: Share, rank: Rank) -> Order {
        let priority = rank.priority;
        let lane = self.ids.get(&(Arc::clone(namespace), priority));
        let share = lane.and_then(|id| self.lanes.get(id)).map_or(share, |lane| lane.share);
        Order { priority, share, rank }
    }

    /// The share of the namespace changed.
    pub(crate) fn follow_share(&mut self, namespace: &Arc<str>, share: Share) {
        let bounds = [u32::MAX, 0].map(|priority| (Arc::clone(namespace), Reverse(priority)));
        let [first, last] = bounds;
        let ids: Vec<_> = self.ids.range(first..=last).map(|(_, id)| *id).collect();
        for id in ids {
            self.change(id, |lane| lane.share = share);
        }
    }

    /// All shares may have changed.
    pub(crate) fn rescale(&mut self) {
        self.stale = self.lanes.len();
    }

    /// Gives some lanes their present share, in rotation. Returns how many.
    pub(crate) fn follow_capacity(&mut self, share_of: impl Fn(&str) -> Share) -> usize {
        let few = self.stale.min(MOST_RESCALED);
        if few == 0 {
            return 0;
        }
        let after = (Bound::Excluded(self.rescaled), Bound::Unbounded);
        let upto = (Bound::Unbounded, Bound::Included(self.rescaled));
        let next = self.lanes.range(after).chain(self.lanes.range(upto)).take(few);
        let next: Vec<_> = next.map(|(id, lane)| (*id, share_of(&lane.namespace))).collect();
        for (id, share) in &next {
            self.change(*id, |lane| lane.share = *share);
            self.rescaled = *id;
        }
        self.stale -= few;
        next.len()
    }

    pub(crate) fn is_stale(&self) -> bool {
        self.stale > 0
    }

    /// Namespace, priority and share of each, for the invariants.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, Reverse<u32>, Share)> {
        self.lanes.values().map(|lane| (&lane.namespace, lane.priority, lane.share))
    }

    fn lane(&mut self, namespace: &Arc<str>, priority: Reverse<u32>, share: Share) -> LaneId {
        let key = (Arc::clone(namespace), priority);
        if let Some(id) = self.ids.get(&key) {
            return *id;
        }
        let mut id = LaneId(self.last_id);
        while self.lanes.contains_key(&id) {
            id = LaneId(id.0.wrapping_add(1));
        }
        self.last_id = id.0.wrapping_add(1);
        let (heads, postponed) = (Heads::default(), BTreeSet::new());
        let namespace = Arc::clone(namespace);
        self.lanes.insert(id, Lane { namespace, priority, share, heads, postponed });
        self.ids.insert(key, id);
        // The rotation may come to it before one that is stale.
        self.stale += usize::from(self.stale > 0);
        id
    }

    /// Changes a lane, follows its place in the order, and removes it when it is empty.
    fn change(&mut self, id: LaneId, change: impl FnOnce(&mut Lane)) {
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        let before = lane.next();
        change(lane);
        let (after, priority, share) = (lane.next(), lane.priority, lane.share);
        let summary = lane.heads.summary().map(|it| it.ordered_by(|rank| (share, rank)));
        let is_empty = lane.heads.is_empty() && lane.postponed.is_empty();
        if before != after {
            if let Some(before) = before {
                self.backlog.remove(&(before, id));
            }
            self.backlog.extend(after.map(|after| (after, id)));
        }
        let level = self.levels.entry(priority).or_default();
        level.set_summary(id, summary);
        if level.is_empty() {
            self.levels.remove(&priority);
        }
        if is_empty && let Some(lane) = self.lanes.remove(&id) {
            self.ids.remove(&(lane.namespace, lane.priority));
            self.stale = self.stale.min(self.lanes.len());
        }
    }
}

// === impl Lane ===

impl Lane {
    pub(crate) fn key(&self) -> (&Arc<str>, Reverse<u32>) {
        (&self.namespace, self.priority)
    }

    /// When it is the turn of its first postponed class.
    fn next(&self) -> Option<Order> {
        let (rank, _) = self.postponed.first()?;
        Some(Order { priority: self.priority, share: self.share, rank: *rank })
    }
}

#[cfg(test)]
mod tests;
