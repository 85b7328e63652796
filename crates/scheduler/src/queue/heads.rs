//! The heads of the classes of one pool: the first in rank that fits into some room.
//!
//! A node that gains room must not try all waiting classes: 100,000 jobs that ask for different
//! amounts of memory are 100,000 classes. So their heads are the leaves of binary trees whose inner
//! nodes hold the best rank and the smallest needs below them. A search descends to where the best
//! rank is, and leaves out what cannot fit. It costs O(log n) where one resource decides, and a
//! comparison per leaf at worst; an update costs O(log n). One tree for all would have to be copied
//! when it grows, which took 19 ms at 100,000 classes; there are several of bounded size instead.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use api_types::quantity::Resources;

use crate::demand::Need;
use crate::rank::{ClassId, Rank};

/// Leaves of a tree at most; it begins with [`FEWEST_LEAVES`], since most pools have few classes.
const MOST_LEAVES: usize = 4096;

const FEWEST_LEAVES: usize = 8;

/// `R` is what heads are ordered by.
pub(crate) struct Heads<K = ClassId, R = Rank> {
    /// The tree of each class, and its leaf there.
    leaves: BTreeMap<K, (usize, usize)>,
    /// All but the last have [`MOST_LEAVES`].
    trees: Vec<Tree<K, R>>,
}

struct Tree<K, R> {
    /// Leaves without a class.
    unused: Vec<usize>,
    /// The class of each leaf.
    classes: Vec<K>,
    /// A complete tree: 1 is the root, `n` has the children `2n` and `2n + 1`, and the second half
    /// are the leaves.
    nodes: Vec<Option<Summary<R>>>,
}

/// What is known of all leaves below a place in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Summary<R = Rank> {
    pub(crate) rank: R,
    cpu_millis: Least,
    memory_bytes: Least,
    disk_bytes: u64,
    gpus: u64,
}

/// The smallest amount needed of a resource that a job need not ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Least {
    asked: u64,
    /// A job leaves it to the node's default.
    some_leave_it: bool,
}

/// What a node can take, and what it takes for a job that asks for nothing.
pub(crate) struct Limits {
    pub(crate) room: Resources,
    pub(crate) defaults: Resources,
}

// === impl Heads ===

impl<K, R> Default for Heads<K, R> {
    fn default() -> Self {
        Self { leaves: BTreeMap::new(), trees: Vec::new() }
    }
}

impl<K: Copy + Ord + Default, R: Copy + Ord> Heads<K, R> {
    /// Sets the head of a class; `None` when no job of it waits.
    pub(crate) fn set(&mut self, class: K, head: Option<(R, Need)>) {
        self.set_summary(class, head.map(|(rank, need)| Summary::new(rank, need)));
    }

    /// Sets what is known of several heads that share a leaf.
    pub(crate) fn set_summary(&mut self, class: K, head: Option<Summary<R>>) {
        let (tree, leaf) = match (self.leaves.get(&class).copied(), &head) {
            (Some(place), _) => place,
            (None, None) => return,
            (None, Some(_)) => self.add(class),
        };
        let tree = &mut self.trees[tree];
        if head.is_none() {
            self.leaves.remove(&class);
            tree.unused.push(leaf);
        }
        tree.set(leaf, head);
    }

    /// The class with the best rank whose head fits and is admitted.
    pub(crate) fn first(&self, limits: &Limits, admits: impl Fn(R, K) -> bool) -> Option<(R, K)> {
        let mut best = None;
        self.search(limits, &mut best, &mut |rank, class| admits(rank, class).then_some(rank));
        best
    }

    /// The same where a leaf stands for several heads: `exact` is the rank of the best that is
    /// admitted. Only what comes before `best` is visited.
    pub(crate) fn search(
        &self,
        limits: &Limits,
        best: &mut Option<(R, K)>,
        exact: &mut impl FnMut(R, K) -> Option<R>,
    ) {
        for tree in &self.trees {
            tree.descend(1, limits, exact, best);
        }
    }

