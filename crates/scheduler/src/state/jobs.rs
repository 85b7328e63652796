//! Changes of jobs and their slots, with their rows, indexes and history.

use alloc::sync::Arc;
use alloc::vec::Vec;

use api_types::job::JobStateType;
use api_types::{JobId, NodeId, Timestamp};

use crate::change::{EventRow, EventSubject, Fact, PendingSlotRow};
use crate::plan::{JobPlan, Plan};
use crate::queue::group::{Entry, GroupId};
use crate::rank::ClassId;
use crate::state::job::{LiveJob, Slot};
use crate::state::{State, dependants, executions, gate, holders, node};
use crate::text::Text;
use crate::time::Moment;
use crate::timer::Timer;
use crate::tries::Tries;
use crate::turn::Turn;

impl State {
    /// Adds a job to its class, and returns what is kept of its plan.
    pub(crate) fn enter_queue(
        &mut self,
        plan: JobPlan,
        id: JobId,
        create_time: Timestamp,
        created: Moment,
        groups: Arc<[GroupId]>,
    ) -> (Plan, ClassId) {
        let nodes = node::bits(&self.nodes);
        let class = self.queue.enter(plan.demand.clone(), &plan.namespace, groups, nodes);
        let namespace = Arc::clone(&self.queue.class(class).namespace);
        (Plan::new(&plan, namespace, id, create_time, created), class)
    }

    /// Records a job-level event; the state may be unchanged.
    pub(crate) fn note_job(
        &mut self,
        turn: &mut Turn<'_>,
        id: JobId,
        state: JobStateType,
        comment: Text,
    ) {
        let seq = self.next_seq();
        let time = executions::event_time(self, turn, id);
        let job = self.jobs.get_mut(&id).expect("events are noted of live jobs");
        let previous = job.row.state;
        job.row.revision += 1;
        job.row.state = state;
        job.row.modify_time = time;
        if state.is_terminal() && !previous.is_terminal() {
            turn.out.facts.push(Fact::JobEnded {
                job: id,
                job_type: job.plan.job_type,
                state,
                at: time,
                submitted: job.plan.create_time,
            });
        }
        turn.out.changes.jobs.insert(id, job.row.clone());
        turn.out.changes.events.push(EventRow {
            seq,
            time,
            revision: job.row.revision,
            comment,
            subject: EventSubject::Job { job: id, previous, new: state },
        });
    }

    /// Leaves the job's secondary classes in which none of its slots waits any more.
    pub(crate) fn leave_empty_classes(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let rank = job.plan.rank;
        let empty: Vec<_> = job
            .extras
            .secondary
            .iter()
            .filter(|(_, slots)| slots.is_empty())
            .map(|(id, _)| *id)
            .collect();
        for class in empty {
            job.extras.to_mut().secondary.remove(&class);
            self.queue.leave(class, rank);
        }
    }

    /// Makes a slot eligible for placement on any node that it does not exclude.
    pub(crate) fn slot_is_ready(&mut self, now: Moment, id: JobId, index: u32) {
        if let Some(class) = self.queue_slot(now, id, index) {
            self.marks.ready.push((id, class));
        }
    }

    /// Lets the jobs that are ready compete with those that wait for the room of a node.
    pub(crate) fn queue_ready_jobs(&mut self) {
        for (job, class) in self.marks.ready.iter() {
            let is_ready = |job: &&LiveJob| job.has_ready_slot(*class);
            if let Some(job) = self.jobs.get(job).filter(is_ready) {
                self.queue.wait(*class, job.plan.rank);
            }
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
        let class = self.queue.enter_secondary(main, excluded, node::bits(&self.nodes));
        if job.extras.secondary.contains_key(&class) {
            self.queue.count_out(class);
        }
        job.extras.to_mut().secondary.entry(class).or_default().insert(index);
        Some(class)
    }

    /// The job no longer waits for anything.
    pub(crate) fn forget_missing(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id).filter(|job| job.plan.names_secrets) else { return };
        let namespace = &*job.plan.namespace;
        if let Some(jobs) = self.missing.jobs.get_mut(namespace) {
            jobs.remove(&id);
            if jobs.is_empty() {
                self.missing.jobs.remove(namespace);
            }
        }
    }

    /// Removes the job from its queues, so that none of its slots waits for room for now.
    pub(crate) fn withdraw_from_queue(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        let rank = job.plan.rank;
        for class in job.classes() {
            self.queue.stop_waiting(class, rank);
        }
    }

    /// Marks the job's ready slots, in all of its classes.
    pub(crate) fn mark_ready(&mut self, id: JobId) {
        let classes = self.jobs.get(&id).map(|job| job.classes()).unwrap_or_default();
        for class in classes {
            self.marks.ready.push((id, class));
        }
    }

