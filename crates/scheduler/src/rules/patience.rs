//! Patience: how long the scheduler waits for work on a silent node before it replaces it.
//!
//! A wrong replacement throws away a run, so patience grows with the length of that run.

use alloc::vec::Vec;
use core::time::Duration;

use api_types::job::JobType;
use api_types::{ExecutionId, JobId, NodeId};

use crate::change::ExecutionRow;
use crate::silence::{MASS_HOLD, Mass};
use crate::state::State;
use crate::state::job::LiveJob;
use crate::time::Moment;
use crate::timer::Timer;

/// The patience for a batch execution is the time since its node accepted it, divided by this: a
/// run of one hour is worth a wait of 72 seconds.
const BATCH_PATIENCE_PER_RUN: u32 = 50;

/// The longest patience for batch work unless its job sets another, and the patience for ops work:
/// an ops job is bound to its nodes, so giving up can only fail it.
const LONGEST_PATIENCE: Duration = Duration::from_secs(600);

// === Patience ===

/// When an execution on a silent node is given up; `None` if never.
fn give_up_at(state: &State, row: &ExecutionRow, silent_since: Moment) -> Option<Moment> {
    let job = state.jobs.get(&row.job)?;
    let patience = patience(state, job, row.accepted_at, silent_since)?;
    Some(silent_since + patience)
}

fn patience(
    state: &State,
    job: &LiveJob,
    accepted_at: Option<Moment>,
    silent_since: Moment,
) -> Option<Duration> {
    let least = state.lease();
    match (job.plan.job_type, job.plan.lost_after()) {
        // No other node can run it.
        (JobType::Daemon, _) => None,
        (_, Some(wanted)) => Some(wanted.max(least)),
        (JobType::Service, None) => Some(least),
        (JobType::Ops, None) => Some(LONGEST_PATIENCE.max(least)),
        (JobType::Batch, None) => {
            let run = accepted_at.map_or(Duration::ZERO, |at| silent_since.since(at));
            Some((run / BATCH_PATIENCE_PER_RUN).min(LONGEST_PATIENCE).max(least))
        }
    }
}

/// When the execution is given up, unless a hold-back postpones it.
pub(crate) fn execution_due(state: &State, id: ExecutionId, since: Moment) -> Option<Moment> {
    let row = state.executions.get(&id)?;
    if state.nodes.get(&row.node)?.abandoned.is_some() {
        return Some(Moment::ZERO);
    }
    let explicit = state.jobs.get(&row.job).is_some_and(|job| job.plan.lost_after().is_some());
    Some(held_back(state, give_up_at(state, row, since)?, explicit))
}

pub(crate) fn slot_due(state: &State, node: NodeId, id: JobId, since: Moment) -> Option<Moment> {
    let job = state.jobs.get(&id)?;
    if state.nodes.get(&node)?.abandoned.is_some() {
        return Some(Moment::ZERO);
    }
    let due = since + patience(state, job, None, since)?;
    Some(held_back(state, due, job.plan.lost_after().is_some()))
}

fn held_back(state: &State, due: Moment, explicit: bool) -> Moment {
    let due = due.max(state.silence.not_before);
    match state.silence.mass {
        Mass::Holding(until) if !explicit => due.max(until),
        // Nodes that come and go all the time hold nothing up for longer than a mass silence.
        Mass::None if !explicit => {
            due.max(state.silence.others_may_follow_until.min(due + MASS_HOLD))
        }
        Mass::Holding(_) | Mass::None | Mass::Spent => due,
    }
}

/// Slots of ops jobs that wait for this node.
pub(crate) fn ops_slots_on(state: &State, id: NodeId) -> Vec<(JobId, u32)> {
    let Some(node) = state.nodes.get(&id) else { return Vec::new() };
    let slots = node.pinned().iter().map(|(rank, index)| (rank.job, *index));
    let is_ops = |job: &LiveJob| job.plan.job_type == JobType::Ops;
    slots.filter(|(job, _)| state.jobs.get(job).is_some_and(is_ops)).collect()
}

/// Whether the node has work to give up but no timer for it.
pub(crate) fn waits_without_timer(state: &State, id: NodeId) -> bool {
    let Some(since) = state.nodes.get(&id).and_then(|node| node.row().silent_since) else {
        return false;
    };
    let due = state.executions_on(id).into_iter();
    let mut due = due.filter_map(|execution| execution_due(state, execution, since));
    due.next().is_some() && !state.timers.is_set(Timer::GiveUp(id))
}

/// Sets the node's timer for the first of its executions that will be given up.
pub(crate) fn arm_give_up(state: &mut State, id: NodeId) {
    let Some(since) = state.nodes.get(&id).and_then(|node| node.row().silent_since) else {
        return state.timers.cancel(Timer::GiveUp(id));
    };
    let executions = state.executions_on(id).into_iter();
    let executions = executions.filter_map(|execution| execution_due(state, execution, since));
    let slots = ops_slots_on(state, id).into_iter();
    let slots = slots.filter_map(|(job, _)| slot_due(state, id, job, since));
    match executions.chain(slots).min() {
        Some(first) => state.timers.set(first, Timer::GiveUp(id)),
        None => state.timers.cancel(Timer::GiveUp(id)),
    }
}

/// Sets the timers of every silent node, after a hold-back on all of them has ended.
pub(crate) fn arm_all(state: &mut State) {
    let nodes: Vec<_> = state.silence.nodes.iter().map(|(_, id)| *id).collect();
    for node in nodes {
        arm_give_up(state, node);
    }
}
