//! How executions end, who is responsible, and the consequences for their slot, job and node.

use alloc::format;

use api_types::ExecutionId;
use api_types::execution::{ComputeState, DesiredState};
use api_types::job::JobStateType;
use api_types::protocol::FailureCause;

use crate::change::ExecutionRow;
use crate::execution::or_else;
use crate::restore::unreadable;
use crate::text::Text;
use crate::timer::Timer;
use crate::{Scheduler, Turn};

/// How an execution ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Completed,
    /// The task itself failed or exceeded its time limit.
    Failed {
        timeout: bool,
    },
    /// The execution failed for a reason unrelated to the task.
    Disturbed(Cause),
    /// The run succeeded, but its results cannot be published.
    Unpublished,
    /// The node declined it.
    Declined(Cause),
    /// The node did not answer the offer in time.
    Unanswered,
    /// The orchestrator cannot send the node the specification.
    Unreadable,
    /// The node accepted the offer after the scheduler had withdrawn it.
    Unwanted,
    /// Its node stopped it.
    Cancelled,
}

/// Why an execution failed for reasons unrelated to the task; decides which budget is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The node cannot fetch the image, a module or an input.
    Fetch,
    /// The node has a defect.
    Node,
    /// The node fell silent.
    Lost,
    /// An operator forgot or rejected the node.
    Removed,
    /// Something that the task names does not exist yet.
    Missing,
    /// Nothing failed: the node turned out to have no room, or an operator moved the execution.
    Room,
}

// === impl Cause ===

impl Cause {
    /// Whether the node is excluded for the slot for a while.
    pub(crate) const fn excludes(self) -> bool {
        match self {
            Self::Fetch | Self::Node => true,
            Self::Missing | Self::Lost | Self::Removed | Self::Room => false,
        }
    }

    pub(crate) const fn of(reported: FailureCause) -> Self {
        match reported {
            FailureCause::Fetch => Self::Fetch,
            FailureCause::Missing => Self::Missing,
            FailureCause::Room => Self::Room,
            FailureCause::Node
            | FailureCause::Task
            | FailureCause::Timeout
            | FailureCause::Publish => Self::Node,
        }
    }
}

// === impl End ===

impl End {
    const fn compute_state(self) -> ComputeState {
        match self {
            Self::Completed => ComputeState::Completed,
            Self::Failed { .. } | Self::Disturbed(_) | Self::Unpublished | Self::Unreadable => {
                ComputeState::Failed
            }
            Self::Declined(_) => ComputeState::AskForBidRejected,
            Self::Unwanted => ComputeState::BidRejected,
            Self::Cancelled | Self::Unanswered => ComputeState::Cancelled,
        }
    }
}

impl End {
    const fn default_message(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed { timeout: false } => "failed",
            Self::Failed { timeout: true } => "timed out",
            Self::Disturbed(Cause::Lost | Cause::Removed) => "lost with its node",
            Self::Disturbed(_) => "failed for a reason unrelated to the task",
            Self::Unpublished => "its results cannot be published",
            Self::Declined(_) => "declined by its node",
            Self::Unreadable => "its specification cannot be read",
            Self::Unanswered => "its node did not answer the offer",
            Self::Unwanted => "no longer wanted",
            Self::Cancelled => "stopped on its node",
        }
    }
}

// === impl Scheduler: endings ===

