//! Leases: heartbeats renew them, and only silence ends them, measured by the arrival times of
//! heartbeats.

use alloc::vec::Vec;
use core::time::Duration;

use api_types::node::Connection;
use api_types::{NodeId, Timestamp};

use crate::change::Grant;
use crate::notice::SilentNode;
use crate::rules::{health, mass_silence, offer, patience, second_agent, silence};
use crate::silence::{HeartbeatArrival, NodeLease};
use crate::state::{State, idle};
use crate::time::Moment;
use crate::timer::Timer;
use crate::turn::Turn;

/// An agent that has been busy with one operation for this long hangs, and gets no new work.
const STALLED: Duration = Duration::from_secs(5);

/// Handles the heartbeats that arrived since the last call, ahead of everything queued.
pub(crate) fn heard(state: &mut State, turn: &mut Turn<'_>, arrivals: Vec<HeartbeatArrival>) {
    for heard in arrivals {
        if state.check_session(heard.node, heard.session).is_none() {
            beat(state, turn, &heard);
        }
    }
}

/// Handles a heartbeat of the node's session that arrived at this moment.
pub(crate) fn beat(state: &mut State, turn: &mut Turn<'_>, heard: &HeartbeatArrival) {
    let HeartbeatArrival { node: id, at, stalled, granted, kept, session: _, probed: _ } = *heard;
    let lease = state.lease();
    let Some(node) = state.nodes.get_mut(&id) else { return };
    // An agent that does not say what it keeps to has read the answer to its last heartbeat, as
    // a rule. One that says so keeps to no more than it was ever told.
    let answered = core::mem::replace(&mut node.answered, granted);
    let kept = kept.map_or(answered, |kept| kept.min(node.row().grant.kept.max(answered)));
    let grant = Grant { lease, kept };
    let before = node.row().grant;
    if grant != before {
        node.edit().grant = grant;
    }
    renew(state, id, at, granted);
    let Some(node) = state.nodes.get_mut(&id) else { return };
    if grant.kept < before.kept {
        node.lease_until = turn.now + lease.max(granted).max(grant.kept);
        state.timers.set(node.lease_until, Timer::Lease(id));
    }
    // The listener noted it a while ago: the lease counts from then, and so does what is shown.
    let ago = i64::try_from(turn.now.since(at).as_nanos()).unwrap_or(i64::MAX);
    let arrived = Timestamp(turn.wall.0.saturating_sub(ago));
    node.heard(arrived);
    state.heard_from.insert(id);
    second_agent::holder_is_alive(state, turn, id);
    let Some(node) = state.nodes.get_mut(&id) else { return };
    let is_stalled = stalled >= STALLED;
    if is_stalled != node.stalled_since().is_some() {
        node.set_stalled(is_stalled.then(|| arrived - stalled));
        state.node_changed(turn, id);
    } else if grant != before {
        state.store_node(turn, id);
    }
    if let Some(node) = state.nodes.get_mut(&id)
        && idle::heard(node, turn)
    {
        state.touched.insert(id);
    }
    if let Some(outcome) = &heard.probed {
        health::probe_answered(state, turn, id, outcome);
    }
}

/// The lease that the node holds.
pub(crate) fn held_by(state: &State, id: NodeId) -> Option<NodeLease> {
    let row = state.nodes.get(&id)?.row();
    let (session, probe) = (row.session, row.health.request());
    let held = NodeLease { session, lease: row.grant.lease, probe };
    state.check_session(id, held.session).is_none().then_some(held)
}

/// Renews the lease of a connected node as of this moment, when its agent was granted this.
///
/// A longer lease counts immediately, a shorter one once its agent keeps to it.
pub(crate) fn renew(state: &mut State, id: NodeId, at: Moment, granted: Duration) {
    let lease = state.lease();
    let Some(node) = state.nodes.get_mut(&id) else { return };
    let until = at + lease.max(granted).max(node.row().grant.kept);
    let overdue = node.row().grant.kept.max(node.row().grant.lease) / 2;
    if node.heard_at > Moment::ZERO && at.since(node.heard_at) > overdue {
        node.returned_at = at;
    }
    node.heard_at = node.heard_at.max(at);
    node.lease_until = node.lease_until.max(until);
    // Moved each time: a timer left behind would wake the orchestrator once per lease and node.
    state.timers.set(node.lease_until, Timer::Lease(id));
}

/// Extends every lease by a period in which the orchestrator could not receive heartbeats (a
/// stalled disk, a stopped process, a suspended machine), so that no node is penalised for it.
pub(crate) fn extend_leases(state: &mut State, now: Moment, for_how_long: Duration) {
    for node in state.nodes.values_mut() {
        node.lease_until = node.lease_until + for_how_long;
    }
    if now.before(for_how_long) <= state.silence.not_before {
        // The lease that is waited for takes longer by this. A new one for each of many pauses
        // would hold the work of dead nodes for ever.
        state.silence.not_before = state.silence.not_before + for_how_long;
    } else {
        hold_back(state, now);
    }
    offer::held_up(state, now, for_how_long);
}

/// Postpones giving up work until nodes have had one full lease in which to be heard: the longest
/// that one of the silent ones was told, because it keeps to that.
pub(crate) fn hold_back(state: &mut State, now: Moment) {
    let silent = state.silence.nodes.iter().filter_map(|(_, id)| state.nodes.get(id));
    let longest = silent.map(|node| node.row().grant.kept.max(node.row().grant.lease)).max();
    state.silence.not_before = now + longest.unwrap_or_default().max(state.lease());
}

pub(crate) fn lease_timer_fired(state: &mut State, turn: &mut Turn<'_>, id: NodeId) {
    let Some(node) = state.nodes.get(&id) else { return };
    match node.row().connection {
        Connection::Disconnected => {}
        Connection::Connected if node.lease_until > turn.now => {
            state.timers.set(node.lease_until, Timer::Lease(id));
        }
        Connection::Connected => silence::fall_silent(state, turn, id),
    }
}

/// Restarts leases after a restart, and gives silent nodes one lease to reconnect. Returns the
/// silent nodes.
pub(crate) fn restore_leases(state: &mut State, now: Moment) -> Vec<NodeId> {
    let mut silent = Vec::new();
    hold_back(state, now);
    offer::await_answers(state, now);
    mass_silence::restore_mass_silence(state, now);
    let ids: Vec<_> = state.nodes.keys().copied().collect();
    for id in ids {
        if state.nodes[&id].row().connection == Connection::Connected {
            renew(state, id, now, state.nodes[&id].row().grant.lease);
            continue;
        }
        let since = state.nodes[&id].row().silent_since.unwrap_or(now);
        for (job, (executions, _)) in silence::held_on(state, id, since) {
            let Some(job) = state.jobs.get_mut(&job) else { continue };
            // Whatever it says, the next tick tells it anew.
            let text = job.row().message.clone();
            job.extras.to_mut().silent.insert(id, SilentNode { executions, text });
            job.extras.to_mut().shown = job.notice();
        }
        silent.push(id);
        patience::arm_give_up(state, id);
    }
    silent
}
