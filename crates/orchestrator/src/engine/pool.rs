//! Who waits, and for which nodes.
//!
//! A *pool* is the set of nodes that are fit for some kind of work (labels, engine, publisher,
//! sources), ordered by load. A *class* is a pool and an amount of room: the jobs of a class wait
//! in one queue, because when the first of them does not fit, none does.
//!
//! So a freed slot is offered to the heads of the queues that its node serves, never to a whole
//! queue, and a submission to a class that is known to be blocked costs one insertion.
//! Costs: per job one queue entry; per node one entry in each pool that holds it; a change of a
//! node's load is an update of each of its pools, and there are as many pools as live jobs have
//! different constraints, engines, publishers and sources (plus [`IDLE_POOLS`] kept for the next
//! job of their kind).
//! Rejected: one queue over all jobs (a freed slot walks past everything that does not fit), and
//! node sets per class (10,000 different amounts on 1,000 nodes are 10 million entries).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use api_types::{JobId, NodeId, Timestamp};

use super::demand::{Demand, Fit};
use super::node::{LiveNode, Load};

/// Pools without a job that are kept: building one anew costs a look at every node.
const IDLE_POOLS: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct PoolId(u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct ClassId(u32);

/// The place of a job in a queue: by priority, then age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Rank {
    pub(super) priority: Reverse<u32>,
    pub(super) created: Timestamp,
    pub(super) job: JobId,
}

pub(super) struct Pool {
    fit: Arc<Fit>,
    /// Nodes that take work and are fit for it, emptier ones first.
    pub(super) nodes: BTreeSet<(Load, NodeId)>,
    /// Classes in which a job waits.
    pub(super) waiting: BTreeSet<ClassId>,
    /// How many classes use the pool.
    classes: u32,
}

pub(super) struct Class {
    pub(super) demand: Arc<Demand>,
    pub(super) pool: PoolId,
    /// How many live jobs are of this class.
    jobs: u32,
    pub(super) waiting: BTreeSet<Rank>,
    /// Jobs wait, and no node of the pool has room: every node that gained any was offered to them.
    pub(super) blocked: bool,
    /// Why its jobs wait, as told last.
    pub(super) explanation: Option<Arc<str>>,
}

/// All pools and classes.
#[derive(Default)]
pub(super) struct Queue {
    pools: BTreeMap<PoolId, Pool>,
    pool_of: HashMap<Arc<Fit>, PoolId>,
    /// Pools without a class, oldest first; an entry may have come back into use.
    idle: VecDeque<PoolId>,
    classes: HashMap<ClassId, Class>,
    class_of: HashMap<Arc<Demand>, ClassId>,
    last_id: u32,
    /// Classes in which a job waits.
    waiting: BTreeSet<ClassId>,
    /// The class that was explained last.
    last_explained: ClassId,
    /// Explanations that changed and were not yet told; `None` where nobody waits any more.
    pub(super) untold: Vec<(Arc<Demand>, Option<Arc<str>>)>,
}

// === impl Queue ===

