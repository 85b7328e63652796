//! The history of nodes: one event per change of what a node is.
//!
//! Every change of a node ends in [`Scheduler::store_node`], which compares the node with what its
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
use core::time::Duration;

use api_types::history::NodeStateType;
use api_types::node::{Connection, Eligibility, Membership};
use api_types::{NodeId, Timestamp};

use crate::change::{EventRow, EventSubject};
use crate::health::Health;
use crate::node::LiveNode;
use crate::text::Text;
use crate::time::Moment;
use crate::{Scheduler, Turn};

/// What the history of a node says so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// The number of its events.
    pub revision: u64,
    /// No event of the node has a later time.
    pub last_event_time: Timestamp,
    pub standing: Standing,
}

/// A node in the words of its history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    pub session: u64,
    /// Unknown as long as the history is empty.
    pub connection: NodeStateType,
    pub membership: NodeStateType,
    pub eligibility: NodeStateType,
    pub health: NodeStateType,
}

/// One event to be.
struct Step {
    previous: NodeStateType,
    new: NodeStateType,
    comment: Text,
}

// === impl History ===

impl Default for History {
    /// Of a node that has never joined.
    fn default() -> Self {
        let standing = Standing {
            session: 0,
            connection: NodeStateType::Unknown,
            membership: NodeStateType::Unknown,
            eligibility: NodeStateType::Unknown,
            health: NodeStateType::Unknown,
        };
        Self { revision: 0, last_event_time: Timestamp::ZERO, standing }
    }
}

// === impl Standing ===

impl Standing {
    fn of(node: &LiveNode) -> Self {
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
                Health::Well => NodeStateType::Healthy,
                Health::BackingOff { .. } => NodeStateType::BackingOff,
                Health::Probing { .. } => NodeStateType::Probing,
            },
        }
    }
}

// === impl Scheduler: history of nodes ===

impl Scheduler {
    /// Appends what has changed since the last event of the node.
    pub(crate) fn note_node(&mut self, turn: &mut Turn<'_>, id: NodeId) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let (before, after) = (node.row.history.standing, Standing::of(node));
        if before == after {
            return;
        }
        node.row.history.standing = after;
        let (node, held_until) = (&self.nodes[&id], self.silence.mass.held_until());
        let steps = [
            connection_step(node, &before, &after, turn, held_until),
            membership_step(node, &before, &after),
        ];
        let [begun, ended] = eligibility_steps(node, &before, &after);
        let health = health_step(node, &before, &after, turn);
        for step in steps.into_iter().chain([begun, ended, health]).flatten() {
            self.append(turn, id, step);
        }
    }

    /// The last execution of a draining node may have ended.
    pub(crate) fn note_drained(&mut self, turn: &mut Turn<'_>, id: NodeId) {
        let drains = |node: &LiveNode| node.row.eligibility == Eligibility::Draining;
        if self.nodes.get(&id).is_some_and(|node| drains(node) && node.executions.is_empty()) {
            self.store_node(turn, id);
        }
    }

    /// Disconnected => Unknown. Call before the node is removed.
    pub(crate) fn note_forgotten(&mut self, turn: &mut Turn<'_>, id: NodeId) {
        let Some(node) = self.nodes.get(&id) else { return };
        let away = node.row.silent_since.map_or(Duration::ZERO, |since| turn.now.since(since));
        let comment = if away >= self.settings.node_retention {
            format!("forgotten after it was away for {} s", away.as_secs()).into()
        } else {
            Text::Constant("forgotten by an operator")
        };
        let previous = node.row.history.standing.connection;
        self.append(turn, id, Step { previous, new: NodeStateType::Unknown, comment });
    }

    /// Nodes that were stored by a release without this history: it begins with what happens next.
    pub(crate) fn adopt_nodes_without_history(&mut self) {
        for node in self.nodes.values_mut() {
            if node.row.history.standing.connection == NodeStateType::Unknown {
                node.row.history.standing = Standing::of(node);
            }
        }
    }

    fn append(&mut self, turn: &mut Turn<'_>, id: NodeId, step: Step) {
        let seq = self.next_seq();
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let history = &mut node.row.history;
        history.revision += 1;
        history.last_event_time = history.last_event_time.max(turn.wall);
        let Step { previous, new, comment } = step;
        turn.out.changes.events.push(EventRow {
            seq,
            time: history.last_event_time,
            revision: history.revision,
            comment,
            subject: EventSubject::Node { node: id, previous, new },
        });
    }
}

/// Panics when something has changed that the history does not tell.
pub(crate) fn check(node: &LiveNode) {
    let (before, standing) = (node.row.history.standing, Standing::of(node));
    let id = node.id();
    assert_eq!(before, standing, "the history of node {id} is not what became of it");
}

fn connection_step(
    node: &LiveNode,
    before: &Standing,
    after: &Standing,
    turn: &Turn<'_>,
    held_until: Option<Moment>,
) -> Option<Step> {
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
                        "{ended}; most nodes fell silent at once, so nothing is replaced before \
                         {until} but what has a LostAfter of its own"
                    )
                    .into()
                }
            }
        }
        (_, _) => return None,
    };
    Some(Step { previous, new, comment })
}

fn membership_step(node: &LiveNode, before: &Standing, after: &Standing) -> Option<Step> {
    let (previous, new) = (before.membership, after.membership);
    if previous == new || previous == NodeStateType::Unknown {
        return None;
    }
    let what = if new == NodeStateType::Rejected { "rejected" } else { "approved" };
    Some(Step { previous, new, comment: by_operator(what, node) })
}

/// A drain of an empty node is over at once: it begins and ends.
fn eligibility_steps(node: &LiveNode, before: &Standing, after: &Standing) -> [Option<Step>; 2] {
    let (previous, new) = (before.eligibility, after.eligibility);
    if previous == new || previous == NodeStateType::Unknown {
        return [None, None];
    }
    let step = |previous, new, comment| Some(Step { previous, new, comment });
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

fn health_step(
    node: &LiveNode,
    before: &Standing,
    after: &Standing,
    turn: &Turn<'_>,
) -> Option<Step> {
    let (previous, new) = (before.health, after.health);
    if previous == new || previous == NodeStateType::Unknown {
        return None;
    }
    let comment = match (&node.row.health, new) {
        (_, NodeStateType::Stalled) => {
            Text::Constant("its agent sends heartbeats, but does not finish what it is doing")
        }
        (Health::Well, _) if previous == NodeStateType::Stalled => {
            Text::Constant("its agent has resumed")
        }
        (Health::BackingOff { until, .. }, _) => {
            let wait = until.since(turn.now).as_secs();
            let why = match previous {
                NodeStateType::Probing => "its probe failed through the node's fault",
                _ => "executions of several jobs failed in a row through the node's fault",
            };
            format!("{why}; it gets no new work for {wait} s, then one execution at a time").into()
        }
        (Health::Probing { .. }, _) => {
            Text::Constant("gets one execution at a time; how it ends decides")
        }
        (Health::Well, _) => Text::Constant("runs executions again"),
    };
    Some(Step { previous, new, comment })
}

/// What was decided about the node, in the words of who decided it.
fn by_operator(what: &'static str, node: &LiveNode) -> Text {
    match node.row.message.trim() {
        "" => Text::Constant(what),
        message => format!("{what}: {message}").into(),
    }
}
