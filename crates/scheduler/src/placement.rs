//! Placement: which slot goes to which node, and when nodes and queues are scanned.

use alloc::vec::Vec;

use api_types::{JobId, NodeId};

use crate::change::PendingSlotRow;
use crate::job::Slot;
use crate::node::LiveNode;
use crate::plan::Plan;
use crate::pool::{ClassId, Passed, Rank, Search};
use crate::reservation::Waiter;
use crate::time::Moment;
use crate::timer::Timer;
use crate::{Scheduler, Turn};

/// A slot that a node could take, with its rank among all waiting slots.
struct Candidate {
    rank: Rank,
    slot: Ready,
}

/// Identifies a slot of a job.
enum Ready {
    /// A slot that is bound to this node.
    Pinned(u32),
    /// The next ready slot in this class.
    Next(ClassId),
}

// === impl Scheduler: placement ===

impl Scheduler {
    /// Places the job's ready slots, or queues the job in its class.
    ///
    /// Costs O(log n) per placed slot. A search that finds no node scans every node of the pool
    /// once and marks the class as blocked, so that it is not repeated before a node gains room.
    pub(crate) fn place_job(&mut self, turn: &mut Turn<'_>, id: JobId, class_id: ClassId) {
        let Some(job) = self.jobs.get(&id) else { return };
        if self.queue.find_class(class_id).is_none() {
            return;
        }
        let job_plan = job.plan.clone();
        let rank = job_plan.rank;
        if !job.has_ready_slot(class_id) {
            self.queue.stop_waiting(class_id, rank);
            return;
        }
        let others_wait = self.queue.class(class_id).waiting.iter().any(|other| *other != rank);
        if others_wait {
            // Either there is no room, or this turn's budget is exhausted and the class is in the
            // backlog.
            self.queue.wait(class_id, rank);
            return;
        }
        if self.backlog_precedes(rank, class_id) {
            self.queue.wait(class_id, rank);
            self.postpone_class(class_id);
            return;
        }
        while self.jobs[&id].has_ready_slot(class_id) {
            if turn.budget.is_spent() {
                self.queue.wait(class_id, rank);
                self.postpone_class(class_id);
                return;
            }
            let Some(node) = self.choose_node(class_id, &job_plan, turn.now) else {
                self.queue.wait(class_id, rank);
                self.queue.class_mut(class_id).blocked = true;
                return;
            };
            self.place_next(turn, id, class_id, node);
        }
    }

    /// The emptiest node that has room, is not excluded, and is not reserved for others.
    fn choose_node(&self, class_id: ClassId, plan: &Plan, now: Moment) -> Option<NodeId> {
        let class = self.queue.class(class_id);
        let mut nodes = self.queue.nodes_of(class.pool).filter(|node| class.admits(*node));
        nodes.find(|node| self.nodes[node].takes_now(&class.demand, plan, now))
    }

    fn place_next(&mut self, turn: &mut Turn<'_>, id: JobId, class: ClassId, node: NodeId) {
        let job = self.jobs.get_mut(&id).expect("only live jobs are placed");
        let slot =
            job.take_ready_slot(class, &mut turn.out.changes).expect("the job has a ready slot");
        self.timers.cancel(Timer::Exclusion(id, slot.index));
        self.place_slot(turn, id, slot, node);
        let job = &self.jobs[&id];
        let rank = job.plan.rank;
        if !job.has_ready_slot(class) {
            self.queue.stop_waiting(class, rank);
        }
        self.reserved_work_placed(Waiter::Class(class), rank);
        self.leave_empty_classes(id);
    }

    /// Leaves the job's secondary classes in which none of its slots waits any more.
    pub(crate) fn leave_empty_classes(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let rank = job.plan.rank;
        let empty: Vec<_> = job
            .extras
            .aside
            .iter()
            .filter(|(_, slots)| slots.is_empty())
            .map(|(id, _)| *id)
            .collect();
        for class in empty {
            job.extras.to_mut().aside.remove(&class);
            self.queue.leave(class, rank);
        }
    }

    /// Makes a slot eligible for placement on any node that it does not exclude.
    pub(crate) fn slot_is_ready(&mut self, turn: &mut Turn<'_>, id: JobId, index: u32) {
        let class = self.queue_slot(turn.now, id, index);
        if let Some(class) = class {
            self.place_job(turn, id, class);
        }
    }

