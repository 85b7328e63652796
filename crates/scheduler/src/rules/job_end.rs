//! The end of a job as a whole.

use alloc::format;

use api_types::JobId;
use api_types::job::JobStateType;

use crate::input::{Answer, Refusal};
use crate::state::State;
use crate::state::job::LiveJob;
use crate::text::Text;
use crate::turn::Turn;
use crate::views::explain;

pub(crate) fn stop(state: &mut State, turn: &mut Turn<'_>, id: JobId, reason: &str) -> Answer {
    let Some(job) = state.jobs.get(&id) else {
        return Answer::Refused(Refusal::JobNotLive(id));
    };
    if job.is_terminal() {
        return Answer::Refused(Refusal::JobFinished { job: id, state: job.row().state });
    }
    let evaluation = state.mint.evaluation();
    end_job(state, turn, id, JobStateType::Stopped, stop_message(reason));
    Answer::Stopped { evaluation }
}

/// What a job says that a user stops.
pub(crate) fn stop_message(reason: &str) -> Text {
    match reason.trim() {
        "" => Text::Constant("stopped by request"),
        reason => Text::from(format!("stopped by request: {reason}")),
    }
}

/// Pending, Queued or Running => Completed, Failed or Stopped.
///
/// Waiting slots are dropped. Running executions are marked to be asked to stop; the job stays live
/// until its last execution has ended.
pub(crate) fn end_job(
    state: &mut State,
    turn: &mut Turn<'_>,
    id: JobId,
    to: JobStateType,
    message: Text,
) {
    state.close_job(turn, id, to, message);
    state.marks.stops.push(id);
}

/// A job of which nothing that scheduling needs can be read, unless a user has ended it.
pub(crate) fn fail_damaged(state: &mut State, turn: &mut Turn<'_>, id: JobId, why: Text) {
    if state.jobs.get(&id).is_some_and(|job| !job.is_terminal()) {
        end_job(state, turn, id, JobStateType::Failed, why);
    }
}

/// Removes a terminal job from memory once its last execution has ended.
pub(crate) fn drop_if_over(state: &mut State, turn: &mut Turn<'_>, id: JobId) {
    let is_over = |job: &LiveJob| job.is_terminal() && job.executions().is_empty();
    if state.jobs.get(&id).is_some_and(is_over) {
        state.remove_job(turn, id);
    }
}

pub(crate) fn queue_timed_out(state: &mut State, turn: &mut Turn<'_>, id: JobId) {
    let Some(job) = state.jobs.get(&id) else { return };
    let (Some(_), Some(bound)) = (job.row().waiting_since, job.plan.queue_timeout()) else {
        return;
    };
    let why = explain::explain_job(state, id).text;
    let message =
        format!("waited longer than QueueTimeout ({} s) for room: {why}", bound.as_secs());
    end_job(state, turn, id, JobStateType::Failed, message.into());
}

pub(crate) fn total_timed_out(state: &mut State, turn: &mut Turn<'_>, id: JobId) {
    let Some(bound) = state.jobs.get(&id).and_then(|job| job.plan.total_timeout()) else {
        return;
    };
    if state.jobs[&id].is_terminal() {
        return;
    }
    let message = format!("took longer than TotalTimeout ({} s)", bound.as_secs());
    end_job(state, turn, id, JobStateType::Failed, message.into());
}