    /// What is known of all heads.
    pub(crate) fn summary(&self) -> Option<Summary<R>> {
        let roots = self.trees.iter().map(|tree| tree.nodes.get(1).copied().flatten());
        roots.fold(None, Summary::either)
    }

    /// The best rank of all heads.
    pub(crate) fn best(&self) -> Option<R> {
        self.trees.iter().filter_map(|tree| Some(tree.nodes.get(1)?.as_ref()?.rank)).min()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.leaves.is_empty()
    }

    fn add(&mut self, class: K) -> (usize, usize) {
        let with_room = self.trees.iter().position(|tree| !tree.unused.is_empty());
        let at = with_room.unwrap_or_else(|| {
            match self.trees.last_mut() {
                Some(last) if last.classes.len() < MOST_LEAVES => {
                    last.resize(2 * last.classes.len());
                }
                last => {
                    let leaves = if last.is_none() { FEWEST_LEAVES } else { MOST_LEAVES };
                    let (unused, classes, nodes) = (Vec::new(), Vec::new(), Vec::new());
                    let mut tree = Tree { unused, classes, nodes };
                    tree.resize(leaves);
                    self.trees.push(tree);
                }
            }
            self.trees.len() - 1
        });
        let leaf = self.trees[at].unused.pop().expect("the tree has an unused leaf");
        self.trees[at].classes[leaf] = class;
        self.leaves.insert(class, (at, leaf));
        (at, leaf)
    }
}

// === impl Tree ===

impl<K: Copy + Ord + Default, R: Copy + Ord> Tree<K, R> {
    fn set(&mut self, leaf: usize, summary: Option<Summary<R>>) {
        let mut at = self.classes.len() + leaf;
        self.nodes[at] = summary;
        while at > 1 {
            at /= 2;
            let both = Summary::either(self.nodes[2 * at], self.nodes[2 * at + 1]);
            if self.nodes[at] == both {
                break;
            }
            self.nodes[at] = both;
        }
    }

    fn descend(
        &self,
        at: usize,
        limits: &Limits,
        exact: &mut impl FnMut(R, K) -> Option<R>,
        best: &mut Option<(R, K)>,
    ) {
        let Some(summary) = &self.nodes[at] else { return };
        if best.is_some_and(|(rank, _)| rank <= summary.rank) || !summary.may_fit(limits) {
            return;
        }
        if let Some(leaf) = at.checked_sub(self.classes.len()) {
            let class = self.classes[leaf];
            let found = exact(summary.rank, class);
            if let Some(rank) = found.filter(|rank| best.is_none_or(|(before, _)| *rank < before)) {
                *best = Some((rank, class));
            }
            return;
        }
        let rank = |at: usize| self.nodes[at].map(|summary| summary.rank);
        let left_first = match (rank(2 * at), rank(2 * at + 1)) {
            (Some(left), Some(right)) => left <= right,
            (left, _) => left.is_some(),
        };
        for child in if left_first { [2 * at, 2 * at + 1] } else { [2 * at + 1, 2 * at] } {
            self.descend(child, limits, exact, best);
        }
    }

    /// Grows the tree to this many leaves, a power of two that is larger than before.
    fn resize(&mut self, leaves: usize) {
        let before = self.classes.len();
        let mut nodes = alloc::vec![None; 2 * leaves];
        if before > 0 {
            nodes[leaves..leaves + before].copy_from_slice(&self.nodes[before..]);
        }
        for at in (1..leaves).rev() {
            nodes[at] = Summary::either(nodes[2 * at], nodes[2 * at + 1]);
        }
        self.nodes = nodes;
        self.classes.resize(leaves, K::default());
        self.unused.extend((before..leaves).rev());
    }
}

// === impl Summary ===

impl<R: Copy + Ord> Summary<R> {
    fn new(rank: R, need: Need) -> Self {
        Self {
            rank,
            cpu_millis: Least::new(need.cpu_millis),
            memory_bytes: Least::new(need.memory_bytes),
            disk_bytes: need.disk_bytes,
            gpus: need.gpus,
        }
    }

