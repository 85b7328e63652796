//! The end of a slot for good, and what follows for its job.
//!
//! A job fails with the first slot that fails, unless its `MaxFailed` allows more. One that goes on
//! ends when each of its slots has ended; it is completed only if none of them failed.

use alloc::format;
use alloc::string::String;

use api_types::JobId;
use api_types::job::JobStateType;

use crate::outcomes::SlotOutcome;
use crate::rules::job_end;
use crate::state::job::LiveJob;
use crate::state::{State, outcomes};
use crate::text::Text;
use crate::turn::Turn;

/// What precedes the first failure of a job that goes on.
pub(crate) const FIRST: &str = "first failed index: ";

/// Whether a failed slot may be a failure of a part of its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    Slot,
    /// No other slot of the job could complete either.
    Job,
}

// === Outcomes ===

pub(crate) fn completed(state: &mut State, turn: &mut Turn<'_>, id: JobId, index: u32) {
    outcomes::record(state, turn, id, index, SlotOutcome::Completed);
}

/// A slot that nothing waits or runs for any more has failed, for this reason: `[3] on node-a: exit
/// code 1`.
pub(crate) fn failed(
    state: &mut State,
    turn: &mut Turn<'_>,
    id: JobId,
    index: u32,
    extent: Extent,
    why: Text,
) {
    outcomes::record(state, turn, id, index, SlotOutcome::Failed);
    let Some(job) = state.jobs.get(&id) else { return };
    if extent == Extent::Job || !job.tolerates_failures() {
        let message = match &job.extras.first_failure {
            Some(first) if extent == Extent::Slot => {
                let (counts, most) = (counts(job), job.extras.max_failed);
                format!("{counts} failed, more than MaxFailed ({most}); the first, {first}").into()
            }
            _ => why,
        };
        return job_end::end_job(state, turn, id, JobStateType::Failed, message);
    }
    if job.extras.first_failure.is_none() {
        let (now, comment) = (job.row().state, format!("{FIRST}{why}; the job goes on"));
        outcomes::note_first_failure(state, turn, id, why);
        state.note_job(turn, id, now, comment.into());
    }
    try_any(state, id);
    state.marks.jobs.push(id);
}

/// The slot may have been the one that the job's next probe waited for.
fn try_any(state: &mut State, id: JobId) {
    let Some(extra) = state.jobs.get_mut(&id).and_then(|job| job.extras.existing()) else { return };
    if extra.fetch.try_any() {
        state.mark_ready(id);
    }
}

/// Ends a job of which each slot has ended.
pub(crate) fn finish(state: &mut State, turn: &mut Turn<'_>, id: JobId) {
    let Some(job) = state.jobs.get(&id) else { return };
    let (to, message) = match (job.row().failed_slots, job.row().slots.len()) {
        (0, 1) => (JobStateType::Completed, Text::Constant("its execution completed")),
        (0, slots) => (JobStateType::Completed, format!("all {slots} executions completed").into()),
        (_, slots) => (JobStateType::Failed, failures(job, slots)),
    };
    job_end::end_job(state, turn, id, to, message);
}

/// `2 of 20 indexes failed; the first, [1] on node-a: exit code 1`.
fn failures(job: &LiveJob, slots: u32) -> Text {
    match (&job.extras.first_failure, slots) {
        (Some(first), 1) => first.clone(),
        (Some(first), _) => format!("{} failed; the first, {first}", counts(job)).into(),
        (None, _) => format!("{} failed", counts(job)).into(),
    }
}

fn counts(job: &LiveJob) -> String {
    format!("{} of {} indexes", job.row().failed_slots, job.row().slots.len())
}