    fn pin(&mut self, id: JobId, index: u32, node: NodeId) {
        let job = &self.jobs[&id];
        let (slot, is_held) = ((job.plan.rank, index), job.extras.gate().is_some());
        if let Some(node) = self.nodes.get_mut(&node) {
            node.pin(slot, is_held);
            self.marks.pinned.push(node.id());
        }
        holders::enter(self, id);
        holders::follow(self, id);
        if self.queue.quotas.is_held(Entry::Job(id)) {
            self.marks.jobs.push(id);
        }
    }

    pub(crate) fn cover_node(&mut self, turn: &mut Turn<'_>, id: JobId, node_id: NodeId) {
        let job = self.jobs.get_mut(&id).expect("only live jobs cover nodes");
        if job.extras.covered.contains_key(&node_id) {
            return;
        }
        let index = job.row.slots.extend();
        self.bind_slot(turn, id, index, node_id);
    }

    /// Lets a slot of the job wait for the only node that may run it.
    pub(crate) fn bind_slot(
        &mut self,
        turn: &mut Turn<'_>,
        id: JobId,
        index: u32,
        node_id: NodeId,
    ) {
        let job = self.jobs.get_mut(&id).expect("only slots of live jobs are bound");
        job.row.fresh = job.row.slots.end();
        job.extras.to_mut().covered.insert(node_id, index);
        turn.out.changes.jobs.insert(id, job.row.clone());
        let (evaluation, pinned) = (job.row.evaluation, Some(node_id));
        let tries = Tries { attempt: 1, ..Default::default() };
        let slot =
            PendingSlotRow { job: id, index, evaluation, pinned, tries, due: None, previous: None };
        self.add_pending(turn, slot);
    }

