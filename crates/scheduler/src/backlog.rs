//! Work that one turn has no budget for.
//!
//! No input may hold the driver for long, whatever it brings about: a job of 100,000 executions is
//! stopped, a node that ran thousands goes silent, a million timers are due at once. So a turn ends,
//! places or annotates [`PER_TURN`] executions and jobs at most; what is left is kept here, or
//! stays due among the timers, and continues with the next tick, which the scheduler asks for at
//! once. Inputs that arrive meanwhile are handled in between.

use alloc::collections::{BTreeMap, BTreeSet};
use core::ops::Bound;

use api_types::job::JobStateType;
use api_types::{ExecutionId, JobId, NodeId};

use crate::pool::{ClassId, Passed, PoolId, Rank};
use crate::text::Text;
use crate::{Scheduler, Turn};

/// Executions and jobs that one turn ends, places or annotates: some milliseconds of work.
const PER_TURN: u32 = 512;

/// What it costs to compare a node with some thousands of pools: a whole turn.
const COMPARISONS: usize = 512;

/// Everything continues after the entry that was handled last.
#[derive(Default)]
pub(crate) struct Backlog {
    /// Nodes that are compared with pools, and the last pool of those.
    pub(crate) comparisons: BTreeMap<NodeId, PoolId>,
    /// Nodes that have room for more, and where the search for work continues.
    pub(crate) nodes: BTreeMap<NodeId, Option<Passed>>,
    /// Classes whose jobs may find room, each with the rank of its first job when it was put here.
    pub(crate) classes: BTreeSet<(Rank, ClassId)>,
    /// Blocked classes some of whose jobs do not say yet that they wait.
    refreshes: BTreeMap<ClassId, Option<Rank>>,
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
    /// Jobs of which nothing that scheduling needs could be read, and why. They are in no class.
    pub(crate) damaged: BTreeMap<JobId, Text>,
}

/// What a turn may still do.
#[derive(Debug)]
pub(crate) struct Budget(u32);

// === impl Budget ===

impl Budget {
    pub(crate) fn of_a_turn() -> Self {
        Self(PER_TURN)
    }

    pub(crate) fn spend(&mut self) {
        self.0 = self.0.saturating_sub(1);
    }

    pub(crate) fn spend_many(&mut self, steps: usize) {
        self.0 = self.0.saturating_sub(u32::try_from(steps).unwrap_or(u32::MAX));
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.0 == 0
    }
}

// === impl Backlog ===

impl Backlog {
    pub(crate) fn is_empty(&self) -> bool {
        let Self { comparisons, nodes, classes, refreshes, stops, drains, .. } = self;
        let Self { covers, silences, provided, damaged, .. } = self;
        comparisons.is_empty()
            && nodes.is_empty()
            && classes.is_empty()
            && refreshes.is_empty()
            && stops.is_empty()
            && drains.is_empty()
            && covers.is_empty()
            && silences.is_empty()
            && provided.is_empty()
            && damaged.is_empty()
    }
}

// === impl Scheduler: the backlog ===

impl Scheduler {
    /// Continues what earlier turns had no budget for.
    pub(crate) fn work_off_backlog(&mut self, turn: &mut Turn<'_>) {
        while !turn.budget.is_spent()
            && let Some((job, why)) = self.backlog.damaged.pop_first()
        {
            turn.budget.spend();
            self.end_job(turn, job, JobStateType::Failed, why);
            self.drop_if_over(turn, job);
        }
        while !turn.budget.is_spent()
            && let Some((job, after)) = self.backlog.stops.pop_first()
        {
            self.stop_executions(turn, job, after);
        }
        while !turn.budget.is_spent()
            && let Some(node) = self.backlog.drains.pop_first()
        {
            self.move_work(turn, node);
        }
        while !turn.budget.is_spent()
            && let Some(node) = self.backlog.covers.pop_first()
        {
            self.take_up_work(turn, node);
        }
        while !turn.budget.is_spent()
            && let Some(node) = self.backlog.silences.pop_first()
        {
            turn.budget.spend();
            self.tell_jobs_of_silence(turn, node);
        }
        while !turn.budget.is_spent()
            && let Some(job) = self.backlog.provided.pop_first()
        {
            self.try_provided(turn, job);
        }
        while !turn.budget.is_spent()
            && let Some((node, after)) = self.backlog.comparisons.pop_first()
        {
            self.compare_node(turn, node, after);
        }
        while !turn.budget.is_spent()
            && let Some((node, after)) = self.backlog.nodes.pop_first()
        {
            self.fill_node_after(turn, node, after);
        }
        while !turn.budget.is_spent()
            && let Some((_, class)) = self.backlog.classes.pop_first()
        {
            self.place_class(turn, class);
        }
        while !turn.budget.is_spent()
            && let Some((class, after)) = self.backlog.refreshes.pop_first()
        {
            self.refresh_waiting(turn, class, after);
        }
    }

