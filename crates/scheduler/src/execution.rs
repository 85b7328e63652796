//! The lifecycle of an execution, as transitions named after events.
//!
//! The desired state (the scheduler's decision) and the compute state (the node's observation)
//! change independently. Every change of either increments the revision and records one event.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use api_types::execution::{ComputeState, DesiredState};
use api_types::job::JobType;
use api_types::protocol::{FailureCause, Report};
use api_types::{ExecutionId, JobId, NodeId, Timestamp};

use crate::change::{
    AssignmentChange, Effect, EventRow, EventSubject, ExecutionRow, Fact, OutputRow, WorkOrder,
};
use crate::ending::{Cause, End};
use crate::job::Slot;
use crate::keyed::Record;
use crate::text::Text;
use crate::timer::Timer;
use crate::{Scheduler, Turn};

// === impl ExecutionRow ===

impl Record for ExecutionRow {
    type Id = ExecutionId;

    fn id(&self) -> &ExecutionId {
        &self.id
    }
}

// === impl Scheduler: executions ===

impl Scheduler {
    /// Creates an execution on a node that has room for it, and offers it to that node.
    pub(crate) fn offer(
        &mut self,
        turn: &mut Turn<'_>,
        job_id: JobId,
        slot: Slot,
        node_id: NodeId,
    ) {
        let id = self.mint.execution();
        let job = self.jobs.get_mut(&job_id).expect("slots are taken from live jobs");
        let node = self.nodes.get_mut(&node_id).expect("slots are placed on known nodes");
        let class = job.class.expect("a job that is not terminal has a class");
        let demand = &self.queue.class(class).demand;
        let resources = demand.need.on(&node.defaults);
        let row = ExecutionRow {
            id,
            job: job_id,
            version: job.row.version,
            index: slot.index,
            node: node_id,
            session: node.row.session,
            evaluation: slot.evaluation,
            resources,
            desired: DesiredState::Pending,
            desired_message: Text::Constant(""),
            compute: ComputeState::New,
            compute_message: Text::Constant(""),
            tries: slot.tries,
            previous: slot.previous,
            followup: None,
            // The creation event increments it to 1.
            revision: 0,
            create_time: turn.wall.max(job.row.last_event_time),
            // Set by the creation event.
            modify_time: Timestamp::ZERO,
            offered_at: turn.now,
            accepted_at: None,
            started_at: None,
            process_ended_at: None,
        };
        turn.out.facts.push(Fact::Placed {
            execution: id,
            job: job_id,
            index: row.index,
            at: row.create_time,
            submitted: job.plan.create_time,
            is_first: row.previous.is_none() && job.plan.job_type != JobType::Daemon,
        });
        job.executions.insert(id);
        node.executions.insert(id);
        node.used = node.used.plus(&resources);
        if !job.plan.job_type.is_finite() {
            node.unending = node.unending.plus(&resources);
        }
        self.queue.reload(node);
        self.touched.insert(node_id);
        if let Some(previous) = row.previous {
            turn.out.changes.successors.push((previous, id));
        }
        let created = match row.previous {
            None => Text::Constant("created for its node"),
            Some(previous) => Text::from(format!("created to retry {previous}")),
        };
        let work = work_order(&row, job.row.slots.len());
        self.executions.put(Box::new(row));
        self.observe(turn, id, ComputeState::New, created);
        self.observe(turn, id, ComputeState::AskForBid, Text::Constant("offered to its node"));
        self.assign(turn, id, Some(work));
        self.await_answer(id, turn.now);
        self.note_placed(turn, job_id, id, node_id);
        self.review_reservation(turn, node_id);
    }