    /// Records the class in which the slot waits.
    pub(crate) fn queue_slot(&mut self, now: Moment, id: JobId, index: u32) -> Option<ClassId> {
        let job = self.jobs.get_mut(&id)?;
        let (main, slot) = (job.class?, job.extras.pending.get(index)?);
        let excluded = slot.tries.exclusions.nodes(now);
        if excluded.is_empty() {
            job.extras.to_mut().ready.insert(index);
            return Some(main);
        }
        if let Some(end) = slot.tries.exclusions.next_end(now) {
            self.timers.set(end, Timer::Exclusion(id, index));
        }
        let class = self.queue.enter_beside(main, excluded, self.nodes.values());
        if job.extras.aside.contains_key(&class) {
            self.queue.count_out(class);
        }
        job.extras.to_mut().aside.entry(class).or_default().insert(index);
        Some(class)
    }

    pub(crate) fn exclusion_ended(&mut self, turn: &mut Turn<'_>, id: JobId, index: u32) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let rank = job.plan.rank;
        let class =
            job.extras.aside.iter().find(|(_, slots)| slots.contains(&index)).map(|(id, _)| *id);
        let Some(class) = class else { return };
        if let Some(slots) = job.extras.to_mut().aside.get_mut(&class) {
            slots.remove(&index);
        }
        if !job.has_ready_slot(class) {
            self.queue.stop_waiting(class, rank);
        }
        self.leave_empty_classes(id);
        self.slot_is_ready(turn, id, index);
        self.reserved_work_moved(class, rank);
        self.refresh_job(turn, id);
    }

    fn place_slot(&mut self, turn: &mut Turn<'_>, id: JobId, slot: Slot, node: NodeId) {
        turn.budget.spend();
        self.offer(turn, id, slot, node);
    }

    /// Places waiting slots on a node that has room, by priority, then age.
    pub(crate) fn fill_node(&mut self, turn: &mut Turn<'_>, node_id: NodeId) {
        self.fill_node_after(turn, node_id, None);
    }

    /// The same, where it had no room for anything of the pools up to this one.
    pub(crate) fn fill_node_after(
        &mut self,
        turn: &mut Turn<'_>,
        node_id: NodeId,
        mut after: Option<Passed>,
    ) {
        loop {
            if turn.budget.is_spent() {
                self.backlog.nodes.insert(node_id, after);
                return;
            }
            let (candidate, passed) = self.best_candidate(node_id, turn.now, after);
            turn.budget.spend_many(passed.steps);
            after = passed.until;
            let Some(candidate) = candidate else {
                if passed.is_all {
                    return;
                }
                continue;
            };
            let id = candidate.rank.job;
            match candidate.slot {
                Ready::Pinned(index) => self.place_pinned(turn, id, index, node_id),
                Ready::Next(class) => self.place_next(turn, id, class, node_id),
            }
            self.refresh_job(turn, id);
        }
    }

    /// The first of all waiting slots that this node has room for, and how far the search came.
    fn best_candidate(
        &self,
        node_id: NodeId,
        now: Moment,
        after: Option<Passed>,
    ) -> (Option<Candidate>, Search) {
        let node = self.nodes.get(&node_id).filter(|node| node.takes_work());
        let Some((node, place)) = node.and_then(|node| Some((node, node.place?))) else {
            return (None, Search::over());
        };
        let pinned = node
            .pinned
            .iter()
            .find(|(rank, _)| {
                let Some(job) = self.jobs.get(&rank.job) else { return false };
                let Some(class) = job.class.map(|class| self.queue.class(class)) else {
                    return false;
                };
                node.takes_now(&class.demand, &job.plan, now)
            })
            .map(|(rank, index)| Candidate { rank: *rank, slot: Ready::Pinned(*index) });
        let limits = node.limits();
        let admits = |rank: Rank, class: ClassId| {
            let class = self.queue.class(class);
            let plan = &self.jobs[&rank.job].plan;
            class.admits(node_id) && node.takes_now(&class.demand, plan, now)
        };
        let search = self.queue.first_for(place, &limits, after, admits);
        let waiting =
            search.found.map(|(rank, class)| Candidate { rank, slot: Ready::Next(class) });
        let first = match (pinned, waiting) {
            (Some(pinned), Some(waiting)) if waiting.rank < pinned.rank => Some(waiting),
            (Some(pinned), _) => Some(pinned),
            (None, waiting) => waiting,
        };
        (first, search)
    }

