//! Jobs that wait for others: they begin when their conditions hold, and end when these no longer can.

use api_types::JobId;

use crate::dependency::Verdict;
use crate::rules::{job_end, submission};
use crate::state::{State, dependants, gate};
use crate::timer::Timer;
use crate::turn::Turn;

// === Dependencies ===

/// Decides about a job whose conditions may hold by now, or whose turn to begin has come.
pub(crate) fn review(state: &mut State, turn: &mut Turn<'_>, id: JobId) {
    turn.budget.spend();
    let Some(job) = state.jobs.get(&id).filter(|job| !job.is_terminal()) else { return };
    if !job.waits_for_others() && !job.awaits_counterparts() {
        return;
    }
    let of_slots = job.counterparts().is_some();
    match dependants::verdict_of(state, job) {
        Verdict::Holds(_) if !of_slots => begin(state, turn, id),
        Verdict::Never(to, why) => job_end::end_job(state, turn, id, to, why),
        Verdict::Holds(_) | Verdict::Open => {
            if of_slots {
                // Some have ended already, or the other job leaves them, or does not have them.
                state.marks.walks.push(id);
            }
            let (says, job) = (gate::waits_for(state, job), &state.jobs[&id]);
            let is_gate = job.waits_for_others() || gate::names_counterparts(job);
            if is_gate && job.extras.gate().is_some() && job.row().message != says {
                state.set_message(turn, id, says);
            }
            state.marks.jobs.push(id);
        }
    }
}

/// Whether the conditions of a new job hold, which is then like one without any.
pub(crate) fn hold_now(state: &mut State, turn: &Turn<'_>, id: JobId) -> bool {
    let job = state.jobs.get(&id);
    let holds =
        job.is_some_and(|job| matches!(dependants::verdict_of(state, job), Verdict::Holds(_)));
    if holds {
        dependants::leave(state, id);
        dependants::hold(state, id, turn.now);
    }
    holds
}

/// The last condition of the job holds, or its first slot may start: from now on it is like one that
/// was just submitted.
pub(crate) fn begin(state: &mut State, turn: &mut Turn<'_>, id: JobId) {
    dependants::hold(state, id, turn.now);
    dependants::leave_if_decided(state, id);
    if state.jobs.get(&id).is_some_and(|job| job.counterparts().is_some()) {
        turn.out.changes.begun.push((id, turn.now));
    }
    if let Some(bound) = state.jobs.get(&id).and_then(|job| job.plan.total_timeout()) {
        state.timers.set(turn.now + bound, Timer::TotalTimeout(id));
    }
    submission::place_new(state, turn, id);
}

/// A job that began before the last restart has no slot yet: each belongs to a node.
pub(crate) fn place_restored(state: &mut State, turn: &mut Turn<'_>, id: JobId) {
    turn.budget.spend();
    let lacks_slots = state.jobs.get(&id).is_some_and(|job| {
        !job.is_terminal() && !job.waits_for_others() && job.row().slots.is_empty()
    });
    if lacks_slots {
        submission::place_new(state, turn, id);
    }
}
