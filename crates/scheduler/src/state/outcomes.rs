//! What became of the slots of a job, as it is counted, kept and stored.

use api_types::JobId;

use crate::change::{Fact, JobOutcomes};
use crate::outcomes::SlotOutcome;
use crate::state::State;
use crate::text::Text;
use crate::timer::Timer;
use crate::turn::Turn;

/// A slot of the job has ended for good.
pub(crate) fn record(
    state: &mut State,
    turn: &mut Turn<'_>,
    id: JobId,
    index: u32,
    outcome: SlotOutcome,
) {
    let Some(job) = state.jobs.get_mut(&id) else { return };
    match outcome {
        SlotOutcome::Completed => job.row.completed += 1,
        SlotOutcome::Failed => {
            job.row.failed_slots += 1;
            turn.out.facts.push(Fact::SlotFailed);
        }
        SlotOutcome::Absent | SlotOutcome::ToDo => return,
    }
    turn.out.changes.jobs.insert(id, job.row.clone());
    if state.named.get(&id).is_some_and(|named| !named.matched.is_empty()) {
        state.marks.counterparts.push((id, index));
    }
    if job.row.slots.len() > 1 {
        let (number, chunk) = job.extras.to_mut().outcomes.record(&job.row.slots, index, outcome);
        let stored = turn.out.changes.outcomes.entry((id, number));
        stored.and_modify(|stored| stored.set(index, outcome)).or_insert_with(|| chunk.clone());
    }
}

/// Keeps why the first slot failed of a job that goes on.
pub(crate) fn note_first_failure(state: &mut State, turn: &mut Turn<'_>, id: JobId, why: Text) {
    let Some(job) = state.jobs.get_mut(&id) else { return };
    job.extras.to_mut().first_failure = Some(why.clone());
    turn.out.changes.first_failures.push((id, why));
}

/// Drops a slot that waits and is not tried again.
pub(crate) fn drop_waiting(state: &mut State, turn: &mut Turn<'_>, id: JobId, index: u32) {
    let Some(job) = state.jobs.get_mut(&id) else { return };
    let Some(slot) = job.extras.pending().get(index) else { return };
    let (pinned, was_placed) = (slot.pinned, slot.previous.is_some());
    if let Some(node) = pinned.filter(|_| !was_placed) {
        turn.out.changes.unplaced.push((id, index, node));
    }
    job.take_pending(index, &mut turn.out.changes);
    state.queue.quotas.unqueued(&job.plan.namespace, 1);
    state.timers.cancel(Timer::Retry(id, index));
    state.timers.cancel(Timer::Exclusion(id, index));
    if let Some(node) = pinned.and_then(|node| state.nodes.get_mut(&node)) {
        node.unpin((job.plan.rank, index));
        node.delayed.remove(&(id, index));
        state.marks.pinned.push(node.id());
    }
}

/// Adds what was loaded from the store.
pub(crate) fn restore(state: &mut State, stored: JobOutcomes) {
    let JobOutcomes { job, outcomes, first_failure } = stored;
    let Some(job) = state.jobs.get_mut(&job) else { return };
    let extra = job.extras.to_mut();
    extra.outcomes = outcomes;
    extra.first_failure = first_failure;
}