    fn place_pinned(&mut self, turn: &mut Turn<'_>, id: JobId, index: u32, node_id: NodeId) {
        let job = self.jobs.get_mut(&id).expect("only slots of live jobs are pinned");
        let rank = job.plan.rank;
        let slot = job.take_pending(index, &mut turn.out.changes);
        if let Some(node) = self.nodes.get_mut(&node_id) {
            node.pinned.remove(&(rank, index));
            self.reservations.repinned.push(node_id);
        }
        self.place_slot(turn, id, slot.expect("a pinned slot is pending"), node_id);
        self.reserved_work_placed(Waiter::Pinned(node_id), rank);
    }

    /// Gives a per-node job a slot on every node that matches and has none, also where a trouble
    /// that may pass keeps the node from work.
    pub(crate) fn cover_nodes(&mut self, turn: &mut Turn<'_>, id: JobId) {
        let Some(class) = self.jobs[&id].class else { return };
        let class = self.queue.class(class);
        let pool = self.queue.pool(class.pool);
        let matches = |node: &&LiveNode| node.is_in_service() && pool.suits(node);
        let nodes: Vec<_> = self.nodes.values().filter(matches).map(LiveNode::id).collect();
        // Create all slots before placing the first: each execution receives the total number.
        for node in &nodes {
            self.cover_node(turn, id, *node);
        }
        for node in nodes {
            match turn.budget.is_spent() {
                true => drop(self.backlog.nodes.insert(node, None)),
                false => self.fill_node(turn, node),
            }
        }
    }

    /// Gives matching daemons a slot on a node that joined or changed, where they have none. All of
    /// them have one before the first is placed: on a node that is probed, that is the last for now.
    pub(crate) fn cover_by_daemons(&mut self, turn: &mut Turn<'_>, node: NodeId) -> Vec<JobId> {
        let daemons = self.daemons.iter().copied();
        let matches = |id: &JobId| {
            let class = self.jobs[id].class.map(|class| self.queue.class(class));
            class.is_some_and(|class| self.queue.pool(class.pool).fits(&self.nodes[&node]))
        };
        let covered: Vec<_> = daemons.filter(matches).collect();
        for id in &covered {
            self.cover_node(turn, *id, node);
        }
        covered
    }

    fn cover_node(&mut self, turn: &mut Turn<'_>, id: JobId, node_id: NodeId) {
        let job = self.jobs.get_mut(&id).expect("only live jobs cover nodes");
        if job.extras.covered.contains_key(&node_id) {
            return;
        }
        let index = job.row.slots.extend();
        job.row.fresh = job.row.slots.end();
        job.extras.to_mut().covered.insert(node_id, index);
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
        job.extras.to_mut().pending.insert(slot);
        let rank = job.plan.rank;
        if let Some(node) = self.nodes.get_mut(&node_id) {
            node.pin(rank, index);
            self.reservations.repinned.push(node_id);
        }
    }

    /// Places the jobs of a class for which an earlier turn had no budget, until those of another
    /// such class come first.
    pub(crate) fn place_class(&mut self, turn: &mut Turn<'_>, class_id: ClassId) {
        loop {
            // Its last job may have ended since the class entered the backlog.
            let Some(class) = self.queue.find_class(class_id) else { return };
            let Some(rank) = class.waiting.first().copied().filter(|_| !class.blocked) else {
                return;
            };
            let is_next = self.backlog.classes.first().is_none_or(|(next, _)| rank <= *next);
            if turn.budget.is_spent() || !is_next {
                self.postpone_class(class_id);
                return;
            }
            let plan = self.jobs[&rank.job].plan.clone();
            match self.choose_node(class_id, &plan, turn.now) {
                Some(node) => {
                    self.place_next(turn, rank.job, class_id, node);
                    self.refresh_job(turn, rank.job);
                }
                None => {
                    let class = self.queue.class_mut(class_id);
                    class.blocked = true;
                    class.restored = false;
                    if !core::mem::take(&mut class.annotated) {
                        self.refresh_waiting(turn, class_id, None);
                    }
                    return;
                }
            }
        }
    }

    /// Sets the timers of a job that was loaded from the store.
    pub(crate) fn set_job_timers(&mut self, id: JobId) {
        let job = &self.jobs[&id];
        if let Some(bound) = job.plan.total_timeout() {
            self.timers.set(job.plan.rank.created + bound, Timer::TotalTimeout(id));
        }
        for slot in job.extras.pending.iter() {
            if let Some(due) = slot.due {
                self.timers.set(due, Timer::Retry(id, slot.index));
            }
        }
    }
}
