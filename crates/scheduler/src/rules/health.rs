//! How the health of nodes follows from what happens to executions, and what follows from it.

use alloc::sync::Arc;

use api_types::node::Connection;
use api_types::protocol::ProbeOutcome;
use api_types::{ExecutionId, JobId, NodeId};

use crate::change::{ExecutionRow, Fact};
use crate::end::{Cause, End};
use crate::health::failures::Blame;
use crate::health::{GOOD_PROBE, Health, Verdict};
use crate::state::State;
use crate::time::{Moment, Now};
use crate::timer::Timer;
use crate::turn::Turn;

/// Updates a node's health after one of its executions ended. Returns whether it was a probe.
pub(crate) fn update_health(
    state: &mut State,
    turn: &mut Turn<'_>,
    row: &ExecutionRow,
    end: End,
    was_wanted: bool,
) -> bool {
    let Some(node) = state.nodes.get_mut(&row.node) else { return false };
    let now = Now { moment: turn.now, wall: turn.wall };
    let can_be_asked = node.can_be_asked();
    let (health, failures) = node.health_mut();
    let was_probe = health.is_probe(row.id);
    let verdict = match end {
        End::Completed | End::Failed { .. } | End::Unpublished => {
            health.ran(failures, row.offered_at, turn.now, can_be_asked)
        }
        End::Disturbed(Cause::Node | Cause::Defect) | End::Unanswered
            if was_wanted && let Some(job) = state.jobs.get(&row.job) =>
        {
            let namespace = &job.plan.namespace;
            let blame = Blame {
                namespace,
                confirmed: end == End::Disturbed(Cause::Defect),
                is_alone: state.namespaces.is_alone(namespace),
                reason: &row.compute_message,
            };
            health.failed(failures, row.id, &blame, now)
        }
        End::Disturbed(
            Cause::Fetch
            | Cause::Node
            | Cause::Defect
            | Cause::EndedAgent
            | Cause::Refused
            | Cause::Lost
            | Cause::Removed
            | Cause::Missing
            | Cause::Room,
        )
        | End::Unanswered
        | End::Unreadable
        | End::Declined(_)
        | End::Unwanted
        | End::Cancelled => health.ended(row.id),
    };
    follow_verdict(state, turn, row.node, verdict);
    was_probe
}

/// The probe's process started; if it runs long enough, the node is healthy.
pub(crate) fn probe_started(
    state: &mut State,
    turn: &Turn<'_>,
    node_id: NodeId,
    execution: ExecutionId,
) {
    let node = state.nodes.get(&node_id);
    if node.is_some_and(|node| node.row().health.is_probe(execution)) {
        state.timers.set(turn.now + GOOD_PROBE, Timer::Probe(node_id));
    }
}

pub(crate) fn probe_ran(state: &mut State, turn: &mut Turn<'_>, id: NodeId) {
    let Some(node) = state.nodes.get_mut(&id) else { return };
    let Health::Probing { probe: Some(probe), .. } = node.row().health else { return };
    let Some(row) = state.executions.get(&probe) else { return };
    let can_be_asked = node.can_be_asked();
    let (health, failures) = node.health_mut();
    let verdict = health.ran(failures, row.offered_at, turn.now, can_be_asked);
    follow_verdict(state, turn, id, verdict);
    state.marks.nodes.push(id);
}

/// The agent answered a probe, with a heartbeat.
pub(crate) fn probe_answered(
    state: &mut State,
    turn: &mut Turn<'_>,
    id: NodeId,
    outcome: &ProbeOutcome,
) {
    let Some(node) = state.nodes.get_mut(&id) else { return };
    let verdict = node.health_mut().0.answered(outcome, turn.now);
    follow_verdict(state, turn, id, verdict);
}

