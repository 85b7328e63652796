//! Waiting jobs, and the nodes they wait for.
//!
//! A *pool* is the set of nodes that are suitable for some kind of work (labels, engine, publisher,
//! sources), ordered by load. A *class* is a pool, an amount of resources and a namespace: the jobs
//! of a class wait in one queue, because when the first of them does not fit, none does. What fits
//! may depend on the namespace; the order of jobs does not.
//!
//! So a freed slot is offered to the heads of the queues that its node serves, never to a whole
//! queue, and a submission to a class known to be blocked costs one insertion. Costs: one queue
//! entry per job; one bit per node in each pool, of which there are as many as live jobs have
//! different constraints, engines, publishers and sources (plus [`IDLE_POOLS`] kept for the next job
//! of their kind). All nodes are in one order by load, so a change of a load costs O(log n) however
//! many pools have the node. A new pool looks at all nodes; a node that joins looks at all pools,
//! 4,096 at a time. Rejected: one queue over all jobs (a freed slot walks past everything that
//! does not fit), node sets per class (10,000 different amounts on 1,000 nodes are 10 million
//! entries), and an order by load in each pool (a placement on a node of 4,096 pools took 10 ms).

pub(crate) mod class;
pub(crate) mod group;
pub(crate) mod heads;
pub(crate) mod matching;
pub(crate) mod nodes;
pub(crate) mod quota;
pub(crate) mod search;
pub(crate) mod share;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound;

use api_types::NodeId;
use api_types::protocol::SessionRequest;

use crate::demand::{Demand, Fit, Want};
use crate::keyed::{HashKey, HashMap};
use crate::marks::Marked;
use crate::queue::class::{Class, ClassKey};
use crate::queue::group::{Entry, GroupId, Groups};
use crate::queue::heads::Heads;
use crate::queue::nodes::{Members, NodeBit, Nodes, suits};
use crate::queue::quota::Quotas;
use crate::queue::share::Lanes;
use crate::rank::{ClassId, PoolId, Rank};

/// Unused pools to keep: building a new one scans every node.
const IDLE_POOLS: usize = 16;

pub(crate) struct Pool {
    fit: Arc<Fit>,
    /// Nodes that are suitable for it, whether or not they take work now.
    pub(crate) members: Members,
    /// The heads of its classes in which a job waits.
    pub(crate) heads: Heads,
    /// How many classes use the pool.
    classes: u32,
}

/// What the jobs of a class that is restored say of what they wait for.
#[derive(Clone, Copy)]
pub(crate) struct Said {
    /// All of them say that they wait for room.
    pub(crate) all_of_room: bool,
    /// Some of them say neither that nor that a group holds them.
    pub(crate) some_nothing: bool,
}

/// All pools and classes.
pub(crate) struct Queue {
    pools: BTreeMap<PoolId, Pool>,
    nodes: Nodes,
    /// Pools in which a job waits, by the best rank of all their heads.
    first: BTreeSet<(Rank, PoolId)>,
    pool_of: BTreeMap<Arc<Fit>, PoolId>,
    /// Pools without a class, oldest first; an entry may be in use again.
    idle: VecDeque<PoolId>,
    classes: HashMap<ClassId, Class>,
    /// In order, because a hash of so much would be taken anew whenever a table grows.
    class_of: BTreeMap<ClassKey, ClassId>,
    pub(crate) groups: Groups,
    pub(crate) quotas: Quotas,
    pub(crate) lanes: Lanes,
    last_id: u32,
    /// Classes in which a job waits.
    waiting: BTreeSet<ClassId>,
    /// The class that was explained last.
    last_explained: ClassId,
    /// Classes in which the jobs that wait changed, a mark of the event that is being handled; some
    /// may be gone.
    pub(crate) changed: Marked<ClassId>,
    /// Changed explanations not reported yet; `None` where no job waits any more.
    pub(crate) unreported: Vec<(Want, Option<Arc<str>>)>,
}

// === impl Queue ===

impl Queue {
    pub(crate) fn new(key: HashKey) -> Self {
        Self {
            pools: BTreeMap::new(),
            nodes: Nodes::default(),
            first: BTreeSet::new(),
            pool_of: BTreeMap::new(),
            idle: VecDeque::new(),
            classes: HashMap::with_hasher(key),
            class_of: BTreeMap::new(),
            groups: Groups::default(),
            quotas: Quotas::default(),
            lanes: Lanes::default(),
            last_id: 0,
            waiting: BTreeSet::new(),
            last_explained: ClassId::default(),
            changed: Marked::default(),
            unreported: Vec::new(),
        }
    }

    /// Adds a job to the class of its demand, namespace and groups.
    pub(crate) fn enter<'a>(
        &mut self,
        demand: Demand,
        namespace: &str,
        groups: Arc<[GroupId]>,
        nodes: impl Iterator<Item = (NodeBit, &'a SessionRequest)>,
    ) -> ClassId {
        let want = Want { namespace: namespace.into(), demand: Arc::new(demand) };
        self.enter_class(ClassKey { want, excluded: Arc::new([]), groups }, nodes)
    }

