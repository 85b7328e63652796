//! What has become of the slots for which those of other jobs wait.

use alloc::vec::Vec;
use core::ops::Bound;

use api_types::JobId;

use crate::counterparts::{Counterparts, Finding};
use crate::dependency::Awaited;
use crate::outcomes::SlotOutcome;
use crate::state::job::LiveJob;
use crate::state::{State, dependants};

// === Counterparts ===

/// What is known of the counterparts of a slot that waits; nothing of any other.
pub(crate) fn finding(state: &State, job: &LiveJob, index: u32) -> Finding {
    match job.counterparts() {
        Some(slots) if slots.waits(index) => of_slot(state, job, index),
        _ => Finding::Open,
    }
}

/// What is known of the counterparts of a slot.
pub(crate) fn of_slot(state: &State, job: &LiveJob, index: u32) -> Finding {
    let Some(conditions) = &job.extras.conditions else { return Finding::Open };
    let of_slots = conditions.list.iter().filter(|awaited| !awaited.indexes.is_all());
    let mut finding = Finding::Ready;
    for Awaited { job: named, name, .. } in of_slots {
        let ended = dependants::ended(state, *named).and_then(|ended| ended.state);
        let found = outcome(state, *named, index);
        match crate::counterparts::finding(index, name, found, ended) {
            Finding::Ready => {}
            Finding::Open => finding = Finding::Open,
            never @ Finding::Never(_) => return never,
        }
    }
    finding
}

/// What became of a slot of a named job, as far as that is known.
fn outcome(state: &State, named: JobId, index: u32) -> SlotOutcome {
    if let Some(job) = state.jobs.get(&named) {
        return of_live(job, index);
    }
    let past = state.named.get(&named).and_then(|named| named.past.as_ref());
    past.map_or(SlotOutcome::ToDo, |past| past.get(index))
}

fn of_live(job: &LiveJob, index: u32) -> SlotOutcome {
    let row = job.row();
    match (row.slots.contains(index), row.slots.len()) {
        (false, _) => SlotOutcome::Absent,
        // Nothing but its counters is kept of a job with one slot.
        (true, 1) if row.failed_slots > 0 => SlotOutcome::Failed,
        (true, 1) if row.completed > 0 => SlotOutcome::Completed,
        (true, 1) => SlotOutcome::ToDo,
        (true, _) => job.extras.outcomes.get(index),
    }
}

/// The slot does not wait for its counterparts, or not any more.
pub(crate) fn decide(state: &mut State, id: JobId, index: u32) {
    if let Some(slots) = of(state, id) {
        slots.decide(index);
    }
}

/// All counterparts of the slot have completed.
pub(crate) fn release(state: &mut State, id: JobId, index: u32) {
    if let Some(slots) = of(state, id) {
        slots.release(index);
    }
}

fn of(state: &mut State, id: JobId) -> Option<&mut Counterparts> {
    let extra = state.jobs.get_mut(&id)?.extras.existing()?;
    extra.conditions.as_mut()?.counterparts.as_mut()
}

/// The next job whose slots wait for those of this one, in the order of their IDs.
pub(crate) fn next_matched(state: &State, named: JobId, after: Option<JobId>) -> Option<JobId> {
    let after = after.map_or(Bound::Unbounded, Bound::Excluded);
    state.named.get(&named)?.matched.range((after, Bound::Unbounded)).next().copied()
}

// === Restore ===

/// Derives which slots wait for their counterparts, and which may be placed, once the jobs, their
/// executions and what became of their slots are loaded.
pub(crate) fn restore(state: &mut State) {
    let jobs = state.jobs.values().filter(|job| job.awaits_counterparts());
    let jobs: Vec<JobId> = jobs.map(|job| job.row().id).collect();
    for id in jobs {
        let job = &state.jobs[&id];
        let executions = job.executions().iter().filter_map(|id| state.executions.get(id));
        let tried = executions.map(|row| row.index);
        let tried: Vec<u32> =
            tried.chain(job.extras.pending().iter().map(|slot| slot.index)).collect();
        tried.into_iter().for_each(|index| decide(state, id, index));
        let mut next = 0;
        while let Some(index) = state.jobs[&id].row().slots.at_or_above(next) {
            next = index + 1;
            let job = &state.jobs[&id];
            match of_live(job, index) {
                SlotOutcome::Completed | SlotOutcome::Failed => decide(state, id, index),
                SlotOutcome::ToDo | SlotOutcome::Absent => {
                    if finding(state, job, index) == Finding::Ready {
                        release(state, id, index);
                    }
                }
            }
        }
        dependants::leave_if_decided(state, id);
    }
}

/// Jobs some of whose slots wait for their counterparts, or which have not begun.
pub(crate) fn with_waiting_slots(state: &State) -> impl Iterator<Item = JobId> {
    let jobs = state.jobs.values().filter(|job| {
        job.awaits_counterparts() || job.counterparts().is_some() && job.waits_for_others()
    });
    jobs.filter(|job| !job.is_terminal()).map(|job| job.row().id)
}
