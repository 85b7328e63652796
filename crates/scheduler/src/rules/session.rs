//! Sessions of nodes.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use api_types::node::{Connection, Eligibility, Membership};
use api_types::protocol::{Heartbeat, SessionRequest};
use api_types::{NodeId, Timestamp};

use crate::change::{Effect, Grant, NodeRow};
use crate::health::Health;
use crate::input::{Answer, Refusal};
use crate::node_event::History;
use crate::rules::{health, lease, node_name, second_agent, silence};
use crate::silence::HeartbeatArrival;
use crate::state::State;
use crate::state::node::LiveNode;
use crate::turn::Turn;
use crate::views::assignments;

// === Sessions ===

pub(crate) fn join(
    state: &mut State,
    turn: &mut Turn<'_>,
    id: NodeId,
    mut request: SessionRequest,
) -> Answer {
    request.name = node_name::node_name(state, id, &request);
    let membership =
        if state.settings.approve_new_nodes { Membership::Approved } else { Membership::Pending };
    let (record, lease) = (Arc::new(request), state.lease());
    let node = state.nodes.entry(id).or_insert_with(|| {
        let row = NodeRow {
            id,
            session: 0,
            membership,
            connection: Connection::Disconnected,
            eligibility: Eligibility::Eligible,
            message: String::new(),
            drain_deadline: None,
            last_heartbeat: Timestamp::ZERO,
            silent_since: None,
            grant: Grant::default(),
            joined_at: turn.now,
            idle_since: Some(turn.wall),
            is_forgotten: false,
            health: Health::default(),
            history: History::default(),
            record: Arc::clone(&record),
        };
        LiveNode::new(row, turn.now)
    });
    if node.row().membership == Membership::Rejected {
        return Answer::Refused(Refusal::NodeRejected(id));
    }
    let process = record.process.as_ref();
    let mut trial = Duration::ZERO;
    if node.row().connection == Connection::Connected {
        if let Some(machine) = node.agents.refuses(process, turn.now) {
            return Answer::Refused(Refusal::SecondAgent { node: id, machine });
        }
        // An agent that is alive sends three heartbeats in each lease.
        trial = lease / 2;
    }
    node.agents.joined(process, turn.now, trial);
    let row = node.edit();
    row.session += 1;
    row.connection = Connection::Connected;
    row.last_heartbeat = turn.wall;
    row.grant = Grant { lease, kept: lease };
    node.answered = lease;
    node.set_stalled(None);
    node.replace_record(record);
    let (session, membership) = (node.row().session, node.row().membership);
    lease::renew(state, id, turn.now, lease);
    silence::is_back(state, turn, id);
    health::health_joined(state, turn, id);
    turn.out.effects.push(Effect::CloseStream { node: id });
    state.node_changed(turn, id);
    Answer::Joined { session, membership, lease }
}

pub(crate) fn heartbeat(
    state: &mut State,
    turn: &mut Turn<'_>,
    id: NodeId,
    heartbeat: &Heartbeat,
) -> Answer {
    if let Some(refusal) = state.check_session(id, heartbeat.session) {
        return Answer::Refused(refusal);
    }
    let stalled = Duration::from_millis(heartbeat.stalled_millis);
    // The answer leaves once the grant is stored.
    let granted = state.lease();
    let (session, kept) = (heartbeat.session, heartbeat.lease());
    let (at, probed) = (turn.now, heartbeat.probed.clone());
    lease::beat(
        state,
        turn,
        &HeartbeatArrival { node: id, session, at, stalled, granted, kept, probed },
    );
    let probe = state.nodes.get(&id).and_then(|node| node.row().health.request());
    Answer::Renewed { lease: granted, probe }
}

pub(crate) fn open_assignments(
    state: &mut State,
    turn: &mut Turn<'_>,
    id: NodeId,
    session: u64,
) -> Answer {
    match state.check_session(id, session) {
        // An empty desired state makes the rejected agent stop everything that it runs, also
        // an agent that has restarted and got no session.
        Some(Refusal::NodeRejected(_)) => Answer::Assignments(Vec::new()),
        Some(refusal) => Answer::Refused(refusal),
        None => {
            second_agent::holder_is_alive(state, turn, id);
            Answer::Assignments(assignments::assignments(state, id))
        }
    }
}