    fn either(left: Option<Self>, right: Option<Self>) -> Option<Self> {
        let (Some(left), Some(right)) = (left, right) else { return left.or(right) };
        Some(Self {
            rank: left.rank.min(right.rank),
            cpu_millis: left.cpu_millis.or(right.cpu_millis),
            memory_bytes: left.memory_bytes.or(right.memory_bytes),
            disk_bytes: left.disk_bytes.min(right.disk_bytes),
            gpus: left.gpus.min(right.gpus),
        })
    }

    /// The same in another order.
    pub(crate) fn ordered_by<O>(self, order: impl Fn(R) -> O) -> Summary<O> {
        let Self { rank, cpu_millis, memory_bytes, disk_bytes, gpus } = self;
        Summary { rank: order(rank), cpu_millis, memory_bytes, disk_bytes, gpus }
    }

    /// Whether something below may fit; exact for a leaf.
    fn may_fit(&self, Limits { room, defaults }: &Limits) -> bool {
        self.cpu_millis.fits(room.cpu_millis, defaults.cpu_millis)
            && self.memory_bytes.fits(room.memory_bytes, defaults.memory_bytes)
            && self.disk_bytes <= room.disk_bytes
            && self.gpus <= room.gpus
    }
}

// === impl Least ===

impl Least {
    fn new(asked: Option<u64>) -> Self {
        Self { asked: asked.unwrap_or(u64::MAX), some_leave_it: asked.is_none() }
    }

    fn or(self, other: Self) -> Self {
        Self {
            asked: self.asked.min(other.asked),
            some_leave_it: self.some_leave_it || other.some_leave_it,
        }
    }

    fn fits(self, room: u64, default: u64) -> bool {
        self.asked <= room || (self.some_leave_it && default <= room)
    }
}

#[cfg(test)]
mod tests {
    use core::cmp::Reverse;

    use api_types::JobId;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
    use uuid::Uuid;

    use super::*;
    use crate::time::Moment;

    fn fits(need: &Need, limits: &Limits) -> bool {
        need.on(&limits.defaults).fits_in(&limits.room)
    }

    #[test]
    fn the_search_finds_what_a_scan_of_all_heads_finds() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut below = move |bound: u64| u64::from(random.next_u32()) % bound;
        let mut heads = Heads::<ClassId>::default();
        let mut all: BTreeMap<ClassId, (Rank, Need)> = BTreeMap::new();
        for step in 0..30_000_u64 {
            let class = ClassId(u32::try_from(below(9000)).expect("small"));
            let head = (below(3) > 0).then(|| {
                let rank = Rank {
                    priority: Reverse(u32::try_from(below(3)).expect("small")),
                    created: Moment(below(1000)),
                    job: JobId::from_uuid(Uuid::from_u128(u128::from(step))),
                };
                let mut given = |bound| (below(4) > 0).then(|| below(bound));
                let (cpu_millis, memory_bytes) = (given(100), given(100));
                (rank, Need { cpu_millis, memory_bytes, disk_bytes: below(9), gpus: below(2) })
            });
            heads.set(class, head);
            match head {
                Some(head) => drop(all.insert(class, head)),
                None => drop(all.remove(&class)),
            }
            // A scan of all is slow, and the trees fill up in the meantime.
            if step % 32 > 0 {
                continue;
            }
            let mut resources = || Resources {
                cpu_millis: below(100),
                memory_bytes: below(100),
                disk_bytes: below(9),
                gpus: below(2),
            };
            let limits = Limits { room: resources(), defaults: resources() };
            let admits = |_: Rank, class: ClassId| !class.0.is_multiple_of(5);
            let expected = all
                .iter()
                .filter(|(class, (rank, need))| admits(*rank, **class) && fits(need, &limits))
                .map(|(class, (rank, _))| (*rank, *class))
                .min();
            assert_eq!(heads.first(&limits, admits), expected, "step {step}");
        }
        assert!(heads.trees.len() > 1, "one tree is not all");
    }
}
