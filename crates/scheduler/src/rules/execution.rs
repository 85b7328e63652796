//! The lifecycle of an execution, as transitions named after events.
//!
//! The desired state (the scheduler's decision) and the compute state (the node's observation)
//! change independently. Every change of either increments the revision and records one event.

use alloc::string::String;

use api_types::execution::{ComputeState, DesiredState};
use api_types::job::JobType;
use api_types::protocol::{FailureCause, Report};
use api_types::{ExecutionId, NodeId};

use crate::change::{Fact, OutputRow};
use crate::end::{Cause, End};
use crate::rules::{ending, fetch, health, retry};
use crate::state::{State, executions};
use crate::text;
use crate::text::Text;
use crate::timer::Timer;
use crate::turn::Turn;

/// Handles a node's report about an execution. Late and repeated reports change nothing.
pub(crate) fn report(state: &mut State, turn: &mut Turn<'_>, node: NodeId, report: Report) {
    let id = report.execution_id;
    let Some(row) = state.executions.get(&id) else { return };
    if row.node != node || report.compute_state < row.compute {
        return;
    }
    if report.process_ended && report.compute_state == ComputeState::BidAccepted {
        return process_ended(state, turn, id, report.message.into());
    }
    if report.compute_state == row.compute {
        return progress(state, turn, id, report.message);
    }
    let message = Text::from(report.message.clone());
    match report.compute_state {
        ComputeState::Undefined | ComputeState::New | ComputeState::AskForBid => {}
        ComputeState::AskForBidAccepted => accept(state, turn, id, message),
        ComputeState::AskForBidRejected => {
            let cause = match report.cause {
                FailureCause::Room => Cause::Room,
                // A node's refusal to run something says nothing about its health.
                FailureCause::Fetch
                | FailureCause::Missing
                | FailureCause::Refused
                | FailureCause::Node
                | FailureCause::Task
                | FailureCause::Timeout
                | FailureCause::Publish => Cause::Fetch,
            };
            ending::end(state, turn, id, End::Declined(cause), message);
        }
        ComputeState::BidAccepted => start(state, turn, id, message),
        ComputeState::BidRejected => ending::end(state, turn, id, End::Unwanted, message),
        ComputeState::Completed => {
            // Reports about one execution arrive in order, so it must have started. If a node
            // skips the start report, record the start here, so that the history has no gap.
            start(state, turn, id, Text::Constant("started"));
            keep_output(turn, report);
            ending::end(state, turn, id, End::Completed, message);
        }
        ComputeState::Failed => {
            if report.definite && report.cause == FailureCause::Fetch {
                fetch::note_definite(state, id);
            }
            let end = match report.cause {
                _ if report.ended_agent => End::Disturbed(Cause::EndedAgent),
                FailureCause::Task => End::Failed { timeout: false },
                FailureCause::Timeout => End::Failed { timeout: true },
                FailureCause::Publish => End::Unpublished,
                cause @ (FailureCause::Node
                | FailureCause::Fetch
                | FailureCause::Missing
                | FailureCause::Refused
                | FailureCause::Room) => {
                    End::Disturbed(Cause::from_report(cause, report.confirmed))
                }
            };
            keep_output(turn, report);
            ending::end(state, turn, id, end, message);
        }
        ComputeState::Cancelled => {
            keep_output(turn, report);
            ending::end(state, turn, id, End::Cancelled, message);
        }
    }
}

/// Whether the report says that an execution has ended of which no report said that it started.
/// The job was running in between, and its history says so.
pub(crate) fn skips_the_start(state: &State, node: NodeId, report: &Report) -> bool {
    if report.compute_state != ComputeState::Completed {
        return false;
    }
    let row = state.executions.get(&report.execution_id);
    let row = row.filter(|row| row.node == node && row.compute < ComputeState::BidAccepted);
    row.is_some_and(|row| state.why_over(row.job).is_none())
}