    /// Adds a slot that excludes these nodes to a secondary class, in addition to that of its job.
    pub(crate) fn enter_secondary<'a>(
        &mut self,
        main: ClassId,
        excluded: Vec<NodeId>,
        nodes: impl Iterator<Item = (NodeBit, &'a SessionRequest)>,
    ) -> ClassId {
        let main = self.class(main);
        let (want, groups) = (main.want(), Arc::clone(&main.groups));
        self.enter_class(ClassKey { want, excluded: excluded.into(), groups }, nodes)
    }

    fn enter_class<'a>(
        &mut self,
        key: ClassKey,
        nodes: impl Iterator<Item = (NodeBit, &'a SessionRequest)>,
    ) -> ClassId {
        if let Some(id) = self.class_of.get(&key).copied() {
            self.class_mut(id).jobs += 1;
            return id;
        }
        let ClassKey { want: Want { namespace, demand }, excluded, groups } = key.clone();
        let pool = self.pool_for(&demand, nodes);
        let id = ClassId(self.next_id());
        self.class_of.insert(key, id);
        self.classes.insert(
            id,
            Class {
                demand,
                namespace,
                excluded,
                groups,
                pool,
                jobs: 1,
                waiting: BTreeSet::new(),
                blocked: false,
                postponed: false,
                restored: false,
                annotated: false,
                unsaid: false,
                explanation: None,
            },
        );
        id
    }

    /// Reverts the count of a job that was added to a class it already belongs to.
    pub(crate) fn count_out(&mut self, id: ClassId) {
        self.class_mut(id).jobs -= 1;
    }

    /// Removes a job from its class; the last job to leave also removes the class.
    pub(crate) fn leave(&mut self, id: ClassId, rank: Rank) {
        self.stop_waiting(id, rank);
        let class = self.class_mut(id);
        class.jobs -= 1;
        if class.jobs > 0 {
            return;
        }
        let pool_id = class.pool;
        if let Some(class) = self.classes.remove(&id) {
            if class.explanation.is_some() {
                self.unreported.push((class.want(), None));
            }
            self.class_of.remove(&class.key());
        }
        let pool = self.pool_mut(pool_id);
        pool.classes -= 1;
        if pool.classes == 0 {
            self.idle.push_back(pool_id);
        }
    }

    /// Removes idle pools beyond the bound.
    pub(crate) fn drop_surplus_pools(&mut self) {
        while self.idle.len() > IDLE_POOLS {
            let Some(id) = self.idle.pop_front() else { break };
            let unused = self.pools.get(&id).is_some_and(|pool| pool.classes == 0);
            if unused && let Some(pool) = self.pools.remove(&id) {
                self.pool_of.remove(&pool.fit);
            }
        }
    }

    pub(crate) fn wait(&mut self, id: ClassId, rank: Rank) {
        let class = self.class_mut(id);
        class.annotated &= !class.waiting.insert(rank);
        self.waiting.insert(id);
        self.head_changed(id);
    }

    /// Restores the jobs that wait, and whether each of them says so. A set that is made of all its
    /// elements in one step is half as large as one that they came into in order, which is what
    /// counts for a million of them.
    pub(crate) fn restore_waiting(&mut self, id: ClassId, ranks: Vec<Rank>, said: Said) {
        let class = self.class_mut(id);
        class.waiting = ranks.into_iter().collect();
        (class.annotated, class.unsaid) = (said.all_of_room, said.some_nothing);
        class.restored = true;
        self.waiting.insert(id);
        self.head_changed(id);
        if self.quotas.is_held(Entry::Class(id)) {
            self.class_mut(id).restored = false;
        }
    }

    pub(crate) fn stop_waiting(&mut self, id: ClassId, rank: Rank) {
        let class = self.class_mut(id);
        if !class.waiting.remove(&rank) {
            return;
        }
        if class.waiting.is_empty() {
            class.blocked = false;
            class.postponed = false;
            class.restored = false;
            class.unsaid = false;
            if class.explanation.take().is_some() {
                let want = class.want();
                self.unreported.push((want, None));
            }
            self.waiting.remove(&id);
        }
        self.head_changed(id);
    }

    /// Jobs of the class began or ceased to wait, so that another one may be the first.
    pub(in crate::queue) fn head_changed(&mut self, id: ClassId) {
        self.changed.push(id);
        let class =
            self.classes.get(&id).expect("a class lives as long as a job is counted into it");
        let (entry, first) = (Entry::Class(id), class.waiting.first().copied());
        match first {
            Some(rank) => self.quotas.follow(entry, rank, &class.namespace, &class.demand.need),
            None => self.quotas.leave(entry),
        }
        match first {
            _ if class.groups.is_empty() => {}
            Some(rank) => self.groups.follow(entry, rank, &class.groups),
            None => self.groups.leave(entry),
        }
        let is_open = !self.is_held(id);
        let head = first.filter(|_| is_open).map(|rank| (rank, class.demand.need));
        let (pool_id, share) = (class.pool, self.quotas.share(&class.namespace));
        self.lanes.set_head(id, &class.namespace, share, head);
        let pool = self.pool_mut(pool_id);
        let before = pool.heads.best();
        pool.heads.set(id, head);
        let best = pool.heads.best();
        if best != before {
            if let Some(before) = before {
                self.first.remove(&(before, pool_id));
            }
            self.first.extend(best.map(|best| (best, pool_id)));
        }
    }

