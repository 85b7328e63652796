//! A live job: what is decided about it as a whole.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api_types::job::{JobSpec, JobStateType, JobType, RetryPolicy};
use api_types::{EvaluationId, ExecutionId, JobId, NodeId, Timestamp};

use super::change::{
    Changes, EventRow, EventSubject, Fact, JobRow, NewJobRow, PendingSlotRow, Tries,
};
use super::demand::Demand;
use super::input::{Answer, Refusal, Submit};
use super::pool::{ClassId, Rank};
use super::text::Text;
use super::timer::Timer;
use super::{Engine, Turn};

/// A job of which something is still to be done.
pub(super) struct LiveJob {
    pub(super) row: JobRow,
    pub(super) plan: Plan,
    /// While the job is not terminal.
    pub(super) class: Option<ClassId>,
    pub(super) executions: BTreeSet<ExecutionId>,
    /// Slots that were tried and wait: for room, or for the end of a delay.
    pub(super) pending: BTreeMap<u32, PendingSlotRow>,
    /// For jobs with a slot per node: the nodes that have one.
    pub(super) covered: BTreeMap<NodeId, u32>,
    /// Since when slots wait for room without a break.
    pub(super) waiting_since: Option<Timestamp>,
}

/// What scheduling needs of a specification.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) job_type: JobType,
    pub(super) rank: Rank,
    pub(super) retry: RetryPolicy,
    pub(super) queue_timeout: Option<Duration>,
    pub(super) total_timeout: Option<Duration>,
}

/// A slot that is to be placed.
pub(super) struct Slot {
    pub(super) index: u32,
    pub(super) evaluation: EvaluationId,
    pub(super) tries: Tries,
    pub(super) previous: Option<ExecutionId>,
}

// === impl Plan ===

impl Plan {
    pub(super) fn of(spec: &JobSpec, job: JobId, created: Timestamp) -> Self {
        let timeouts = spec.tasks.first().map(|task| task.timeouts).unwrap_or_default();
        let bound = |seconds: u64| (seconds > 0).then(|| Duration::from_secs(seconds));
        Self {
            job_type: spec.job_type,
            rank: Rank { priority: Reverse(spec.priority), created, job },
            retry: spec.retry_policy,
            queue_timeout: bound(timeouts.queue_timeout),
            total_timeout: bound(timeouts.total_timeout),
        }
    }

    /// Whether the job has a slot per node rather than a count.
    pub(super) fn is_per_node(&self) -> bool {
        match self.job_type {
            JobType::Batch | JobType::Service => false,
            JobType::Ops | JobType::Daemon => true,
        }
    }
}

// === impl LiveJob ===

impl LiveJob {
    pub(super) fn id(&self) -> JobId {
        self.row.id
    }

    pub(super) fn is_terminal(&self) -> bool {
        self.row.state.is_terminal()
    }

    /// Whether a slot that may run on several nodes is ready to be placed.
    pub(super) fn has_ready_slot(&self) -> bool {
        !self.is_terminal()
            && (self.row.fresh < self.fresh_end() || self.pending.values().any(is_ready_anywhere))
    }

    /// Takes the next slot that is ready: tried ones first, they are older.
    pub(super) fn take_ready_slot(&mut self, changes: &mut Changes) -> Option<Slot> {
        let tried = self.pending.values().find(|slot| is_ready_anywhere(slot)).map(|s| s.index);
        if let Some(index) = tried {
            return self.take_pending(index, changes);
        }
        if self.row.fresh == self.fresh_end() {
            return None;
        }
        let index = self.row.fresh;
        self.row.fresh += 1;
        changes.jobs.insert(self.row.id, self.row.clone());
        let tries = Tries { attempt: 1, ..Tries::default() };
        Some(Slot { index, evaluation: self.row.evaluation, tries, previous: None })
    }

    pub(super) fn take_pending(&mut self, index: u32, changes: &mut Changes) -> Option<Slot> {
        let row = self.pending.remove(&index)?;
        changes.pending_slots.insert((row.job, index), None);
        Some(Slot { index, evaluation: row.evaluation, tries: row.tries, previous: row.previous })
    }