    pub(crate) fn note_waiting(&mut self, turn: &mut Turn<'_>, id: JobId, waits: bool) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        match (waits, job.row.waiting_since) {
            (true, None) => {
                job.row.waiting_since = Some(turn.now);
                if let Some(bound) = job.plan.queue_timeout() {
                    self.timers.set(turn.now + bound, Timer::QueueTimeout(id));
                }
            }
            (false, Some(_)) => {
                job.row.waiting_since = None;
                self.timers.cancel(Timer::QueueTimeout(id));
            }
            (true, Some(_)) | (false, None) => {}
        }
    }

    /// Adds a slot that waits, for a delay if it is due later, for its node if it is pinned to one, or
    /// else for any node that it does not exclude.
    pub(crate) fn add_pending(&mut self, turn: &mut Turn<'_>, slot: PendingSlotRow) {
        let (id, index, due, pinned) = (slot.job, slot.index, slot.due, slot.pinned);
        let job = self.jobs.get_mut(&id).expect("slots are of live jobs");
        job.extras.to_mut().pending.insert(slot.clone());
        self.queue.quotas.queued(&job.plan.namespace, 1);
        turn.out.changes.pending_slots.insert((id, index), Some(slot));
        match (due, pinned) {
            (Some(due), pinned) => {
                self.timers.set(due, Timer::Retry(id, index));
                if let Some(node) = pinned.and_then(|node| self.nodes.get_mut(&node)) {
                    node.delayed.insert((id, index));
                }
            }
            (None, Some(node)) => self.pin(id, index, node),
            (None, None) => self.slot_is_ready(turn.now, id, index),
        }
    }

    /// The delay of a slot is over. Returns the node that it is pinned to, if it is to one; none if
    /// there is no such slot.
    pub(crate) fn end_delay(
        &mut self,
        now: Moment,
        id: JobId,
        index: u32,
    ) -> Option<Option<NodeId>> {
        let extra = self.jobs.get_mut(&id)?.extras.existing()?;
        let pinned = extra.pending.end_delay(index)?.pinned;
        match pinned {
            Some(node) => {
                if let Some(node) = self.nodes.get_mut(&node) {
                    node.delayed.remove(&(id, index));
                }
                self.pin(id, index, node);
            }
            None => self.slot_is_ready(now, id, index),
        }
        Some(pinned)
    }

    /// Takes a slot that is pinned to this node, to place it there.
    pub(crate) fn take_pinned(
        &mut self,
        turn: &mut Turn<'_>,
        id: JobId,
        index: u32,
        node: NodeId,
    ) -> Slot {
        let job = self.jobs.get_mut(&id).expect("only slots of live jobs are pinned");
        let slot = job.take_pending(index, &mut turn.out.changes);
        self.queue.quotas.unqueued(&job.plan.namespace, u64::from(slot.is_some()));
        if let Some(node) = self.nodes.get_mut(&node) {
            node.unpin((job.plan.rank, index));
            self.marks.pinned.push(node.id());
        }
        if !job.extras.pending().has_pinned() {
            self.queue.groups.leave(Entry::Job(id));
            self.queue.quotas.leave(Entry::Job(id));
        }
        slot.expect("a pinned slot is pending")
    }

    /// Drops a slot that only this node could have run. The node may be covered anew.
    pub(crate) fn uncover(&mut self, turn: &mut Turn<'_>, id: JobId, index: u32, node: NodeId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let slot = job.take_pending(index, &mut turn.out.changes);
        self.queue.quotas.unqueued(&job.plan.namespace, u64::from(slot.is_some()));
        if let Some(extra) = job.extras.existing() {
            extra.covered.remove(&node);
        }
        self.marks.jobs.push(id);
    }

    /// An exclusion of a slot ended: it leaves the class in which it waits. Returns whether it waited in
    /// one.
    pub(crate) fn leave_secondary_class(&mut self, id: JobId, index: u32) -> bool {
        let Some(job) = self.jobs.get_mut(&id) else { return false };
        let rank = job.plan.rank;
        let mut secondary = job.extras.secondary.iter();
        let class = secondary.find(|(_, slots)| slots.contains(&index)).map(|(id, _)| *id);
        let Some(class) = class else { return false };
        if let Some(slots) = job.extras.to_mut().secondary.get_mut(&class) {
            slots.remove(&index);
        }
        if !job.has_ready_slot(class) {
            self.queue.stop_waiting(class, rank);
        }
        self.leave_empty_classes(id);
        true
    }

    /// Sets the message of the job, which is no event by itself.
    pub(crate) fn set_message(&mut self, turn: &mut Turn<'_>, id: JobId, message: Text) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.row.message = message;
        turn.out.changes.jobs.insert(id, job.row.clone());
    }

    /// Pending, Queued or Running => Completed, Failed or Stopped: nothing of the job waits any more.
    pub(crate) fn close_job(
        &mut self,
        turn: &mut Turn<'_>,
        id: JobId,
        to: JobStateType,
        message: Text,
    ) {
        self.forget_missing(id);
        gate::set(self, id, None, turn.wall);
        dependants::leave(self, id);
        dependants::has_ended(self, id, to, turn.now);
        let Some(job) = self.jobs.get_mut(&id) else { return };
        self.queue.quotas.unqueued(&job.plan.namespace, job.queued_slots());
        let (pending, secondary) = job.extras.take_slots();
        let keeps_nodes = job.plan.is_per_node() && job.plan.job_type.is_finite();
        for slot in pending.iter() {
            let index = slot.index;
            if let Some(node) = slot.pinned.filter(|_| keeps_nodes && slot.previous.is_none()) {
                turn.out.changes.unplaced.push((id, index, node));
            }
            turn.out.changes.pending_slots.insert((id, index), None);
            self.timers.cancel(Timer::Retry(id, index));
            self.timers.cancel(Timer::Exclusion(id, index));
            if let Some(node) = slot.pinned.and_then(|node| self.nodes.get_mut(&node)) {
                node.unpin_job(job.plan.rank);
                self.marks.pinned.push(node.id());
            }
        }
        for class in job.class.take().into_iter().chain(secondary.into_keys()) {
            self.queue.leave(class, job.plan.rank);
        }
        self.queue.groups.leave(Entry::Job(id));
        self.queue.quotas.leave(Entry::Job(id));
        // It may have been opened and then have ended before it searched for room.
        self.marks.quotas.push(Arc::clone(&job.plan.namespace));
        self.timers.cancel(Timer::FetchDelay(id));
        self.daemons.remove(&id);
        job.row.waiting_since = None;
        self.timers.cancel(Timer::QueueTimeout(id));
        self.timers.cancel(Timer::TotalTimeout(id));
        job.row.message = message.clone();
        self.note_job(turn, id, to, message);
    }

    /// Removes a job that is over and has no execution left.
    pub(crate) fn remove_job(&mut self, turn: &mut Turn<'_>, id: JobId) {
        let Some(mut job) = self.jobs.take(&id) else { return };
        dependants::keep_past(self, &job);
        job.row.live = false;
        job.row.ended_at = Some(turn.now);
        self.namespaces.leave(&job.plan.namespace, job.row.slots.scattered_ranges());
        if let Some((groups, number)) = &job.extras.groups {
            self.queue.groups.remove_job(groups, *number);
        }
        if job.extras.conditions.as_ref().is_some_and(|conditions| !conditions.list.is_empty()) {
            turn.out.changes.released.push(id);
        }
        turn.out.changes.jobs.insert(id, job.row);
    }

    /// Adds a slot that was loaded from the store.
    pub(crate) fn restore_slot(&mut self, slot: PendingSlotRow) {
        let Some(job) = self.jobs.get_mut(&slot.job) else { return };
        if let Some(node) = slot.pinned.and_then(|node| self.nodes.get_mut(&node)) {
            match slot.due {
                None => {
                    node.pin((job.plan.rank, slot.index), job.extras.gate().is_some());
                    self.marks.pinned.push(node.id());
                }
                Some(_) => drop(node.delayed.insert((slot.job, slot.index))),
            }
        }
        job.extras.to_mut().pending.insert(slot);
    }

    /// The slot of the job that covers the node, as loaded from the store.
    pub(crate) fn restore_cover(&mut self, job: JobId, index: u32, node: NodeId) {
        if let Some(job) = self.jobs.get_mut(&job) {
            job.extras.to_mut().covered.insert(node, index);
        }
    }
}