impl Scheduler {
    /// Any live state => the terminal state of this end. Frees the reserved resources and decides
    /// what follows.
    pub(crate) fn end(&mut self, turn: &mut Turn<'_>, id: ExecutionId, end: End, message: Text) {
        let Some(row) = self.executions.get_mut(&id) else { return };
        turn.budget.spend();
        let was_running = row.compute == ComputeState::BidAccepted;
        let was_wanted = row.desired != DesiredState::Stopped;
        row.desired = DesiredState::Stopped;
        let message = or_else(message, end.default_message());
        if was_wanted {
            row.desired_message.clone_from(&message);
        }
        row.compute_message.clone_from(&message);
        self.observe(turn, id, end.compute_state(), message);
        let row = *self.executions.take(&id).expect("it was there a line above");
        let job_type = self.jobs.get(&row.job).map(|job| job.plan.job_type);
        if let Some(node) = self.nodes.get_mut(&row.node) {
            node.executions.remove(&id);
            node.used = node.used.minus(&row.held());
            if job_type.is_some_and(|job_type| !job_type.is_finite()) {
                node.unending = node.unending.minus(&row.held());
            }
            node.running -= u64::from(was_running);
            self.queue.reload(node);
            self.touched.insert(row.node);
        }
        self.note_drained(turn, row.node);
        if let Some(job) = self.jobs.get_mut(&row.job) {
            job.executions.remove(&id);
            job.silent_execution_ended(row.node);
            // From here on, a restart can no longer read the time of the last event from this
            // execution.
            turn.out.changes.jobs.insert(row.job, job.row.clone());
        }
        self.timers.cancel(Timer::Offer(id));
        if matches!(end, End::Unwanted | End::Unanswered | End::Unreadable) {
            self.tell_stop(turn, &row);
        }
        let (job_id, node_id) = (row.job, row.node);
        let was_probe = self.update_health(turn, &row, end, was_wanted);
        self.follow_up(turn, row, end, was_wanted, was_probe);
        self.fetch_probe_ended(turn, job_id, id);
        self.review_reservation(turn, node_id);
        self.fill_node(turn, node_id);
        self.refresh_job(turn, job_id);
        self.drop_if_over(turn, job_id);
    }

    /// Fails the job of an execution that cannot start, because the node cannot be told what to run
    /// or what the task may read. What a node runs already is in its own ledger, and goes on there.
    ///
    /// The task has cost nothing and is not to blame, nor is the node.
    pub(crate) fn unreadable(&mut self, turn: &mut Turn<'_>, id: ExecutionId, reason: &str) {
        let Some(row) = self.executions.get(&id) else { return };
        let (compute, job) = (row.compute, row.job);
        let message = Text::from(unreadable(&reason));
        match compute {
            ComputeState::AskForBid => self.end(turn, id, End::Unreadable, message),
            ComputeState::AskForBidAccepted if !self.jobs[&job].is_terminal() => {
                self.end_job(turn, job, JobStateType::Failed, message);
            }
            _ => {}
        }
    }

    /// Decides what happens to the slot and the job after one of the job's executions has ended.
    fn follow_up(
        &mut self,
        turn: &mut Turn<'_>,
        row: ExecutionRow,
        end: End,
        was_wanted: bool,
        was_probe: bool,
    ) {
        let Some(job) = self.jobs.get_mut(&row.job) else { return };
        if job.is_terminal() {
            return;
        }
        let job_id = row.job;
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
            End::Unpublished => self.give_up(turn, &row, "the task is not run again for that"),
            // No other try could read it, of no slot of the job.
            End::Unreadable => {
                self.end_job(turn, job_id, JobStateType::Failed, row.compute_message)
            }
            // Stopped for a drain or the like: the slot moves to another node and has not failed.
            End::Cancelled
            | End::Unwanted
            | End::Declined(_)
            | End::Unanswered
            | End::Disturbed(Cause::Node | Cause::Fetch | Cause::Missing | Cause::Room)
                if !was_wanted =>
            {
                self.move_slot(turn, row);
            }
            End::Completed | End::Failed { .. } => self.run_again(turn, row, end),
            End::Disturbed(Cause::Room) | End::Declined(Cause::Room) => {
                self.no_room_after_all(turn, row);
            }
            // A job that names nothing lacks nothing: such a node is wrong about itself.
            End::Disturbed(Cause::Missing) if !job.plan.names_secrets => {
                self.try_elsewhere(turn, row, Cause::Node, was_probe);
            }
            End::Disturbed(Cause::Missing) => self.wait_for_missing(turn, row),
            End::Disturbed(cause) | End::Declined(cause) => {
                let failed = (cause == Cause::Fetch).then(|| row.clone());
                self.try_elsewhere(turn, row, cause, was_probe);
                if let Some(failed) = failed {
                    self.fetch_failed(turn, &failed);
                }
            }
            End::Unanswered | End::Unwanted | End::Cancelled => {
                self.try_elsewhere(turn, row, Cause::Node, was_probe);
            }
        }
    }
}