    /// Stores why the jobs of the class wait, until the next explanation or until no job waits.
    pub(crate) fn explain(&mut self, id: ClassId, text: Arc<str>) -> Arc<str> {
        let class = self.class_mut(id);
        if !class.excluded.is_empty() || !class.groups.is_empty() {
            // An explanation is keyed by what the jobs want, so this one would overwrite that of
            // the class without exclusions and groups.
            return text;
        }
        if let Some(known) = class.explanation.as_ref().filter(|known| ***known == *text) {
            return Arc::clone(known);
        }
        class.explanation = Some(Arc::clone(&text));
        let want = class.want();
        self.unreported.push((want, Some(Arc::clone(&text))));
        text
    }

    pub(crate) fn class(&self, id: ClassId) -> &Class {
        self.classes.get(&id).expect("a class lives as long as a job is counted into it")
    }

    pub(crate) fn class_mut(&mut self, id: ClassId) -> &mut Class {
        self.classes.get_mut(&id).expect("a class lives as long as a job is counted into it")
    }

    pub(crate) fn pool(&self, id: PoolId) -> &Pool {
        self.pools.get(&id).expect("a pool lives as long as a class uses it")
    }

    fn pool_mut(&mut self, id: PoolId) -> &mut Pool {
        self.pools.get_mut(&id).expect("a pool lives as long as a class uses it")
    }

    pub(crate) fn pools(&self) -> impl Iterator<Item = (&PoolId, &Pool)> {
        self.pools.iter()
    }

    pub(crate) fn classes(&self) -> impl Iterator<Item = (&ClassId, &Class)> {
        self.classes.iter()
    }

    /// Classes in which a job waits.
    pub(crate) fn waiting_classes(&self) -> impl Iterator<Item = (ClassId, &Class)> {
        self.waiting.iter().filter_map(|id| Some((*id, self.classes.get(id)?)))
    }

    /// The class without exclusions in which jobs that want the same wait.
    pub(crate) fn main_of(&self, class: &Class) -> Option<ClassId> {
        self.class_of.get(&ClassKey { excluded: Arc::new([]), ..class.key() }).copied()
    }

    pub(crate) fn is_waiting(&self, id: ClassId) -> bool {
        self.waiting.contains(&id)
    }

    pub(crate) fn find_class(&self, id: ClassId) -> Option<&Class> {
        self.classes.get(&id)
    }

    /// Classes in which a job waits, which cost up to `budget` together or are a single one, in
    /// rotation: each call resumes after the last one.
    pub(crate) fn next_waiting_classes(
        &mut self,
        budget: usize,
        cost: impl Fn(&Class) -> usize,
    ) -> Vec<ClassId> {
        let after = (Bound::Excluded(self.last_explained), Bound::Unbounded);
        let upto = (Bound::Unbounded, Bound::Included(self.last_explained));
        let mut next = Vec::new();
        let mut spent = 0;
        for id in self.waiting.range(after).chain(self.waiting.range(upto)) {
            spent += cost(self.class(*id));
            if spent > budget && !next.is_empty() {
                break;
            }
            next.push(*id);
        }
        self.last_explained = next.last().copied().unwrap_or(self.last_explained);
        next
    }

    fn pool_for<'a>(
        &mut self,
        demand: &Demand,
        nodes: impl Iterator<Item = (NodeBit, &'a SessionRequest)>,
    ) -> PoolId {
        if let Some(id) = self.pool_of.get(&demand.fit).copied() {
            self.pool_mut(id).classes += 1;
            return id;
        }
        let id = PoolId(self.next_id());
        let fit = Arc::new(demand.fit.clone());
        let mut members = Members::default();
        for (bit, _) in nodes.filter(|(_, record)| suits(&fit, record)) {
            members.set(bit, true);
        }
        let pool = Pool { fit: Arc::clone(&fit), members, heads: Heads::default(), classes: 1 };
        self.pool_of.insert(fit, id);
        self.pools.insert(id, pool);
        id
    }

    fn next_id(&mut self) -> u32 {
        // Wraps after four billion IDs; the first ones are long unused by then.
        loop {
            self.last_id = self.last_id.wrapping_add(1);
            let id = self.last_id;
            if !self.classes.contains_key(&ClassId(id)) && !self.pools.contains_key(&PoolId(id)) {
                return id;
            }
        }
    }
}