    /// Handles a node's report about an execution. Late and repeated reports change nothing.
    pub(crate) fn report(&mut self, turn: &mut Turn<'_>, node: NodeId, report: Report) {
        let id = report.execution_id;
        let Some(row) = self.executions.get(&id) else { return };
        if row.node != node || report.compute_state < row.compute {
            return;
        }
        if report.process_ended && report.compute_state == ComputeState::BidAccepted {
            return self.process_ended(turn, id, report.message.into());
        }
        if report.compute_state == row.compute {
            return self.progress(turn, id, report.message);
        }
        let message = Text::from(report.message.clone());
        match report.compute_state {
            ComputeState::Undefined | ComputeState::New | ComputeState::AskForBid => {}
            ComputeState::AskForBidAccepted => self.accept(turn, id, message),
            ComputeState::AskForBidRejected => {
                let cause = match report.cause {
                    FailureCause::Room => Cause::Room,
                    // A node's refusal to run something says nothing about its health.
                    FailureCause::Fetch
                    | FailureCause::Missing
                    | FailureCause::Node
                    | FailureCause::Task
                    | FailureCause::Timeout
                    | FailureCause::Publish => Cause::Fetch,
                };
                self.end(turn, id, End::Declined(cause), message);
            }
            ComputeState::BidAccepted => self.start(turn, id, message),
            ComputeState::BidRejected => self.end(turn, id, End::Unwanted, message),
            ComputeState::Completed => {
                // Reports about one execution arrive in order, so it must have started. If a node
                // skips the start report, record the start here, so that the history has no gap.
                self.start(turn, id, Text::Constant("started"));
                self.keep_output(turn, report);
                self.end(turn, id, End::Completed, message);
            }
            ComputeState::Failed => {
                let end = match report.cause {
                    FailureCause::Task => End::Failed { timeout: false },
                    FailureCause::Timeout => End::Failed { timeout: true },
                    FailureCause::Publish => End::Unpublished,
                    cause @ (FailureCause::Node
                    | FailureCause::Fetch
                    | FailureCause::Missing
                    | FailureCause::Room) => End::Disturbed(Cause::of(cause)),
                };
                self.keep_output(turn, report);
                self.end(turn, id, end, message);
            }
            ComputeState::Cancelled => {
                self.keep_output(turn, report);
                self.end(turn, id, End::Cancelled, message);
            }
        }
    }

    /// AskForBid => AskForBidAccepted, followed by the go-ahead; or => BidRejected when the
    /// execution is no longer wanted.
    fn accept(&mut self, turn: &mut Turn<'_>, id: ExecutionId, message: Text) {
        if self.executions[&id].compute != ComputeState::AskForBid {
            return;
        }
        if let Some(row) = self.executions.get_mut(&id) {
            row.accepted_at = Some(turn.now);
        }
        let comment = or_else(message, "accepted by its node");
        self.timers.cancel(Timer::Offer(id));
        self.observe(turn, id, ComputeState::AskForBidAccepted, comment);
        let is_over = self.jobs.get(&self.executions[&id].job).is_none_or(|job| job.is_terminal());
        match self.executions[&id].desired {
            // Its job ended, and its own turn to be asked to stop has not come yet.
            DesiredState::Pending if is_over => {
                let why = self.jobs[&self.executions[&id].job].row.message.clone();
                self.decide(turn, id, DesiredState::Stopped, why.clone());
                self.end(turn, id, End::Unwanted, why);
            }
            DesiredState::Pending => {
                self.decide(turn, id, DesiredState::Running, Text::Constant("told to run"));
            }
            DesiredState::Running => {}
            DesiredState::Stopped => {
                let reason = self.executions[&id].desired_message.clone();
                self.end(turn, id, End::Unwanted, reason);
            }
        }
    }

    /// AskForBidAccepted => AskForBidAccepted: fetching the image or inputs takes long. A repeated
    /// report is recognised by its message.
    fn progress(&mut self, turn: &mut Turn<'_>, id: ExecutionId, message: String) {
        let Some(row) = self.executions.get_mut(&id) else { return };
        let is_news = row.compute == ComputeState::AskForBidAccepted
            && row.desired == DesiredState::Running
            && !message.is_empty()
            && *row.compute_message != *message;
        if is_news {
            let message = Text::from(message);
            row.compute_message.clone_from(&message);
            self.observe(turn, id, ComputeState::AskForBidAccepted, message);
        }
    }

    /// AskForBidAccepted => BidAccepted.
    pub(crate) fn start(&mut self, turn: &mut Turn<'_>, id: ExecutionId, message: Text) {
        self.accept(turn, id, Text::Constant(""));
        let Some(row) = self.executions.get_mut(&id) else { return };
        if row.compute != ComputeState::AskForBidAccepted {
            return;
        }
        row.started_at = Some(turn.now);
        row.compute_message = Text::Constant("");
        let (job_id, node_id, placed) = (row.job, row.node, row.create_time);
        let is_first = row.previous.is_none();
        self.observe(turn, id, ComputeState::BidAccepted, or_else(message, "started on its node"));
        if let Some(node) = self.nodes.get_mut(&node_id) {
            node.running += 1;
            self.touched.insert(node_id);
        }
        if let Some(job) = self.jobs.get(&job_id) {
            turn.out.facts.push(Fact::Started {
                at: turn.wall.max(job.row.last_event_time),
                submitted: job.plan.create_time,
                placed,
                is_first: is_first && job.plan.job_type != JobType::Daemon,
            });
        }
        self.fetch_worked(turn, job_id);
        self.probe_started(turn, node_id, id);
        self.refresh_job(turn, job_id);
    }

