//! A live job and the decisions about the job as a whole.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use api_types::job::{JobStateType, JobType};
use api_types::{EvaluationId, ExecutionId, JobId, Timestamp};

use crate::change::{
    Changes, EventRow, EventSubject, FIRST_VERSION, Fact, JobRow, NewJobRow, Tries,
};
use crate::extras::Extras;
use crate::input::{Answer, Refusal, Submit};
use crate::keyed::Record;
use crate::plan::{JobPlan, Plan};
use crate::pool::ClassId;
use crate::slots::Slots;
use crate::text::Text;
use crate::time::Moment;
use crate::timer::Timer;
use crate::{Scheduler, Turn};

/// A job that has work left.
pub(crate) struct LiveJob {
    pub(crate) row: JobRow,
    pub(crate) plan: Plan,
    /// Present while the job is not terminal.
    pub(crate) class: Option<ClassId>,
    pub(crate) executions: BTreeSet<ExecutionId>,
    pub(crate) extras: Extras,
}

/// A slot to place.
pub(crate) struct Slot {
    pub(crate) index: u32,
    pub(crate) evaluation: EvaluationId,
    pub(crate) tries: Tries,
    pub(crate) previous: Option<ExecutionId>,
}

// === impl LiveJob ===

impl LiveJob {
    /// A job of which nothing is placed and nothing waits yet.
    pub(crate) fn new(row: JobRow, plan: Plan, class: Option<ClassId>) -> Self {
        Self { row, plan, class, executions: BTreeSet::new(), extras: Extras::default() }
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.row.state.is_terminal()
    }

    /// Whether a slot that is ready to be placed waits in this class.
    pub(crate) fn has_ready_slot(&self, class: ClassId) -> bool {
        if self.is_terminal() || self.extras.fetch.holds() {
            return false;
        }
        if self.class == Some(class) {
            return self.next_fresh().is_some() || !self.extras.ready.is_empty();
        }
        self.extras.aside.get(&class).is_some_and(|slots| !slots.is_empty())
    }

    /// The classes in which slots of the job wait or may wait, those of tried slots first.
    pub(crate) fn classes(&self) -> Vec<ClassId> {
        self.extras.aside.keys().copied().chain(self.class).collect()
    }

    /// Takes the next ready slot of the class; tried slots come first because they are older.
    pub(crate) fn take_ready_slot(
        &mut self,
        class: ClassId,
        changes: &mut Changes,
    ) -> Option<Slot> {
        if self.class != Some(class) {
            let index = self.extras.aside.get(&class)?.first().copied()?;
            return self.take_pending(index, changes);
        }
        if let Some(index) = self.extras.ready.first().copied() {
            return self.take_pending(index, changes);
        }
        let index = self.next_fresh()?;
        self.row.fresh = index + 1;
        changes.jobs.insert(self.row.id, self.row.clone());
        let tries = Tries { attempt: 1, ..Tries::default() };
        Some(Slot { index, evaluation: self.row.evaluation, tries, previous: None })
    }

    pub(crate) fn take_pending(&mut self, index: u32, changes: &mut Changes) -> Option<Slot> {
        let extra = self.extras.existing()?;
        let row = extra.pending.remove(index)?;
        extra.ready.remove(&index);
        for slots in extra.aside.values_mut() {
            slots.remove(&index);
        }
        changes.pending_slots.insert((row.job, index), None);
        Some(Slot { index, evaluation: row.evaluation, tries: row.tries, previous: row.previous })
    }

    /// Whether any slot waits for the end of a delay.
    pub(crate) fn is_delayed(&self) -> bool {
        self.extras.fetch.holds() || self.extras.pending.has_delayed()
    }

    /// Whether a failure is being retried.
    pub(crate) fn is_retrying(&self) -> bool {
        self.is_delayed() || self.extras.aside.values().any(|slots| !slots.is_empty())
    }

    /// The next slot that was never tried; slots of per-node jobs are always pinned and none of
    /// these.
    fn next_fresh(&self) -> Option<u32> {
        self.row.slots.at_or_above(self.row.fresh)
    }

    /// Slots that were never tried.
    pub(crate) fn untried_slots(&self) -> u32 {
        self.row.slots.count_from(self.row.fresh)
    }
}

impl Record for LiveJob {
    type Id = JobId;

    fn id(&self) -> &JobId {
        &self.row.id
    }
}

// === impl Scheduler: jobs ===

impl Scheduler {
    pub(crate) fn submit(&mut self, turn: &mut Turn<'_>, submit: Submit) -> Answer {
        let Submit { id, spec, spec_json } = submit;
        if self.jobs.contains_key(&id) {
            return Answer::Refused(Refusal::JobExists(id));
        }
        let job_plan = JobPlan::of(&spec).expect("validation lets only readable demands through");
        let (stored, evaluation) = (job_plan.to_text().into(), self.mint.evaluation());
        let (plan, class) = self.enter_queue(job_plan, id, turn.wall, turn.now);
        let row = JobRow {
            id,
            state: JobStateType::Pending,
            message: Text::Constant(""),
            version: FIRST_VERSION,
            // The creation event increments it to 1.
            revision: 0,
            modify_time: turn.wall,
            last_event_time: turn.wall,
            waiting_since: None,
            ended_at: None,
            start_time: None,
            running: 0,
            failed: 0,
            slots: if plan.is_per_node() { Slots::default() } else { Slots::below(spec.count) },
            fresh: 0,
            completed: 0,
            evaluation,
            live: true,
        };
        turn.out.changes.new_jobs.push(NewJobRow {
            id,
            namespace: spec.namespace.clone(),
            name: spec.name.clone(),
            job_type: spec.job_type,
            priority: spec.priority,
            labels: spec.labels.clone(),
            create_time: turn.wall,
            created_at: turn.now,
            spec_json,
            plan: stored,
        });
        if let Some(bound) = plan.total_timeout() {
            self.timers.set(turn.now + bound, Timer::TotalTimeout(id));
        }
        self.jobs.put(Box::new(LiveJob::new(row, plan, Some(class))));
        self.note_job(turn, id, JobStateType::Pending, Text::Constant("submitted"));
        self.place_new(turn, id);
        Answer::Submitted { job: id, evaluation }
    }

