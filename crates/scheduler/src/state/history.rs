//! The history of nodes: one event per change of what a node is.
//!
//! Every change of a node ends in [`State::store_node`], which compares the node with what its
//! history says and appends the difference. So nothing that changes a node has to remember the
//! history, and a restart neither repeats nor loses an event: what it has recorded is stored
//! with the node.
//!
//! Comments contain the operator's words, but none of an execution's: the history of a node is read
//! by people who may not know the job, its image or its message. A mass silence is no event of its
//! own, because it is nothing that happens to one node; the event of each node that falls silent says
//! that it is one of many.
//!
//! Rejected: an event at each place that changes a node, which has to be repeated for every new
//! way to change one.

use alloc::format;

use api_types::history::NodeStateType;
use api_types::node::{Connection, Eligibility, Membership};

use crate::health::Health;
use crate::node_event::Standing;
use crate::state::State;
use crate::state::node::LiveNode;
use crate::text::Text;
use crate::time::Moment;
use crate::turn::Turn;

/// One event to be.
pub(crate) struct Transition {
    pub(crate) previous: NodeStateType,
    pub(crate) new: NodeStateType,
    pub(crate) comment: Text,
}

// === impl Standing ===

impl Standing {
    pub(crate) fn from_node(node: &LiveNode) -> Self {
        let row = &node.row;
        Self {
            session: row.session,
            connection: match row.connection {
                Connection::Connected => NodeStateType::Connected,
                Connection::Disconnected => NodeStateType::Disconnected,
            },
            membership: match row.membership {
                Membership::Pending => NodeStateType::Pending,
                Membership::Approved => NodeStateType::Approved,
                Membership::Rejected => NodeStateType::Rejected,
            },
            eligibility: match row.eligibility {
                Eligibility::Eligible => NodeStateType::Eligible,
                Eligibility::Cordoned => NodeStateType::Cordoned,
                Eligibility::Draining if node.executions.is_empty() => NodeStateType::Drained,
                Eligibility::Draining => NodeStateType::Draining,
            },
            health: match &row.health {
                _ if node.stalled_since.is_some() => NodeStateType::Stalled,
                Health::Well | Health::Recovered { .. } => NodeStateType::Healthy,
                Health::BackingOff { .. } => NodeStateType::BackingOff,
                Health::Asked { .. } | Health::Probing { .. } => NodeStateType::Probing,
            },
        }
    }
}

/// Panics when something has changed that the history does not tell.
pub(crate) fn check(node: &LiveNode) {
    let (before, standing) = (node.row.history.standing, Standing::from_node(node));
    let id = node.id();
    assert_eq!(before, standing, "the history of node {id} is not what became of it");
}

/// Nodes that were stored by a release without this history: it begins with what happens next.
pub(crate) fn adopt_nodes_without_history(state: &mut State) {
    for node in state.nodes.values_mut() {
        if node.row.history.standing.connection == NodeStateType::Unknown {
            node.row.history.standing = Standing::from_node(node);
        }
    }
}

pub(crate) fn connection_change(
    node: &LiveNode,
    before: &Standing,
    after: &Standing,
    turn: &Turn<'_>,
    held_until: Option<Moment>,
) -> Option<Transition> {
    let (previous, new) = (before.connection, after.connection);
    let session = after.session;
    let comment = match (previous, new) {
        (NodeStateType::Unknown, _) if after.membership == NodeStateType::Pending => {
            Text::Constant("joined for the first time; an operator has not approved it yet")
        }
        (NodeStateType::Unknown, _) => Text::Constant("joined for the first time"),
        (NodeStateType::Connected, NodeStateType::Connected) if before.session == session => {
            return None;
        }
        (NodeStateType::Connected, NodeStateType::Connected) => {
            format!("joined again, with session {session}").into()
        }
        (_, NodeStateType::Connected) => format!("is back, with session {session}").into(),
        (NodeStateType::Connected, _) if after.membership == NodeStateType::Rejected => {
            Text::Constant("its session ended, because it was rejected")
        }
        (NodeStateType::Connected, _) => {
            let since = node.row.silent_since.unwrap_or(turn.now);
            let silent = turn.now.since(since).as_secs();
            let ended = format!("its lease ended: no heartbeat for {silent} s");
            match held_until {
                None => ended.into(),
                Some(until) => {
                    let until = (turn.wall + until.since(turn.now)).rfc3339_seconds();
                    format!(
                        "{ended}; most nodes fell silent together, so nothing is replaced before \
                         {until}, except work with a LostAfter"
                    )
                    .into()
                }
            }
        }
        (_, _) => return None,
    };
    Some(Transition { previous, new, comment })
}

pub(crate) fn membership_change(
    node: &LiveNode,
    before: &Standing,
    after: &Standing,
) -> Option<Transition> {
    let (previous, new) = (before.membership, after.membership);
    if previous == new || previous == NodeStateType::Unknown {
        return None;
    }
    let what = if new == NodeStateType::Rejected { "rejected" } else { "approved" };
    Some(Transition { previous, new, comment: by_operator(what, node) })
}

/// A drain of an empty node is over at once: it begins and ends.
pub(crate) fn eligibility_changes(
    node: &LiveNode,
    before: &Standing,
    after: &Standing,
) -> [Option<Transition>; 2] {
    let (previous, new) = (before.eligibility, after.eligibility);
    if previous == new || previous == NodeStateType::Unknown {
        return [None, None];
    }
    let step = |previous, new, comment| Some(Transition { previous, new, comment });
    let draining = NodeStateType::Draining;
    let drained = |previous| step(previous, new, Text::Constant("no execution is left on it"));
    match new {
        NodeStateType::Drained if previous == draining => [drained(previous), None],
        NodeStateType::Drained => {
            [step(previous, draining, by_operator("draining", node)), drained(draining)]
        }
        NodeStateType::Draining => [step(previous, new, by_operator("draining", node)), None],
        NodeStateType::Cordoned => [step(previous, new, by_operator("cordoned", node)), None],
        _ => [step(previous, new, by_operator("takes new work again", node)), None],
    }
}

pub(crate) fn health_change(
    node: &LiveNode,
    before: &Standing,
    after: &Standing,
    turn: &Turn<'_>,
) -> Option<Transition> {
    let (previous, new) = (before.health, after.health);
    if previous == new || previous == NodeStateType::Unknown {
        return None;
    }
    let comment = match (&node.row.health, new) {
        (_, NodeStateType::Stalled) => {
            Text::Constant("its agent sends heartbeats, but does not finish what it is doing")
        }
        (Health::Well | Health::Recovered { .. }, _) if previous == NodeStateType::Stalled => {
            Text::Constant("its agent has resumed")
        }
        (Health::BackingOff { until, .. }, _) => {
            let wait = until.since(turn.now).as_secs();
            let why = match previous {
                NodeStateType::Probing => "its probe failed through the node's fault",
                _ => "executions failed in a row through the node's fault",
            };
            format!("{why}; it gets no new work for {wait} s, then it is probed").into()
        }
        (Health::Probing { .. }, _) => {
            Text::Constant("gets one execution at a time; how it ends decides")
        }
        (Health::Asked { .. }, _) => {
            Text::Constant("its agent is asked whether it can run tasks; the answer decides")
        }
        (Health::Well | Health::Recovered { .. }, _) => Text::Constant("runs executions again"),
    };
    Some(Transition { previous, new, comment })
}

/// What was decided about the node, in the words of who decided it.
fn by_operator(what: &'static str, node: &LiveNode) -> Text {
    match node.row.message.trim() {
        "" => Text::Constant(what),
        message => format!("{what}: {message}").into(),
    }
}