    /// Updates the pools after a change of a node.
    pub(crate) fn follow_node(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        if let Some(after) = self.queue.follow(node) {
            self.backlog.comparisons.insert(id, after);
        }
    }

    fn compare_node(&mut self, turn: &mut Turn<'_>, id: NodeId, after: PoolId) {
        let Some(node) = self.nodes.get(&id) else { return };
        turn.budget.spend_many(COMPARISONS);
        if let Some(after) = self.queue.compare(node, Some(after)) {
            self.backlog.comparisons.insert(id, after);
        }
        self.backlog.nodes.insert(id, None);
    }

    /// The jobs of the class are placed when their turn comes.
    pub(crate) fn postpone_class(&mut self, id: ClassId) {
        let first = self.queue.find_class(id).and_then(|class| class.waiting.first());
        self.backlog.classes.extend(first.map(|rank| (*rank, id)));
    }

    /// Whether the backlog holds room for jobs that come before this one: they wait for the same
    /// kind of node, whatever they require of it and in any namespace.
    ///
    /// Without a backlog, a job waits only because no node has room for it.
    pub(crate) fn backlog_precedes(&self, rank: Rank, id: ClassId) -> bool {
        /// Entries to examine; with more that come first, the job waits for all of them.
        const EXAMINED: usize = 16;
        let Backlog { nodes, classes, .. } = &self.backlog;
        if nodes.is_empty() && classes.is_empty() {
            return false;
        }
        let pool = self.queue.class(id).pool;
        let first_waits = || self.queue.pool(pool).heads.best().is_some_and(|best| best < rank);
        let is_of_pool = |other: &ClassId| {
            *other != id && self.queue.find_class(*other).is_some_and(|other| other.pool == pool)
        };
        let mut before = classes.range(..(rank, ClassId::default())).map(|(_, class)| class);
        (!nodes.is_empty() && first_waits())
            || before.by_ref().take(EXAMINED).any(is_of_pool)
            || before.next().is_some()
    }

    /// Asks the executions of a job that is over to stop.
    pub(crate) fn stop_executions(
        &mut self,
        turn: &mut Turn<'_>,
        id: JobId,
        mut after: Option<ExecutionId>,
    ) {
        loop {
            let Some(job) = self.jobs.get(&id) else { return };
            let bound = after.map_or(Bound::Unbounded, Bound::Excluded);
            let next = job.executions.range((bound, Bound::Unbounded)).next().copied();
            let Some(execution) = next else { break };
            if turn.budget.is_spent() {
                self.backlog.stops.insert(id, after);
                return;
            }
            let why = job.row.message.clone();
            turn.budget.spend();
            self.stop_execution(turn, execution, &why);
            after = Some(execution);
        }
        self.drop_if_over(turn, id);
    }

    /// Updates the state of the jobs of a class that turned out to be blocked.
    pub(crate) fn refresh_waiting(
        &mut self,
        turn: &mut Turn<'_>,
        id: ClassId,
        mut after: Option<Rank>,
    ) {
        loop {
            let Some(class) = self.queue.find_class(id) else { return };
            let bound = after.map_or(Bound::Unbounded, Bound::Excluded);
            let Some(rank) = class.waiting.range((bound, Bound::Unbounded)).next().copied() else {
                return;
            };
            if turn.budget.is_spent() {
                self.backlog.refreshes.insert(id, after);
                return;
            }
            turn.budget.spend();
            self.refresh_job(turn, rank.job);
            after = Some(rank);
        }
    }
}
