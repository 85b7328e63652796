//! A node falls silent, and comes back.
//!
//! A node without a lease may still be running its work, so that work is given up only after the node's
//! *patience*. A wrong decision throws a run away, so patience grows with the work at stake.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;

use api_types::execution::{ComputeState, DesiredState};
use api_types::{ExecutionId, JobId, NodeId};

use crate::change::{Effect, Fact};
use crate::end::{Cause, End};
use crate::notice::SilentNode;
use crate::rules::{ending, giving_up, mass_silence, patience, stopping};
use crate::silence::Mass;
use crate::state::State;
use crate::text::Text;
use crate::time::Moment;
use crate::turn::Turn;

/// Connected => Disconnected. The node gets no new work and keeps its executions for the time
/// being.
pub(crate) fn fall_silent(state: &mut State, turn: &mut Turn<'_>, id: NodeId) {
    let Some(node) = state.nodes.get_mut(&id) else { return };
    node.lost_lease_at = turn.now;
    if state.silence.nodes.is_empty() {
        // Every node was heard until now: what was assumed of an earlier silence is over.
        state.silence.mass = Mass::None;
    }
    state.disconnect(id, turn.now);
    turn.out.effects.push(Effect::CloseStream { node: id });
    turn.out.facts.push(Fact::LeaseEnded);
    // First, because the node's history says whether it is one of many.
    mass_silence::detect_mass_silence(state, turn.now);
    state.node_changed(turn, id);
    for execution in state.executions_on(id) {
        part_from(state, turn, execution);
    }
    giving_up::give_up_due(state, turn, id);
    tell_jobs_of_silence(state, turn, id);
}

/// Ends executions for which the scheduler does not wait on a silent node: those it has asked
/// to stop, and offers, because the node cannot have started them.
fn part_from(state: &mut State, turn: &mut Turn<'_>, id: ExecutionId) {
    let Some(row) = state.executions.get(&id) else { return };
    if let Some(over) = state.why_over(row.job).filter(|_| row.desired != DesiredState::Stopped) {
        stopping::stop_execution(state, turn, id, &over);
    } else if row.desired == DesiredState::Stopped {
        let why = "it was asked to stop, and its node is silent";
        ending::end(state, turn, id, End::Cancelled, Text::Constant(why));
    } else if row.compute <= ComputeState::AskForBid {
        let why = "its node fell silent before it answered the offer";
        ending::end(state, turn, id, End::Disturbed(Cause::Lost), Text::Constant(why));
    }
}

/// The node reconnected, before or after its lease ended.
pub(crate) fn is_back(state: &mut State, turn: &mut Turn<'_>, id: NodeId) {
    if !state.end_silence(id) {
        return;
    }
    if let Some(node) = state.nodes.get_mut(&id) {
        node.abandoned = None;
    }
    mass_silence::detect_mass_silence(state, turn.now);
    for id_of_job in jobs_on(state, id) {
        let job = state.jobs.get_mut(&id_of_job);
        if let Some(extra) = job.and_then(|job| job.extras.existing()) {
            extra.silent.remove(&id);
        }
        state.marks.jobs.push(id_of_job);
    }
}

fn jobs_on(state: &State, id: NodeId) -> BTreeSet<JobId> {
    let rows = state.executions_on(id).into_iter().filter_map(|id| state.executions.get(&id));
    rows.map(|row| row.job).collect()
}

// === Reporting silence ===

/// Updates the messages of jobs on the node with since when it has been silent and what
/// follows.
pub(crate) fn tell_jobs_of_silence(state: &mut State, turn: &mut Turn<'_>, id: NodeId) {
    let Some(since) = state.nodes.get(&id).and_then(|node| node.row().silent_since) else {
        return;
    };
    let (now, wall) = (turn.now, turn.wall);
    let clock = |moment: Moment| {
        let then = wall + moment.since(now);
        (if moment < now { wall - now.since(moment) } else { then }).rfc3339_seconds()
    };
    let (node, silent_since) = (state.called(id), clock(since));
    for (job, (executions, due)) in held_on(state, id, since) {
        let what = match executions {
            1 => "its execution there is".to_owned(),
            count => format!("its {count} executions there are"),
        };
        let text = match due {
            Some(due) => format!(
                "node {node} has been silent since {silent_since}; unless it comes back, {what} \
                 replaced from {}",
                clock(due)
            ),
            None => {
                format!("node {node} has been silent since {silent_since}; {what} waited for")
            }
        };
        let silent = SilentNode { executions, text: text.into() };
        if let Some(job) = state.jobs.get_mut(&job) {
            job.extras.to_mut().silent.insert(id, silent);
        }
        state.marks.jobs.push(job);
    }
}

/// How many executions each job has on a silent node, and when the first of them is given up.
pub(crate) fn held_on(
    state: &State,
    id: NodeId,
    since: Moment,
) -> BTreeMap<JobId, (u32, Option<Moment>)> {
    let mut found = BTreeMap::new();
    for execution in state.executions_on(id) {
        let Some(row) = state.executions.get(&execution) else { continue };
        let due = patience::execution_due(state, execution, since);
        let (count, first) = found.entry(row.job).or_insert((0, due));
        *count += 1;
        *first = (*first).into_iter().chain(due).min();
    }
    found
}
