//! The second phase of an event: what follows from the changes of a rule.
//!
//! Only code that has a [`Settle`] places work; no rule has one. The cost of a pass depends only on
//! what the event marked.

pub(crate) mod backlog;
mod candidate;
pub(crate) mod group;
pub(crate) mod leftover;
pub(crate) mod notice;
pub(crate) mod placement;
pub(crate) mod quota;
pub(crate) mod reservation;

use api_types::{ExecutionId, JobId, NodeId, Timestamp};

use crate::budget::{Budget, Walk};
use crate::rules::{covers, job_end, stopping};
use crate::settle::leftover::Settle;
use crate::settle::reservation::starving;
use crate::state::State;
use crate::time::Moment;
use crate::turn::{Output, Turn};

// === The second phase ===

/// Settles the marks of one event: always the first stage that has one, until none is left.
///
/// Stops leave before offers. Free room goes to the best rank that waits or is ready, and a ready
/// job then looks for room elsewhere. A job's state is derived from what was placed, the heads of
/// the queues from who waits then, and a job that is over is dropped last.
pub(crate) fn pass(settle: &mut Settle, state: &mut State, turn: &mut Turn<'_>) {
    loop {
        if let Some(job) = state.marks.stops.pop() {
            stop_over(settle, state, turn, job, None);
        } else if let Some(id) = state.marks.replacements.pop() {
            group::replace(settle, state, turn, id);
        } else if let Some(node) = state.marks.drains.pop() {
            drain(settle, state, turn, node);
        } else if let Some((node, after)) = state.marks.comparisons.pop() {
            settle.backlog.comparisons.insert(node, after);
        } else if let Some(job) = state.marks.named.pop() {
            settle.backlog.named.insert(job, None);
        } else if let Some(slot) = state.marks.counterparts.pop() {
            settle.backlog.counterparts.insert(slot, None);
        } else if let Some(job) = state.marks.walks.pop() {
            settle.backlog.walks.insert(job, 0);
        } else if let Some(job) = state.marks.begins.pop() {
            settle.backlog.begins.insert(job);
        } else if let Some(node) = state.marks.covers.pop() {
            take_up(settle, state, turn, node);
        } else if let Some(node) = state.marks.reservations.pop() {
            reservation::review_reservation(state, turn, node);
        } else if let Some(id) = state.marks.groups.pop() {
            group::follow(settle, state, turn, id);
        } else if let Some(namespace) = state.marks.quotas.pop() {
            quota::follow(settle, state, turn, &namespace);
        } else if let Some(node) = state.marks.nodes.pop() {
            state.queue_ready_jobs();
            placement::fill_node(settle, state, turn, node);
        } else if let Some((job, class)) = state.marks.ready.pop() {
            placement::place_job(settle, state, turn, job, class);
        } else if let Some(opened) = state.marks.opened.pop() {
            group::place_opened(settle, state, turn, opened);
        } else if let Some(job) = state.marks.offers.pop() {
            placement::offer_pinned(settle, state, turn, job, None);
        } else if let Some(job) = state.marks.jobs.pop() {
            notice::refresh_job(state, turn, job);
        } else if let Some((waiter, head)) = reservation::next_changed_queue(state) {
            starving::follow_head(settle, state, turn, waiter, head);
        } else if let Some(job) = state.marks.ended.pop() {
            job_end::drop_if_over(state, turn, job);
        } else {
            return;
        }
    }
}

/// Asks the executions of a job that is over to stop.
pub(crate) fn stop_over(
    settle: &mut Settle,
    state: &mut State,
    turn: &mut Turn<'_>,
    job: JobId,
    after: Option<ExecutionId>,
) {
    match stopping::stop_executions(state, turn, job, after) {
        Walk::Done => {}
        Walk::Left { after } => drop(settle.backlog.stops.insert(job, after)),
    }
}

pub(crate) fn drain(settle: &mut Settle, state: &mut State, turn: &mut Turn<'_>, node: NodeId) {
    if stopping::move_work(state, turn, node) {
        settle.backlog.drains.insert(node);
    }
}

pub(crate) fn take_up(settle: &mut Settle, state: &mut State, turn: &mut Turn<'_>, node: NodeId) {
    match turn.budget.is_spent() {
        true => drop(settle.backlog.covers.insert(node)),
        false => covers::take_up_work(state, turn, node),
    }
}

/// Settles what a restore marked. It filled queues and ended nothing, so this brings nothing
/// about that a node or the store would have to know.
pub(crate) fn settle_restored(settle: &mut Settle, state: &mut State, now: Moment) {
    let out = &mut Output::default();
    let budget = Budget::of_a_turn();
    pass(settle, state, &mut Turn { now, wall: Timestamp::ZERO, out, budget });
    assert!(out.changes.is_empty() && out.effects.is_empty(), "a restore decides nothing");
}