    /// Slots below this index may be placed anywhere; those of per-node jobs are always pinned.
    fn fresh_end(&self) -> u32 {
        if self.plan.is_per_node() { self.row.fresh } else { self.row.slots }
    }
}

fn is_ready_anywhere(slot: &PendingSlotRow) -> bool {
    slot.due.is_none() && slot.pinned.is_none()
}

// === impl Engine: jobs ===

impl Engine {
    pub(super) fn submit(&mut self, turn: &mut Turn<'_>, submit: Submit) -> Answer {
        let Submit { id, spec, spec_json } = submit;
        if self.jobs.contains_key(&id) {
            return Answer::Refused(Refusal::JobExists(id));
        }
        let demand = Demand::of(&spec).expect("validation lets only readable demands through");
        let plan = Plan::of(&spec, id, turn.now);
        let evaluation = self.mint.evaluation();
        let class = self.queue.enter(demand, self.nodes.values_mut());
        let row = JobRow {
            id,
            state: JobStateType::Pending,
            message: Text::Constant(""),
            version: 1,
            // The event of its creation makes it 1.
            revision: 0,
            modify_time: turn.now,
            started: false,
            slots: if plan.is_per_node() { 0 } else { spec.count },
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
            create_time: turn.now,
            spec_json,
        });
        let job = LiveJob {
            row,
            plan,
            class: Some(class),
            executions: BTreeSet::new(),
            pending: BTreeMap::new(),
            covered: BTreeMap::new(),
            waiting_since: None,
        };
        self.jobs.insert(id, Box::new(job));
        self.note_job(turn, id, JobStateType::Pending, Text::Constant("submitted"));
        if let Some(bound) = plan.total_timeout {
            self.timers.set(turn.now + bound, Timer::TotalTimeout(id));
        }
        self.place_new(turn, id);
        Answer::Submitted { job: id, evaluation }
    }

    fn place_new(&mut self, turn: &mut Turn<'_>, id: JobId) {
        let job_type = self.jobs[&id].plan.job_type;
        match job_type {
            JobType::Batch | JobType::Service => self.place_job(turn, id),
            JobType::Daemon => {
                self.daemons.insert(id);
                self.cover_nodes(turn, id);
            }
            JobType::Ops => {
                self.cover_nodes(turn, id);
                if self.jobs[&id].row.slots == 0 {
                    let why = self.explain_job(id);
                    let message = format!("no node matches when the job is placed: {why}");
                    self.end_job(turn, id, JobStateType::Failed, message.into());
                    return;
                }
            }
        }
        self.refresh_job(turn, id);
    }

    pub(super) fn stop(&mut self, turn: &mut Turn<'_>, id: JobId, reason: &str) -> Answer {
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
    /// What waits is dropped, what runs is told to stop; the job stays live until the last of its
    /// executions has ended.
    pub(super) fn end_job(
        &mut self,
        turn: &mut Turn<'_>,
        id: JobId,
        state: JobStateType,
        message: Text,
    ) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let rank = job.plan.rank;
        for (index, slot) in std::mem::take(&mut job.pending) {
            turn.out.changes.pending_slots.insert((id, index), None);
            if let Some(node) = slot.pinned.and_then(|node| self.nodes.get_mut(&node)) {
                node.unpin_job(rank);
            }
        }
        if let Some(class) = job.class.take() {
            self.queue.leave(class, rank);
        }
        self.daemons.remove(&id);
        job.waiting_since = None;
        job.row.message = message.clone();
        let running: Vec<_> = job.executions.iter().copied().collect();
        self.note_job(turn, id, state, message.clone());
        for execution in running {
            self.stop_execution(turn, execution, &message);
        }
        self.drop_if_over(turn, id);
    }

    /// A terminal job whose last execution ended leaves the memory.
    pub(super) fn drop_if_over(&mut self, turn: &mut Turn<'_>, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if !job.is_terminal() || !job.executions.is_empty() {
            return;
        }
        job.row.live = false;
        turn.out.changes.jobs.insert(id, job.row.clone());
        self.jobs.remove(&id);
    }

    /// Derives where the job stands from its slots, and records it when that is new.
    pub(super) fn refresh_job(&mut self, turn: &mut Turn<'_>, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        if job.is_terminal() {
            return;
        }
        let finite = job.plan.job_type.is_finite();
        if finite && job.row.slots > 0 && job.row.completed == job.row.slots {
            let message = match job.row.slots {
                1 => Text::Constant("its execution completed"),
                slots => Text::from(format!("all {slots} executions completed")),
            };
            self.end_job(turn, id, JobStateType::Completed, message);
            return;
        }
        let waits = self.is_blocked(job);
        let busy = !job.executions.is_empty() || job.pending.values().any(|s| s.due.is_some());
        let state = match (busy, waits, job.row.started) {
            (false, true, _) => JobStateType::Queued,
            (true, _, true) | (false, false, true) => JobStateType::Running,
            (true, _, false) | (false, false, false) => JobStateType::Pending,
        };
        let waited = job.waiting_since.is_some();
        if state == job.row.state && waits == waited {
            return;
        }
        self.note_waiting(turn, id, waits);
        let message = if waits { self.explain_job(id) } else { Text::Constant("") };
        let comment = match (state, waits) {
            (_, true) => Text::from(format!("waits for room: {message}")),
            (JobStateType::Running, false) => Text::Constant("an execution runs"),
            (_, false) => Text::Constant("placed"),
        };
        if let Some(job) = self.jobs.get_mut(&id) {
            job.row.message = message;
        }
        self.note_job(turn, id, state, comment);
    }

    /// Whether slots wait that no node has room for.
    fn is_blocked(&self, job: &LiveJob) -> bool {
        let pinned = job.pending.values().any(|slot| slot.due.is_none() && slot.pinned.is_some());
        let daemon_without_node = job.plan.job_type == JobType::Daemon && job.row.slots == 0;
        let anywhere =
            job.has_ready_slot() && job.class.is_some_and(|class| self.queue.class(class).blocked);
        pinned || anywhere || daemon_without_node
    }

    fn note_waiting(&mut self, turn: &mut Turn<'_>, id: JobId, waits: bool) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        match (waits, job.waiting_since) {
            (true, None) => {
                job.waiting_since = Some(turn.now);
                if let Some(bound) = job.plan.queue_timeout {
                    self.timers.set(turn.now + bound, Timer::QueueTimeout(id));
                }
            }
            (false, Some(_)) => job.waiting_since = None,
            (true, Some(_)) | (false, None) => {}
        }
    }

    /// Records a job-level event; the state may stay as it is.
    pub(super) fn note_job(
        &mut self,
        turn: &mut Turn<'_>,
        id: JobId,
        state: JobStateType,
        comment: Text,
    ) {
        let seq = self.next_seq();
        let job = self.jobs.get_mut(&id).expect("events are noted of live jobs");
        let previous = job.row.state;
        job.row.revision += 1;
        job.row.state = state;
        job.row.modify_time = turn.now;
        if state.is_terminal() && !previous.is_terminal() {
            turn.out.facts.push(Fact::JobEnded {
                job: id,
                job_type: job.plan.job_type,
                state,
                at: turn.now,
                submitted: job.plan.rank.created,
            });
        }
        turn.out.changes.jobs.insert(id, job.row.clone());
        turn.out.changes.events.push(EventRow {
            seq,
            time: turn.now,
            job: id,
            revision: job.row.revision,
            comment,
            subject: EventSubject::Job { previous, new: state },
        });
    }

    pub(super) fn queue_timed_out(&mut self, turn: &mut Turn<'_>, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        let (Some(since), Some(bound)) = (job.waiting_since, job.plan.queue_timeout) else {
            return;
        };
        if since + bound > turn.now {
            // It was placed meanwhile and waits anew; the timer is set for that wait too.
            return;
        }
        let why = self.explain_job(id);
        let message =
            format!("waited longer than QueueTimeout ({} s) for room: {why}", bound.as_secs());
        self.end_job(turn, id, JobStateType::Failed, message.into());
    }

    pub(super) fn total_timed_out(&mut self, turn: &mut Turn<'_>, id: JobId) {
        let Some(bound) = self.jobs.get(&id).and_then(|job| job.plan.total_timeout) else { return };
        if self.jobs[&id].is_terminal() {
            return;
        }
        let message = format!("took longer than TotalTimeout ({} s)", bound.as_secs());
        self.end_job(turn, id, JobStateType::Failed, message.into());
    }
}