/// The back-off of a node ended, or its agent has not answered in time.
pub(crate) fn health_due(state: &mut State, turn: &mut Turn<'_>, id: NodeId) {
    let Some(node) = state.nodes.get_mut(&id) else { return };
    let now = Now { moment: turn.now, wall: turn.wall };
    let verdict = match node.row().connection {
        // No heartbeat could arrive for a while, nor an answer with it.
        Connection::Connected
            if matches!(node.row().health, Health::Asked { .. })
                && turn.now < state.answers_due =>
        {
            state.timers.set(state.answers_due, Timer::Health(id));
            return;
        }
        Connection::Connected => {
            let can_be_asked = node.can_be_asked();
            node.health_mut().0.due(now, can_be_asked)
        }
        // Once the node is back, its health is due again.
        Connection::Disconnected => return,
    };
    follow_verdict(state, turn, id, verdict);
    state.marks.covers.push(id);
}

/// The node joined, maybe with an agent of another release. Its record is stored next.
pub(crate) fn health_joined(state: &mut State, turn: &mut Turn<'_>, id: NodeId) {
    let Some(node) = state.nodes.get_mut(&id) else { return };
    let now = Now { moment: turn.now, wall: turn.wall };
    let can_be_asked = node.can_be_asked();
    match node.health_mut().0.joined(now, can_be_asked) {
        Verdict::Waits(until) => state.timers.set(until, Timer::Health(id)),
        Verdict::ProbeAgain => state.timers.cancel(Timer::Health(id)),
        Verdict::Unchanged | Verdict::Well | Verdict::ProbeOther(_) => {}
    }
}

/// A job came. If it is the first of its namespace, a back-off ends for which another namespace is
/// the only witness.
pub(crate) fn hear_witness(state: &mut State, turn: &mut Turn<'_>, job: JobId) {
    let Some(job) = state.jobs.get(&job) else { return };
    let namespace = Arc::clone(&job.plan.namespace);
    if !state.namespaces.enter(&namespace) {
        return;
    }
    let nodes = core::mem::take(&mut state.doubted);
    for id in nodes {
        let Some(node) = state.nodes.get(&id) else { continue };
        match node.row().health.accuser() {
            None => {}
            Some(accuser) if **accuser == *namespace => drop(state.doubted.insert(id)),
            Some(_) => end_back_off(state, turn, id),
        }
    }
}

/// The same for what was stored: another namespace may have come just before the process ended.
pub(crate) fn restore_doubts(state: &mut State, now: Moment) {
    for id in &state.doubted {
        let Some(node) = state.nodes.get_mut(id) else { continue };
        let accuser = node.row().health.accuser();
        if accuser.is_some_and(|accuser| !state.namespaces.is_alone(accuser))
            && node.health_mut().0.end_early(now)
        {
            state.timers.set(now, Timer::Health(*id));
        }
    }
}

fn end_back_off(state: &mut State, turn: &mut Turn<'_>, id: NodeId) {
    let Some(node) = state.nodes.get_mut(&id) else { return };
    if node.health_mut().0.end_early(turn.now) {
        state.timers.set(turn.now, Timer::Health(id));
        state.store_node(turn, id);
    }
}

fn follow_verdict(state: &mut State, turn: &mut Turn<'_>, id: NodeId, verdict: Verdict) {
    match verdict {
        Verdict::Unchanged => return,
        Verdict::Waits(until) => {
            state.timers.cancel(Timer::Probe(id));
            state.timers.set(until, Timer::Health(id));
        }
        Verdict::Well => {
            state.timers.cancel(Timer::Probe(id));
            state.timers.cancel(Timer::Health(id));
        }
        Verdict::ProbeAgain => state.timers.cancel(Timer::Probe(id)),
        Verdict::ProbeOther(until) => {
            state.timers.cancel(Timer::Probe(id));
            state.timers.set(until, Timer::Health(id));
        }
    }
    let is_doubted = state.nodes.get(&id).is_some_and(|node| node.row().health.accuser().is_some());
    if is_doubted {
        state.doubted.insert(id);
    }
    let node = state.nodes.get(&id);
    if node.is_some_and(|node| matches!(node.row().health, Health::BackingOff { .. })) {
        turn.out.facts.push(Fact::BackedOff);
    }
    state.node_changed(turn, id);
}