/// AskForBid => AskForBidAccepted, followed by the go-ahead; or => BidRejected when the
/// execution is no longer wanted.
fn accept(state: &mut State, turn: &mut Turn<'_>, id: ExecutionId, message: Text) {
    if state.executions[&id].compute != ComputeState::AskForBid {
        return;
    }
    if let Some(row) = state.executions.get_mut(&id) {
        row.accepted_at = Some(turn.now);
    }
    let comment = text::or_else(message, "accepted by its node");
    state.timers.cancel(Timer::Offer(id));
    executions::observe(state, turn, id, ComputeState::AskForBidAccepted, comment);
    let row = &state.executions[&id];
    match (row.desired, state.why_over(row.job)) {
        // Its own turn to be asked to stop has not come yet.
        (DesiredState::Pending, Some(over)) => {
            executions::decide(state, turn, id, DesiredState::Stopped, over.clone());
            ending::end(state, turn, id, End::Unwanted, over);
        }
        (DesiredState::Pending, None) => {
            executions::decide(
                state,
                turn,
                id,
                DesiredState::Running,
                Text::Constant("run requested"),
            );
        }
        (DesiredState::Running, _) => {}
        (DesiredState::Stopped, _) => {
            let reason = state.executions[&id].desired_message.clone();
            ending::end(state, turn, id, End::Unwanted, reason);
        }
    }
}

/// AskForBidAccepted => AskForBidAccepted: fetching the image or inputs takes long. A repeated
/// report is recognised by its message.
fn progress(state: &mut State, turn: &mut Turn<'_>, id: ExecutionId, message: String) {
    let Some(row) = state.executions.get_mut(&id) else { return };
    let is_news = row.compute == ComputeState::AskForBidAccepted
        && row.desired == DesiredState::Running
        && !message.is_empty()
        && *row.compute_message != *message;
    if is_news {
        let message = Text::from(message);
        row.compute_message.clone_from(&message);
        executions::observe(state, turn, id, ComputeState::AskForBidAccepted, message);
    }
}

/// AskForBidAccepted => BidAccepted.
pub(crate) fn start(state: &mut State, turn: &mut Turn<'_>, id: ExecutionId, message: Text) {
    accept(state, turn, id, Text::Constant(""));
    let Some(row) = state.executions.get_mut(&id) else { return };
    if row.compute != ComputeState::AskForBidAccepted {
        return;
    }
    row.started_at = Some(turn.now);
    row.tries.refused_by = None;
    row.compute_message = Text::Constant("");
    let (job_id, index, node_id, placed) = (row.job, row.index, row.node, row.create_time);
    let is_first = row.previous.is_none();
    executions::observe(
        state,
        turn,
        id,
        ComputeState::BidAccepted,
        text::or_else(message, "started on its node"),
    );
    executions::count_running(state, node_id);
    retry::run_began(state, id);
    if let Some(job) = state.jobs.get(&job_id) {
        turn.out.facts.push(Fact::Started {
            at: turn.wall.max(job.row().last_event_time),
            submitted: job.plan.create_time,
            placed,
            is_first: is_first && job.plan.job_type != JobType::Daemon,
        });
    }
    fetch::fetch_worked(state, job_id, index);
    health::probe_started(state, turn, node_id, id);
    state.marks.jobs.push(job_id);
}

/// BidAccepted => BidAccepted: what waits for CPU, memory or GPUs need not wait for a publisher.
///
/// It costs one record, and the placements on a node that gains capacity. It is no event: the history
/// of an execution that goes well has six, whether or not it leaves results.
pub(crate) fn process_ended(
    state: &mut State,
    turn: &mut Turn<'_>,
    id: ExecutionId,
    message: Text,
) {
    start(state, turn, id, Text::Constant("started"));
    let Some(row) = state.executions.get_mut(&id) else { return };
    if row.compute != ComputeState::BidAccepted || row.process_ended_at.is_some() {
        return;
    }
    executions::release_process(state, turn, id, text::or_else(message, "its process has ended"));
}

pub(crate) fn keep_output(turn: &mut Turn<'_>, report: Report) {
    if report.run_output.is_none() && report.published_result.is_none() {
        return;
    }
    turn.out.changes.outputs.push(OutputRow {
        id: report.execution_id,
        run_output: report.run_output,
        tail: report.tail,
        usage: report.usage,
        curve: report.curve,
        published_result: report.published_result,
    });
}