    /// Decides that an execution must stop; its node reports when it has ended.
    pub(crate) fn stop_execution(&mut self, turn: &mut Turn<'_>, id: ExecutionId, why: &Text) {
        let wanted =
            self.executions.get(&id).is_some_and(|row| row.desired != DesiredState::Stopped);
        if wanted {
            self.decide(turn, id, DesiredState::Stopped, why.clone());
            let node = self.executions.get(&id).and_then(|row| self.nodes.get(&row.node));
            if node.is_some_and(|node| node.row.silent_since.is_some()) {
                // A silent node cannot confirm the stop, so the scheduler does not wait for it.
                self.end(turn, id, End::Cancelled, why.clone());
            }
        }
    }

    /// Changes the desired state and records an event with equal compute states.
    pub(crate) fn decide(
        &mut self,
        turn: &mut Turn<'_>,
        id: ExecutionId,
        desired: DesiredState,
        why: Text,
    ) {
        let row = self.executions.get_mut(&id).expect("decisions are about live executions");
        row.desired = desired;
        row.desired_message = match desired {
            DesiredState::Pending | DesiredState::Running => Text::Constant(""),
            DesiredState::Stopped => why.clone(),
        };
        let compute = row.compute;
        self.observe(turn, id, compute, why);
        self.assign(turn, id, None);
    }

    /// Records the compute state, which may be unchanged.
    pub(crate) fn observe(
        &mut self,
        turn: &mut Turn<'_>,
        id: ExecutionId,
        new: ComputeState,
        comment: Text,
    ) {
        let seq = self.next_seq();
        let time = self.event_time(turn, self.executions[&id].job);
        let row = self.executions.get_mut(&id).expect("observations are about live executions");
        let previous = row.compute;
        assert!(previous <= new, "execution {id} would go back from {previous:?} to {new:?}");
        row.compute = new;
        row.revision += 1;
        row.modify_time = time;
        turn.out.changes.events.push(EventRow {
            seq,
            time,
            revision: row.revision,
            comment,
            subject: EventSubject::Execution { job: row.job, id, node: row.node, previous, new },
        });
        turn.out.changes.executions.insert(id, row.clone());
        let job_id = row.job;
        if let Some(job) = self.jobs.get_mut(&job_id)
            && job.row.count(previous, new, time)
        {
            turn.out.changes.jobs.insert(job_id, job.row.clone());
        }
    }

    /// The time that a job's event shows: the wall clock, but never earlier than the last event.
    pub(crate) fn event_time(&mut self, turn: &Turn<'_>, id: JobId) -> Timestamp {
        let Some(job) = self.jobs.get_mut(&id) else { return turn.wall };
        job.row.last_event_time = job.row.last_event_time.max(turn.wall);
        job.row.last_event_time
    }

    fn assign(&mut self, turn: &mut Turn<'_>, id: ExecutionId, work: Option<WorkOrder>) {
        let row = &self.executions[&id];
        let change = assignment(row, work);
        turn.out.effects.push(Effect::Assign { node: row.node, change });
    }

    pub(crate) fn tell_stop(&self, turn: &mut Turn<'_>, row: &ExecutionRow) {
        let change = assignment(row, None);
        turn.out.effects.push(Effect::Assign { node: row.node, change });
    }

    pub(crate) fn keep_output(&self, turn: &mut Turn<'_>, report: Report) {
        if report.run_output.is_none() && report.published_result.is_none() {
            return;
        }
        turn.out.changes.outputs.push(OutputRow {
            id: report.execution_id,
            run_output: report.run_output,
            tail: report.tail,
            usage: report.usage,
            published_result: report.published_result,
        });
    }

    /// The complete desired state of a node, sent when its stream opens.
    pub(crate) fn assignments(&self, node: NodeId) -> Vec<AssignmentChange> {
        let Some(node) = self.nodes.get(&node) else { return Vec::new() };
        node.executions
            .iter()
            .filter_map(|id| self.executions.get(id))
            .map(|row| {
                let count = self.jobs.get(&row.job).map_or(0, |job| job.row.slots.len());
                let is_wanted = row.desired != DesiredState::Stopped;
                assignment(row, is_wanted.then(|| work_order(row, count)))
            })
            .collect()
    }
}

fn work_order(row: &ExecutionRow, count: u32) -> WorkOrder {
    let ExecutionRow { job, version, index, resources, .. } = *row;
    WorkOrder { job, version, index, count, resources }
}

fn assignment(row: &ExecutionRow, work: Option<WorkOrder>) -> AssignmentChange {
    AssignmentChange {
        execution: row.id,
        desired: row.desired,
        compute: row.compute,
        message: row.desired_message.clone(),
        work,
    }
}

pub(crate) fn or_else(text: Text, default: &'static str) -> Text {
    if text.is_empty() { Text::Constant(default) } else { text }
}
