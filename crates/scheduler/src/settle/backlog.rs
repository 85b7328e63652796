//! Continues what earlier turns had no budget for.

use api_types::NodeId;

use crate::rank::{ClassId, PoolId};
use crate::rules::{counterpart, dependency, fetch, job_end, silence};
use crate::settle;
use crate::settle::leftover::Settle;
use crate::settle::{group, notice, placement, quota};
use crate::state::{State, counterparts, dependants};
use crate::turn::Turn;

/// What it costs to compare a node with some thousands of pools: a whole turn.
const COMPARISONS: usize = 512;

// === The backlog ===

/// Continues what earlier turns had no budget for.
pub(crate) fn work_off_backlog(settle: &mut Settle, state: &mut State, turn: &mut Turn<'_>) {
    while !turn.budget.is_spent()
        && let Some((job, why)) = settle.backlog.damaged.pop_first()
    {
        turn.budget.spend();
        job_end::fail_damaged(state, turn, job, why);
        settle::pass(settle, state, turn);
    }
    while !turn.budget.is_spent()
        && let Some((job, after)) = settle.backlog.stops.pop_first()
    {
        settle::stop_over(settle, state, turn, job, after);
        settle::pass(settle, state, turn);
    }
    while !turn.budget.is_spent()
        && let Some(id) = settle.backlog.replacements.first_key_value().map(|(id, _)| *id)
    {
        group::replace(settle, state, turn, id);
        settle::pass(settle, state, turn);
    }
    while !turn.budget.is_spent()
        && let Some(node) = settle.backlog.drains.pop_first()
    {
        settle::drain(settle, state, turn, node);
        settle::pass(settle, state, turn);
    }
    while !turn.budget.is_spent()
        && let Some(node) = settle.backlog.covers.pop_first()
    {
        settle::take_up(settle, state, turn, node);
        settle::pass(settle, state, turn);
    }
    while !turn.budget.is_spent()
        && let Some(node) = settle.backlog.silences.pop_first()
    {
        turn.budget.spend();
        silence::tell_jobs_of_silence(state, turn, node);
        settle::pass(settle, state, turn);
    }
    while !turn.budget.is_spent()
        && let Some(job) = settle.backlog.provided.pop_first()
    {
        fetch::try_provided(state, turn, job);
        settle::pass(settle, state, turn);
    }
    tell_dependants(settle, state, turn);
    look_for_room(settle, state, turn);
}

/// Compares nodes with pools, and places what waits for room, for nodes or for units.
fn look_for_room(settle: &mut Settle, state: &mut State, turn: &mut Turn<'_>) {
    turn.budget.spend_many(state.queue.follow_capacity());
    while !turn.budget.is_spent()
        && let Some((node, after)) = settle.backlog.comparisons.pop_first()
    {
        compare_node(settle, state, turn, node, after);
    }
    while !turn.budget.is_spent()
        && let Some((node, after)) = settle.backlog.nodes.pop_first()
    {
        placement::fill_node_after(settle, state, turn, node, after);
        settle::pass(settle, state, turn);
    }
    while !turn.budget.is_spent()
        && let Some(id) = settle.backlog.groups.pop_first()
    {
        group::follow(settle, state, turn, id);
        settle::pass(settle, state, turn);
    }
    while !turn.budget.is_spent()
        && let Some(namespace) = settle.backlog.quotas.pop_first()
    {
        quota::follow(settle, state, turn, &namespace);
        settle::pass(settle, state, turn);
    }
    while !turn.budget.is_spent()
        && let Some(class) = state.queue.lanes.pop_postponed()
    {
        if resume_class(state, class) {
            placement::place_class(settle, state, turn, class);
        }
        settle::pass(settle, state, turn);
    }
    while !turn.budget.is_spent()
        && let Some((job, after)) = settle.backlog.offers.pop_first()
    {
        placement::offer_pinned(settle, state, turn, job, after);
        settle::pass(settle, state, turn);
    }
    while !turn.budget.is_spent()
        && let Some((class, after)) = settle.backlog.refreshes.pop_first()
    {
        notice::refresh_waiting(settle, state, turn, class, after);
        settle::pass(settle, state, turn);
    }
}

/// Reviews the jobs that wait for others which are over, and those that have not begun.
fn tell_dependants(settle: &mut Settle, state: &mut State, turn: &mut Turn<'_>) {
    tell_counterparts(settle, state, turn);
    while !turn.budget.is_spent()
        && let Some((named, mut after)) = settle.backlog.named.pop_first()
    {
        while let Some(job) = dependants::next_dependant(state, named, after) {
            if turn.budget.is_spent() {
                settle.backlog.named.insert(named, after);
                break;
            }
            after = Some(job);
            dependency::review(state, turn, job);
            settle::pass(settle, state, turn);
        }
    }
    while !turn.budget.is_spent()
        && let Some(job) = settle.backlog.begins.pop_first()
    {
        dependency::review(state, turn, job);
        dependency::place_restored(state, turn, job);
        settle::pass(settle, state, turn);
    }
}

/// Decides about slots that waited for those of other jobs. These come before the ends of the jobs:
/// what became of a slot says more.
fn tell_counterparts(settle: &mut Settle, state: &mut State, turn: &mut Turn<'_>) {
    while !turn.budget.is_spent()
        && let Some(((named, index), mut after)) = settle.backlog.counterparts.pop_first()
    {
        while let Some(job) = counterparts::next_matched(state, named, after) {
            if turn.budget.is_spent() {
                settle.backlog.counterparts.insert((named, index), after);
                break;
            }
            after = Some(job);
            counterpart::has_ended(state, turn, job, index);
            settle::pass(settle, state, turn);
        }
    }
    while !turn.budget.is_spent()
        && let Some((job, next)) = settle.backlog.walks.pop_first()
    {
        if let Some(next) = counterpart::decide_from(state, turn, job, next) {
            settle.backlog.walks.insert(job, next);
        }
        settle::pass(settle, state, turn);
    }
}

fn compare_node(
    settle: &mut Settle,
    state: &mut State,
    turn: &mut Turn<'_>,
    id: NodeId,
    after: PoolId,
) {
    let Some(node) = state.nodes.get(&id) else { return };
    turn.budget.spend_many(COMPARISONS);
    let Some(bit) = node.bit() else { return };
    if let Some(after) = state.queue.compare(bit, &node.row().record, Some(after)) {
        settle.backlog.comparisons.insert(id, after);
    }
    settle.backlog.nodes.insert(id, None);
}

/// The turn of a class has come; false if its last job has ended since it was postponed.
fn resume_class(state: &mut State, id: ClassId) -> bool {
    let is_alive = state.queue.find_class(id).is_some();
    if is_alive {
        state.queue.class_mut(id).postponed = false;
    }
    is_alive
}