impl Queue {
    /// Counts a job into the class of its demand.
    pub(super) fn enter<'a>(
        &mut self,
        demand: Demand,
        nodes: impl Iterator<Item = &'a mut LiveNode>,
    ) -> ClassId {
        if let Some(id) = self.class_of.get(&demand).copied() {
            self.class_mut(id).jobs += 1;
            return id;
        }
        let pool = self.pool_for(&demand, nodes);
        let id = ClassId(self.next_id());
        let demand = Arc::new(demand);
        self.class_of.insert(Arc::clone(&demand), id);
        self.classes.insert(
            id,
            Class {
                demand,
                pool,
                jobs: 1,
                waiting: BTreeSet::new(),
                blocked: false,
                explanation: None,
            },
        );
        id
    }

    /// Counts a job out of its class; the last one takes the class with it.
    pub(super) fn leave(&mut self, id: ClassId, rank: Rank) {
        self.stop_waiting(id, rank);
        let class = self.class_mut(id);
        class.jobs -= 1;
        if class.jobs > 0 {
            return;
        }
        let pool_id = class.pool;
        if let Some(class) = self.classes.remove(&id) {
            self.class_of.remove(&class.demand);
            if class.explanation.is_some() {
                self.untold.push((class.demand, None));
            }
        }
        let pool = self.pool_mut(pool_id);
        pool.classes -= 1;
        if pool.classes == 0 {
            self.idle.push_back(pool_id);
        }
    }

    /// Removes idle pools beyond the bound; tells which, so that nodes forget them.
    pub(super) fn take_surplus_pools(&mut self) -> Vec<(PoolId, BTreeSet<(Load, NodeId)>)> {
        let mut surplus = Vec::new();
        while self.idle.len() > IDLE_POOLS {
            let Some(id) = self.idle.pop_front() else { break };
            let unused = self.pools.get(&id).is_some_and(|pool| pool.classes == 0);
            if unused && let Some(pool) = self.pools.remove(&id) {
                self.pool_of.remove(&pool.fit);
                surplus.push((id, pool.nodes));
            }
        }
        surplus
    }

    pub(super) fn wait(&mut self, id: ClassId, rank: Rank) {
        let class = self.class_mut(id);
        class.waiting.insert(rank);
        let pool = class.pool;
        self.pool_mut(pool).waiting.insert(id);
        self.waiting.insert(id);
    }

    pub(super) fn stop_waiting(&mut self, id: ClassId, rank: Rank) {
        let class = self.class_mut(id);
        if !class.waiting.remove(&rank) || !class.waiting.is_empty() {
            return;
        }
        class.blocked = false;
        let pool = class.pool;
        if class.explanation.take().is_some() {
            let demand = Arc::clone(&class.demand);
            self.untold.push((demand, None));
        }
        self.pool_mut(pool).waiting.remove(&id);
        self.waiting.remove(&id);
    }

    /// Why the jobs of the class wait, until it is explained anew or nobody waits.
    pub(super) fn explain(&mut self, id: ClassId, text: String) -> Arc<str> {
        let class = self.class_mut(id);
        if let Some(known) = class.explanation.as_ref().filter(|known| ***known == *text) {
            return Arc::clone(known);
        }
        let text: Arc<str> = text.into();
        class.explanation = Some(Arc::clone(&text));
        let demand = Arc::clone(&class.demand);
        self.untold.push((demand, Some(Arc::clone(&text))));
        text
    }

    /// Brings every pool up to date with a node that changed: what it is, or whether it takes work.
    pub(super) fn reclassify(&mut self, node: &mut LiveNode) {
        let id = node.id();
        for pool in std::mem::take(&mut node.pools) {
            if let Some(pool) = self.pools.get_mut(&pool) {
                pool.nodes.remove(&(node.load, id));
            }
        }
        node.load = node.present_load();
        for (pool_id, pool) in &mut self.pools {
            if fits(&pool.fit, node) {
                pool.nodes.insert((node.load, id));
                node.pools.push(*pool_id);
            }
        }
    }

    /// Brings the pools up to date with the load of a node.
    pub(super) fn reload(&mut self, node: &mut LiveNode) {
        let (before, now, id) = (node.load, node.present_load(), node.id());
        if before == now {
            return;
        }
        node.load = now;
        for pool in &node.pools {
            if let Some(pool) = self.pools.get_mut(pool) {
                pool.nodes.remove(&(before, id));
                pool.nodes.insert((now, id));
            }
        }
    }

    pub(super) fn class(&self, id: ClassId) -> &Class {
        self.classes.get(&id).expect("a class lives as long as a job is counted into it")
    }

    pub(super) fn class_mut(&mut self, id: ClassId) -> &mut Class {
        self.classes.get_mut(&id).expect("a class lives as long as a job is counted into it")
    }

    pub(super) fn pool(&self, id: PoolId) -> &Pool {
        self.pools.get(&id).expect("a pool lives as long as a class uses it")
    }

    fn pool_mut(&mut self, id: PoolId) -> &mut Pool {
        self.pools.get_mut(&id).expect("a pool lives as long as a class uses it")
    }

    pub(super) fn pools(&self) -> impl Iterator<Item = (&PoolId, &Pool)> {
        self.pools.iter()
    }

    pub(super) fn classes(&self) -> impl Iterator<Item = (&ClassId, &Class)> {
        self.classes.iter()
    }

    /// Classes in which a job waits.
    pub(super) fn waiting_classes(&self) -> impl Iterator<Item = &Class> {
        self.waiting.iter().filter_map(|id| self.classes.get(id))
    }

    pub(super) fn is_waiting(&self, id: ClassId) -> bool {
        self.waiting.contains(&id)
    }

    pub(super) fn find_class(&self, id: ClassId) -> Option<&Class> {
        self.classes.get(&id)
    }

    /// Up to `most` classes in which a job waits, in turn: each call goes on after the last.
    pub(super) fn next_waiting_classes(&mut self, most: usize) -> Vec<ClassId> {
        let after = (Bound::Excluded(self.last_explained), Bound::Unbounded);
        let upto = (Bound::Unbounded, Bound::Included(self.last_explained));
        let next: Vec<_> =
            self.waiting.range(after).chain(self.waiting.range(upto)).take(most).copied().collect();
        self.last_explained = next.last().copied().unwrap_or(self.last_explained);
        next
    }

    fn pool_for<'a>(
        &mut self,
        demand: &Demand,
        nodes: impl Iterator<Item = &'a mut LiveNode>,
    ) -> PoolId {
        if let Some(id) = self.pool_of.get(&demand.fit).copied() {
            self.pool_mut(id).classes += 1;
            return id;
        }
        let id = PoolId(self.next_id());
        let fit = Arc::new(demand.fit.clone());
        let mut pool = Pool {
            fit: Arc::clone(&fit),
            nodes: BTreeSet::new(),
            waiting: BTreeSet::new(),
            classes: 1,
        };
        for node in nodes.filter(|node| fits(&fit, node)) {
            pool.nodes.insert((node.load, node.id()));
            node.pools.push(id);
        }
        self.pool_of.insert(fit, id);
        self.pools.insert(id, pool);
        id
    }

    fn next_id(&mut self) -> u32 {
        // Wraps after four billion; by then the first ids are long gone.
        loop {
            self.last_id = self.last_id.wrapping_add(1);
            let id = self.last_id;
            if !self.classes.contains_key(&ClassId(id)) && !self.pools.contains_key(&PoolId(id)) {
                return id;
            }
        }
    }
}

// === impl Pool ===

impl Pool {
    pub(super) fn fits(&self, node: &LiveNode) -> bool {
        fits(&self.fit, node)
    }
}

fn fits(fit: &Fit, node: &LiveNode) -> bool {
    let record = &node.row.record;
    let info = &record.compute_node_info;
    node.takes_work()
        && fit
            .obstacle(
                &record.labels,
                &info.execution_engines,
                &info.publishers,
                &info.storage_sources,
            )
            .is_none()
}
