//! Placement: which slot goes to which node, and what is looked at when.

use api_types::{JobId, NodeId};

use super::change::PendingSlotRow;
use super::job::Slot;
use super::pool::{ClassId, Rank};
use super::timer::Timer;
use super::{Engine, Turn};

/// A slot that a node could take, with its place in the order of all that wait.
struct Candidate {
    rank: Rank,
    /// The slot that is bound to this node; otherwise the next ready slot of the job.
    pinned: Option<u32>,
}

// === impl Engine: placement ===

impl Engine {
    /// Places what is ready of the job, or has it wait in its class.
    ///
    /// Costs O(log n) per placed slot. A search that finds nothing looks at every node of the pool
    /// once, and marks the class as blocked, so that it is not repeated before a node gains room.
    pub(super) fn place_job(&mut self, turn: &mut Turn<'_>, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        let (Some(class_id), rank) = (job.class, job.plan.rank) else { return };
        if !job.has_ready_slot() {
            self.queue.stop_waiting(class_id, rank);
            return;
        }
        let others_wait = self.queue.class(class_id).waiting.iter().any(|other| *other != rank);
        if others_wait {
            // They were not placed, so there is no room, or the budget of this turn is used up and
            // the class is in the backlog.
            self.queue.wait(class_id, rank);
            return;
        }
        while self.jobs[&id].has_ready_slot() {
            if turn.budget == 0 {
                self.queue.wait(class_id, rank);
                self.backlog.classes.insert(class_id);
                return;
            }
            let Some(node) = self.choose_node(id, class_id) else {
                self.queue.wait(class_id, rank);
                self.queue.class_mut(class_id).blocked = true;
                return;
            };
            self.place_next(turn, id, node);
        }
        self.queue.stop_waiting(class_id, rank);
    }

    /// The emptiest node that has room, one on which the slot has not failed if there is one.
    fn choose_node(&self, id: JobId, class_id: ClassId) -> Option<NodeId> {
        let class = self.queue.class(class_id);
        let avoid = self.jobs[&id]
            .pending
            .values()
            .find(|slot| slot.due.is_none() && slot.pinned.is_none())
            .map_or(&[][..], |slot| &slot.tries.avoid);
        let mut second_best = None;
        for (_, node_id) in &self.queue.pool(class.pool).nodes {
            if !self.nodes[node_id].has_room(&class.demand) {
                continue;
            }
            if !avoid.contains(node_id) {
                return Some(*node_id);
            }
            second_best = second_best.or(Some(*node_id));
        }
        second_best
    }

    fn place_next(&mut self, turn: &mut Turn<'_>, id: JobId, node: NodeId) {
        let job = self.jobs.get_mut(&id).expect("only live jobs are placed");
        let slot = job.take_ready_slot(&mut turn.out.changes).expect("the job has a ready slot");
        self.place_slot(turn, id, slot, node);
    }

    fn place_slot(&mut self, turn: &mut Turn<'_>, id: JobId, slot: Slot, node: NodeId) {
        turn.budget = turn.budget.saturating_sub(1);
        self.offer(turn, id, slot, node);
    }

    /// Gives a node that has room what waits for it, by priority, then age.
    pub(super) fn fill_node(&mut self, turn: &mut Turn<'_>, node_id: NodeId) {
        loop {
            let Some(candidate) = self.best_candidate(node_id) else { return };
            if turn.budget == 0 {
                self.backlog.nodes.insert(node_id);
                return;
            }
            let id = candidate.rank.job;
            match candidate.pinned {
                Some(index) => self.place_pinned(turn, id, index, node_id),
                None => {
                    self.place_next(turn, id, node_id);
                    if let Some(class) = self.jobs[&id].class
                        && !self.jobs[&id].has_ready_slot()
                    {
                        self.queue.stop_waiting(class, candidate.rank);
                    }
                }
            }
            self.refresh_job(turn, id);
        }
    }

    /// The first in the order of all that wait and that this node has room for.
    ///
    /// Looks at the head of each waiting class of the node's pools: within a class all ask for the
    /// same.
    fn best_candidate(&self, node_id: NodeId) -> Option<Candidate> {
        let node = self.nodes.get(&node_id).filter(|node| node.takes_work())?;
        let pinned = node
            .pinned
            .iter()
            .find(|(rank, _)| {
                let class = self.jobs.get(&rank.job).and_then(|job| job.class);
                class.is_some_and(|class| node.has_room(&self.queue.class(class).demand))
            })
            .map(|(rank, index)| Candidate { rank: *rank, pinned: Some(*index) });
        let waiting = node
            .pools
            .iter()
            .flat_map(|pool| self.queue.pool(*pool).waiting.iter())
            .map(|class| self.queue.class(*class))
            .filter(|class| node.has_room(&class.demand))
            .filter_map(|class| class.waiting.first())
            .min()
            .map(|rank| Candidate { rank: *rank, pinned: None });
        match (pinned, waiting) {
            (Some(pinned), Some(waiting)) if waiting.rank < pinned.rank => Some(waiting),
            (Some(pinned), _) => Some(pinned),
            (None, waiting) => waiting,
        }
    }