    /// Adds a job to its class, and returns what is kept of its plan.
    pub(crate) fn enter_queue(
        &mut self,
        plan: JobPlan,
        id: JobId,
        create_time: Timestamp,
        created: Moment,
    ) -> (Plan, ClassId) {
        let nodes = self.nodes.values();
        let class = self.queue.enter(plan.demand.clone(), &plan.namespace, nodes);
        let namespace = Arc::clone(&self.queue.class(class).namespace);
        (Plan::of(&plan, namespace, id, create_time, created), class)
    }

    fn place_new(&mut self, turn: &mut Turn<'_>, id: JobId) {
        let job_type = self.jobs[&id].plan.job_type;
        match job_type {
            JobType::Batch | JobType::Service => self.place_waiting(turn, id),
            JobType::Daemon => {
                self.daemons.insert(id);
                self.cover_nodes(turn, id);
            }
            JobType::Ops => {
                self.cover_nodes(turn, id);
                if self.jobs[&id].row.slots.is_empty() {
                    let why = self.explain_job(id);
                    let message = format!("no node matches when the job is placed: {why}");
                    self.end_job(turn, id, JobStateType::Failed, message.into());
                    return;
                }
            }
        }
        self.refresh_job(turn, id);
    }

    pub(crate) fn stop(&mut self, turn: &mut Turn<'_>, id: JobId, reason: &str) -> Answer {
        let Some(job) = self.jobs.get(&id) else {
            return Answer::Refused(Refusal::JobNotLive(id));
        };
        if job.is_terminal() {
            return Answer::Refused(Refusal::JobFinished { job: id, state: job.row.state });
        }
        let evaluation = self.mint.evaluation();
        let message = match reason.trim() {
            "" => Text::Constant("stopped by request"),
            reason => Text::from(format!("stopped by request: {reason}")),
        };
        self.end_job(turn, id, JobStateType::Stopped, message);
        Answer::Stopped { evaluation }
    }

    /// Pending, Queued or Running => Completed, Failed or Stopped.
    ///
    /// Waiting slots are dropped and running executions are asked to stop; the job stays live until
    /// its last execution has ended.
    pub(crate) fn end_job(
        &mut self,
        turn: &mut Turn<'_>,
        id: JobId,
        state: JobStateType,
        message: Text,
    ) {
        self.forget_missing(id);
        self.backlog.damaged.remove(&id);
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let (pending, aside) = job.extras.take_slots();
        for slot in pending.iter() {
            let index = slot.index;
            turn.out.changes.pending_slots.insert((id, index), None);
            self.timers.cancel(Timer::Retry(id, index));
            self.timers.cancel(Timer::Exclusion(id, index));
            if let Some(node) = slot.pinned.and_then(|node| self.nodes.get_mut(&node)) {
                node.unpin_job(job.plan.rank);
                self.reservations.repinned.push(node.id());
            }
        }
        for class in job.class.take().into_iter().chain(aside.into_keys()) {
            self.queue.leave(class, job.plan.rank);
        }
        self.timers.cancel(Timer::FetchDelay(id));
        self.daemons.remove(&id);
        job.row.waiting_since = None;
        self.timers.cancel(Timer::QueueTimeout(id));
        self.timers.cancel(Timer::TotalTimeout(id));
        job.row.message = message.clone();
        self.note_job(turn, id, state, message);
        self.stop_executions(turn, id, None);
    }

    /// Removes a terminal job from memory once its last execution has ended.
    pub(crate) fn drop_if_over(&mut self, turn: &mut Turn<'_>, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if !job.is_terminal() || !job.executions.is_empty() {
            return;
        }
        job.row.live = false;
        job.row.ended_at = Some(turn.now);
        turn.out.changes.jobs.insert(id, job.row.clone());
        self.jobs.take(&id);
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
        let time = self.event_time(turn, id);
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

    pub(crate) fn queue_timed_out(&mut self, turn: &mut Turn<'_>, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        let (Some(_), Some(bound)) = (job.row.waiting_since, job.plan.queue_timeout()) else {
            return;
        };
        let why = self.explain_job(id);
        let message =
            format!("waited longer than QueueTimeout ({} s) for room: {why}", bound.as_secs());
        self.end_job(turn, id, JobStateType::Failed, message.into());
    }

    pub(crate) fn total_timed_out(&mut self, turn: &mut Turn<'_>, id: JobId) {
        let Some(bound) = self.jobs.get(&id).and_then(|job| job.plan.total_timeout()) else {
            return;
        };
        if self.jobs[&id].is_terminal() {
            return;
        }
        let message = format!("took longer than TotalTimeout ({} s)", bound.as_secs());
        self.end_job(turn, id, JobStateType::Failed, message.into());
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    /// A class of sizes of the allocator; in the next one a million queued jobs take 64 MB more.
    const LIVE_JOB_BYTES: usize = 320;

    #[test]
    fn a_queued_job_is_small() {
        assert!(size_of::<LiveJob>() <= LIVE_JOB_BYTES, "{} bytes", size_of::<LiveJob>());
    }
}
