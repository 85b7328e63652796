//! How executions end, who is responsible, and the consequences for their slot, job and node.

use api_types::ExecutionId;
use api_types::execution::{ComputeState, DesiredState};
use api_types::job::JobStateType;

use crate::change::ExecutionRow;
use crate::end;
use crate::end::{Cause, End};
use crate::rules::outcome::{self, Extent};
use crate::rules::{fetch, health, job_end, refusal, retry};
use crate::state::{State, executions};
use crate::text::{Text, or_else};
use crate::turn::Turn;

// === Endings ===

/// Any live state => the terminal state of this end. Frees the reserved resources and decides
/// what follows.
pub(crate) fn end(
    state: &mut State,
    turn: &mut Turn<'_>,
    id: ExecutionId,
    end: End,
    message: Text,
) {
    let Some(row) = state.executions.get_mut(&id) else { return };
    turn.budget.spend();
    let was_running = row.compute == ComputeState::BidAccepted;
    let was_wanted = row.desired != DesiredState::Stopped;
    row.desired = DesiredState::Stopped;
    let message = or_else(message, end.default_message());
    if was_wanted {
        row.desired_message.clone_from(&message);
    }
    row.compute_message.clone_from(&message);
    executions::observe(state, turn, id, end.compute_state(), message);
    let row = executions::release(state, turn, id, was_running);
    if matches!(end, End::Unwanted | End::Unanswered | End::Unreadable) {
        executions::tell_stop(turn, &row);
    }
    let (job_id, node_id) = (row.job, row.node);
    let was_probe = health::update_health(state, turn, &row, end, was_wanted);
    follow_up(state, turn, row, end, was_wanted, was_probe);
    fetch::fetch_probe_ended(state, job_id, id);
    state.marks.reservations.push(node_id);
    state.marks.nodes.push(node_id);
}

/// Fails the job of an execution that cannot start, because the node cannot be told what to run
/// or what the task may read. What a node runs already is in its own ledger, and goes on there.
///
/// The task has cost nothing and is not to blame, nor is the node.
pub(crate) fn unreadable(state: &mut State, turn: &mut Turn<'_>, id: ExecutionId, reason: &str) {
    let Some(row) = state.executions.get(&id) else { return };
    let (compute, job) = (row.compute, row.job);
    let message = Text::from(end::unreadable(&reason));
    match compute {
        ComputeState::AskForBid => end(state, turn, id, End::Unreadable, message),
        ComputeState::AskForBidAccepted if !state.jobs[&job].is_terminal() => {
            job_end::end_job(state, turn, job, JobStateType::Failed, message);
        }
        _ => {}
    }
}

/// Decides what happens to the slot and the job after one of the job's executions has ended.
fn follow_up(
    state: &mut State,
    turn: &mut Turn<'_>,
    row: ExecutionRow,
    end: End,
    was_wanted: bool,
    was_probe: bool,
) {
    let Some(job) = state.jobs.get(&row.job) else { return };
    if job.is_terminal() {
        return;
    }
    let job_id = row.job;
    match end {
        End::Completed if job.plan.job_type.is_finite() => {
            outcome::completed(state, turn, job_id, row.index);
        }
        End::Failed { timeout: true } if job.plan.job_type.is_finite() => {
            let message = retry::failure(state, &row).into();
            outcome::failed(state, turn, job_id, row.index, Extent::Slot, message);
        }
        End::Unpublished => retry::give_up(state, turn, &row, "the task is not run again for that"),
        // No other try could read it, of no slot of the job.
        End::Unreadable => {
            job_end::end_job(state, turn, job_id, JobStateType::Failed, row.compute_message)
        }
        // Stopped for a drain or the like: the slot moves to another node and has not failed.
        End::Cancelled
        | End::Unwanted
        | End::Declined(_)
        | End::Unanswered
        | End::Disturbed(
            Cause::Node
            | Cause::Defect
            | Cause::EndedAgent
            | Cause::Refused
            | Cause::Fetch
            | Cause::Missing
            | Cause::Room,
        ) if !was_wanted => {
            retry::move_slot(state, turn, row);
        }
        End::Completed | End::Failed { .. } => retry::run_again(state, turn, row, end),
        End::Disturbed(Cause::Room) | End::Declined(Cause::Room) => {
            retry::no_room_after_all(state, turn, row);
        }
        // The job names no secrets, so the node is at fault.
        End::Disturbed(Cause::Missing) if !job.plan.names_secrets => {
            retry::try_elsewhere(state, turn, row, Cause::Node, was_probe);
        }
        End::Disturbed(Cause::Missing) => fetch::wait_for_missing(state, turn, row),
        End::Disturbed(Cause::Refused) => refusal::refused(state, turn, row),
        End::Disturbed(cause) | End::Declined(cause) => {
            if cause == Cause::Fetch && fetch::is_definite(state, &row) {
                return fetch::give_up_definite(state, turn, &row);
            }
            let failed = (cause == Cause::Fetch).then(|| row.clone());
            retry::try_elsewhere(state, turn, row, cause, was_probe);
            if let Some(failed) = failed {
                fetch::fetch_failed(state, turn, &failed);
            }
        }
        End::Unanswered | End::Unwanted | End::Cancelled => {
            retry::try_elsewhere(state, turn, row, Cause::Node, was_probe);
        }
    }
}