    fn place_pinned(&mut self, turn: &mut Turn<'_>, id: JobId, index: u32, node_id: NodeId) {
        let job = self.jobs.get_mut(&id).expect("only slots of live jobs are pinned");
        let rank = job.plan.rank;
        let slot = job.take_pending(index, &mut turn.out.changes);
        if let Some(node) = self.nodes.get_mut(&node_id) {
            node.pinned.remove(&(rank, index));
        }
        self.place_slot(turn, id, slot.expect("a pinned slot is pending"), node_id);
    }

    /// Gives a per-node job a slot on every node that matches now and has none.
    pub(super) fn cover_nodes(&mut self, turn: &mut Turn<'_>, id: JobId) {
        let Some(class) = self.jobs[&id].class else { return };
        let pool = self.queue.class(class).pool;
        let nodes: Vec<_> = self.queue.pool(pool).nodes.iter().map(|(_, node)| *node).collect();
        for node in nodes {
            self.cover_node(turn, id, node);
        }
    }

    /// A node joined, or changed: daemons that match it and have no slot there get one.
    pub(super) fn cover_by_daemons(&mut self, turn: &mut Turn<'_>, node: NodeId) {
        for id in self.daemons.clone() {
            let class = self.jobs[&id].class.map(|class| self.queue.class(class));
            let matches =
                class.is_some_and(|class| self.queue.pool(class.pool).fits(&self.nodes[&node]));
            if matches {
                self.cover_node(turn, id, node);
                self.refresh_job(turn, id);
            }
        }
    }

    fn cover_node(&mut self, turn: &mut Turn<'_>, id: JobId, node_id: NodeId) {
        let job = self.jobs.get_mut(&id).expect("only live jobs cover nodes");
        if job.covered.contains_key(&node_id) {
            return;
        }
        let index = job.row.slots;
        job.row.slots += 1;
        job.row.fresh = job.row.slots;
        job.covered.insert(node_id, index);
        turn.out.changes.jobs.insert(id, job.row.clone());
        let slot = PendingSlotRow {
            job: id,
            index,
            evaluation: job.row.evaluation,
            pinned: Some(node_id),
            tries: super::change::Tries { attempt: 1, ..Default::default() },
            due: None,
            previous: None,
        };
        turn.out.changes.pending_slots.insert((id, index), Some(slot.clone()));
        job.pending.insert(index, slot);
        let rank = job.plan.rank;
        if let Some(node) = self.nodes.get_mut(&node_id) {
            node.pin(rank, index);
        }
        self.fill_node(turn, node_id);
    }

    /// Goes on with what an earlier turn had no budget for.
    pub(super) fn work_off_backlog(&mut self, turn: &mut Turn<'_>) {
        while turn.budget > 0
            && let Some(node) = self.backlog.nodes.pop_first()
        {
            self.fill_node(turn, node);
        }
        while turn.budget > 0
            && let Some(class_id) = self.backlog.classes.pop_first()
        {
            self.place_class(turn, class_id);
        }
    }

    fn place_class(&mut self, turn: &mut Turn<'_>, class_id: ClassId) {
        loop {
            // Its last job may have ended since it came into the backlog.
            let Some(class) = self.queue.find_class(class_id) else { return };
            let Some(rank) = class.waiting.first().copied().filter(|_| !class.blocked) else {
                return;
            };
            if turn.budget == 0 {
                self.backlog.classes.insert(class_id);
                return;
            }
            match self.choose_node(rank.job, class_id) {
                Some(node) => {
                    self.place_next(turn, rank.job, node);
                    if !self.jobs[&rank.job].has_ready_slot() {
                        self.queue.stop_waiting(class_id, rank);
                    }
                    self.refresh_job(turn, rank.job);
                }
                None => {
                    self.queue.class_mut(class_id).blocked = true;
                    self.refresh_waiting(turn, class_id);
                    return;
                }
            }
        }
    }

    /// The class turned out to be blocked: its jobs are queued now.
    fn refresh_waiting(&mut self, turn: &mut Turn<'_>, class_id: ClassId) {
        let ranks: Vec<_> = self.queue.class(class_id).waiting.iter().copied().collect();
        for rank in ranks {
            self.refresh_job(turn, rank.job);
        }
    }

    /// The timers of a job that was loaded from the store.
    pub(super) fn set_job_timers(&mut self, id: JobId) {
        let job = &self.jobs[&id];
        if let Some(bound) = job.plan.total_timeout {
            self.timers.set(job.plan.rank.created + bound, Timer::TotalTimeout(id));
        }
        for (index, slot) in &job.pending {
            if let Some(due) = slot.due {
                self.timers.set(due, Timer::Retry(id, *index));
            }
        }
    }
}
