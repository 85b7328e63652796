//! Slots that wait for the same slots of other jobs: each may be placed when all of its counterparts
//! have completed, and fails when one of them never will.

use alloc::sync::Arc;

use api_types::JobId;

use crate::counterparts::Finding;
use crate::dependency::Verdict;
use crate::rules::dependency;
use crate::rules::outcome::{self, Extent};
use crate::state::{State, counterparts, dependants};
use crate::turn::Turn;

/// Slots that are checked in the time that one placement takes.
const CHECKED: u32 = 16;

// === Counterparts ===

/// The slot of a named job has ended, for which that of this job may have waited.
pub(crate) fn has_ended(state: &mut State, turn: &mut Turn<'_>, id: JobId, index: u32) {
    turn.budget.spend();
    decide(state, turn, id, index);
    begin_if_ready(state, turn, id);
}

/// Decides about the slots of the job from this one on. Returns where to continue, if the turn may
/// not do more.
pub(crate) fn decide_from(
    state: &mut State,
    turn: &mut Turn<'_>,
    id: JobId,
    mut next: u32,
) -> Option<u32> {
    let mut checked = 0;
    turn.budget.spend();
    while let Some(job) = state.jobs.get(&id).filter(|job| job.awaits_counterparts()) {
        let Some(index) = job.row().slots.at_or_above(next) else { break };
        if turn.budget.is_spent() {
            return Some(next);
        }
        decide(state, turn, id, index);
        (next, checked) = (index + 1, checked + 1);
        if checked % CHECKED == 0 {
            turn.budget.spend();
        }
    }
    begin_if_ready(state, turn, id);
    None
}

fn decide(state: &mut State, turn: &mut Turn<'_>, id: JobId, index: u32) {
    let Some(job) = state.jobs.get(&id).filter(|job| !job.is_terminal()) else { return };
    match counterparts::finding(state, job, index) {
        Finding::Open => return,
        Finding::Ready => {
            counterparts::release(state, id, index);
            state.mark_ready(id);
            state.marks.jobs.push(id);
        }
        Finding::Never(why) => {
            let namespace = Arc::clone(&job.plan.namespace);
            counterparts::decide(state, id, index);
            state.queue.quotas.unqueued(&namespace, 1);
            outcome::failed(state, turn, id, index, Extent::Slot, why);
        }
    }
    dependants::leave_if_decided(state, id);
}

/// The job begins with its first slot that may be placed, if it waits for nothing else.
pub(crate) fn begin_if_ready(state: &mut State, turn: &mut Turn<'_>, id: JobId) {
    let Some(job) = state.jobs.get(&id).filter(|job| !job.is_terminal()) else { return };
    if job.waits_for_others()
        && job.counterparts().is_some_and(|slots| slots.ready().len() > 0)
        && matches!(dependants::verdict_of(state, job), Verdict::Holds(_))
    {
        dependency::begin(state, turn, id);
    }
}
