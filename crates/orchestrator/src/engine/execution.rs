//! The life of an execution, as transitions named after what happened.
//!
//! What is decided (desired state) and what the node observed (compute state) change apart from
//! each other; every change of either counts the revision up and leaves one event.

use api_types::execution::{ComputeState, DesiredState};
use api_types::job::{JobStateType, JobType};
use api_types::protocol::{FailureCause, Report};
use api_types::{ExecutionId, NodeId, Timestamp};

use super::change::{
    AssignmentChange, Effect, EventRow, EventSubject, ExecutionRow, Fact, OutputRow, WorkOrder,
};
use super::job::Slot;
use super::text::Text;
use super::{Engine, Turn};

/// How an execution ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    Completed,
    /// The run failed by its own doing, or took too long.
    Failed {
        timeout: bool,
    },
    /// It failed by no fault of the task.
    Disturbed,
    /// Its node was lost or forgotten.
    Lost,
    /// The node declined it.
    Declined,
    /// It was accepted and is not wanted any more.
    Unwanted,
    /// Its node stopped it.
    Cancelled,
}

// === impl End ===

impl End {
    const fn compute_state(&self) -> ComputeState {
        match self {
            Self::Completed => ComputeState::Completed,
            Self::Failed { .. } | Self::Disturbed | Self::Lost => ComputeState::Failed,
            Self::Declined => ComputeState::AskForBidRejected,
            Self::Unwanted => ComputeState::BidRejected,
            Self::Cancelled => ComputeState::Cancelled,
        }
    }
}

// === impl Engine: executions ===

impl Engine {
    /// Creates an execution on a node that has room for it, and offers it there.
    pub(super) fn offer(
        &mut self,
        turn: &mut Turn<'_>,
        job_id: api_types::JobId,
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
            // The event of its creation makes it 1.
            revision: 0,
            create_time: turn.now,
            modify_time: turn.now,
            start_time: Timestamp::ZERO,
        };
        turn.out.facts.push(Fact::Placed {
            execution: id,
            job: job_id,
            index: row.index,
            at: turn.now,
            submitted: job.plan.rank.created,
            is_first: row.previous.is_none() && job.plan.job_type != JobType::Daemon,
        });
        job.executions.insert(id);
        node.executions.insert(id);
        node.used = node.used.plus(&resources);
        self.queue.reload(node);
        self.touched.insert(node_id);
        if let Some(previous) = row.previous {
            turn.out.changes.successors.push((previous, id));
        }
        let created = match row.previous {
            None => Text::Constant("created for its node"),
            Some(previous) => Text::from(format!("created to retry {previous}")),
        };
        let work = WorkOrder { job: job_id, index: row.index, count: job.row.slots, resources };
        self.executions.insert(id, row);
        self.observe(turn, id, ComputeState::New, created);
        self.observe(turn, id, ComputeState::AskForBid, Text::Constant("offered to its node"));
        self.assign(turn, id, Some(work));
    }

    /// What a node reports of an execution. Late and repeated reports change nothing.
    pub(super) fn report(&mut self, turn: &mut Turn<'_>, node: NodeId, report: Report) {
        let id = report.execution_id;
        let Some(row) = self.executions.get(&id) else { return };
        if row.node != node || report.compute_state < row.compute {
            return;
        }
        if report.compute_state == row.compute {
            return self.progress(turn, id, report.message);
        }
        let message = Text::from(report.message.clone());
        match report.compute_state {
            ComputeState::Undefined | ComputeState::New | ComputeState::AskForBid => {}
            ComputeState::AskForBidAccepted => self.accept(turn, id, message),
            ComputeState::AskForBidRejected => self.end(turn, id, End::Declined, message),
            ComputeState::BidAccepted => self.start(turn, id, message),
            ComputeState::BidRejected => self.end(turn, id, End::Unwanted, message),
            ComputeState::Completed => {
                // Reports of one execution come in order, so it was started; a node that says
                // otherwise still leaves a history without a hole.
                self.start(turn, id, Text::Constant("started"));
                self.keep_output(turn, report);
                self.end(turn, id, End::Completed, message);
            }
            ComputeState::Failed => {
                let end = match report.cause {
                    FailureCause::Task => End::Failed { timeout: false },
                    FailureCause::Timeout => End::Failed { timeout: true },
                    FailureCause::Node => End::Disturbed,
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

    /// AskForBid => AskForBidAccepted, and on to run; or => BidRejected when it is not wanted.
    fn accept(&mut self, turn: &mut Turn<'_>, id: ExecutionId, message: Text) {
        if self.executions[&id].compute != ComputeState::AskForBid {
            return;
        }
        let comment = or_else(message, "accepted by its node");
        self.observe(turn, id, ComputeState::AskForBidAccepted, comment);
        match self.executions[&id].desired {
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

    /// AskForBidAccepted => AskForBidAccepted: its image or inputs are long in coming. A repeat is
    /// known by its words.
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
    fn start(&mut self, turn: &mut Turn<'_>, id: ExecutionId, message: Text) {
        self.accept(turn, id, Text::Constant(""));
        let Some(row) = self.executions.get_mut(&id) else { return };
        if row.compute != ComputeState::AskForBidAccepted {
            return;
        }
        row.start_time = turn.now;
        row.compute_message = Text::Constant("");
        let (job_id, node_id, placed) = (row.job, row.node, row.create_time);
        let is_first = row.previous.is_none();
        self.observe(turn, id, ComputeState::BidAccepted, or_else(message, "started on its node"));
        if let Some(node) = self.nodes.get_mut(&node_id) {
            node.running += 1;
            self.touched.insert(node_id);
        }
        if let Some(job) = self.jobs.get_mut(&job_id) {
            turn.out.facts.push(Fact::Started {
                at: turn.now,
                submitted: job.plan.rank.created,
                placed,
                is_first: is_first && job.plan.job_type != JobType::Daemon,
            });
            if !job.row.started {
                job.row.started = true;
                turn.out.changes.jobs.insert(job_id, job.row.clone());
            }
        }
        self.refresh_job(turn, job_id);
    }

    /// Any live state => the terminal state of this end. Frees its room and decides what follows.
    pub(super) fn end(&mut self, turn: &mut Turn<'_>, id: ExecutionId, end: End, message: Text) {
        let Some(row) = self.executions.get_mut(&id) else { return };
        let was_running = row.compute == ComputeState::BidAccepted;
        let was_wanted = row.desired != DesiredState::Stopped;
        row.desired = DesiredState::Stopped;
        let message = or_else(message, end.default_message());
        if was_wanted {
            row.desired_message.clone_from(&message);
        }
        row.compute_message.clone_from(&message);
        self.observe(turn, id, end.compute_state(), message);
        let row = self.executions.remove(&id).expect("it was there a line above");
        if let Some(node) = self.nodes.get_mut(&row.node) {
            node.executions.remove(&id);
            node.used = node.used.minus(&row.resources);
            node.running -= u64::from(was_running);
            self.queue.reload(node);
            self.touched.insert(row.node);
        }
        if let Some(job) = self.jobs.get_mut(&row.job) {
            job.executions.remove(&id);
        }
        if matches!(end, End::Unwanted) {
            self.tell_stop(turn, &row);
        }
        let (job_id, node_id) = (row.job, row.node);
        self.follow_up(turn, row, end, was_wanted);
        self.fill_node(turn, node_id);
        self.refresh_job(turn, job_id);
        self.drop_if_over(turn, job_id);
    }

    /// Decides that an execution is not wanted any more; its node will say when it is gone.
    pub(super) fn stop_execution(&mut self, turn: &mut Turn<'_>, id: ExecutionId, why: &Text) {
        let wanted =
            self.executions.get(&id).is_some_and(|row| row.desired != DesiredState::Stopped);
        if wanted {
            self.decide(turn, id, DesiredState::Stopped, why.clone());
        }
    }

    /// Changes what is desired; an event with equal compute states records it.
    fn decide(&mut self, turn: &mut Turn<'_>, id: ExecutionId, desired: DesiredState, why: Text) {
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

    /// Records the compute state, which may be the one it had.
    fn observe(&mut self, turn: &mut Turn<'_>, id: ExecutionId, new: ComputeState, comment: Text) {
        let seq = self.next_seq();
        let row = self.executions.get_mut(&id).expect("observations are about live executions");
        let previous = row.compute;
        assert!(previous <= new, "execution {id} would go back from {previous:?} to {new:?}");
        row.compute = new;
        row.revision += 1;
        row.modify_time = turn.now;
        turn.out.changes.events.push(EventRow {
            seq,
            time: turn.now,
            job: row.job,
            revision: row.revision,
            comment,
            subject: EventSubject::Execution { id, node: row.node, previous, new },
        });
        turn.out.changes.executions.insert(id, row.clone());
    }

    fn assign(&mut self, turn: &mut Turn<'_>, id: ExecutionId, work: Option<WorkOrder>) {
        let row = &self.executions[&id];
        let change = assignment(row, work);
        turn.out.effects.push(Effect::Assign { node: row.node, change });
    }

    fn tell_stop(&self, turn: &mut Turn<'_>, row: &ExecutionRow) {
        let change = assignment(row, None);
        turn.out.effects.push(Effect::Assign { node: row.node, change });
    }

    fn keep_output(&self, turn: &mut Turn<'_>, report: Report) {
        if report.run_output.is_none() && report.published_result.is_none() {
            return;
        }
        turn.out.changes.outputs.push(OutputRow {
            id: report.execution_id,
            run_output: report.run_output,
            published_result: report.published_result,
        });
    }

    /// The whole desired state of a node, for the opening of its stream.
    pub(super) fn assignments(&self, node: NodeId) -> Vec<AssignmentChange> {
        let Some(node) = self.nodes.get(&node) else { return Vec::new() };
        node.executions
            .iter()
            .filter_map(|id| self.executions.get(id))
            .map(|row| {
                let work = (row.desired != DesiredState::Stopped).then(|| WorkOrder {
                    job: row.job,
                    index: row.index,
                    count: self.jobs.get(&row.job).map_or(0, |job| job.row.slots),
                    resources: row.resources,
                });
                assignment(row, work)
            })
            .collect()
    }

    /// What happens to the slot and the job after one of its executions has ended.
    fn follow_up(&mut self, turn: &mut Turn<'_>, row: ExecutionRow, end: End, was_wanted: bool) {
        let Some(job) = self.jobs.get_mut(&row.job) else { return };
        if job.is_terminal() {
            return;
        }
        match end {
            End::Completed if job.plan.job_type.is_finite() => {
                job.row.completed += 1;
                turn.out.changes.jobs.insert(row.job, job.row.clone());
            }
            End::Failed { timeout: true } if job.plan.job_type.is_finite() => {
                let message =
                    format!("execution {} (index {}): {}", row.id, row.index, row.compute_message);
                self.end_job(turn, row.job, JobStateType::Failed, message.into());
            }
            // Stopped for a drain and the like: it goes elsewhere and has not failed.
            End::Cancelled | End::Unwanted | End::Declined | End::Disturbed if !was_wanted => {
                self.move_slot(turn, row);
            }
            End::Completed | End::Failed { .. } => self.run_again(turn, row, end),
            End::Disturbed | End::Lost | End::Declined | End::Unwanted | End::Cancelled => {
                self.try_elsewhere(turn, row, end);
            }
        }
    }
}

impl End {
    const fn default_message(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed { timeout: false } => "failed",
            Self::Failed { timeout: true } => "timed out",
            Self::Disturbed => "failed by no fault of the task",
            Self::Lost => "lost with its node",
            Self::Declined => "declined by its node",
            Self::Unwanted => "no longer wanted",
            Self::Cancelled => "stopped on its node",
        }
    }
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

fn or_else(text: Text, default: &'static str) -> Text {
    if text.is_empty() { Text::Constant(default) } else { text }
}
