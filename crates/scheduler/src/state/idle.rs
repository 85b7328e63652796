//! Since when nodes are idle, so that operators can return machines that they pay for.
//!
//! An execution that comes ends the idleness in its own commit, and only idleness that has lasted for
//! [`LASTING`] is stored. So what is stored is true, a node that runs one short task after another
//! costs no more commits, and a restart forgets at most that much.

use core::time::Duration;

use api_types::job::JobType;

use crate::occupancy::occupies;
use crate::state::node::LiveNode;
use crate::turn::Turn;

/// How long a node is idle before that is stored.
const LASTING: Duration = Duration::from_secs(60);

/// An execution begins to occupy the node.
pub(super) fn occupied(node: &mut LiveNode, turn: &mut Turn<'_>, job_type: JobType) {
    restored(node, job_type);
    if occupies(job_type) && core::mem::take(&mut node.occupancy.is_idle_stored) {
        turn.out.changes.nodes.insert(node.row.id, Some(node.row.clone()));
    }
}

/// An execution that was loaded from the store occupies the node.
pub(super) fn restored(node: &mut LiveNode, job_type: JobType) {
    if occupies(job_type) {
        node.occupancy.executions += 1;
        node.row.idle_since = None;
    }
}

/// An execution occupies the node no longer.
pub(super) fn vacated(node: &mut LiveNode, turn: &Turn<'_>, job_type: JobType) {
    if occupies(job_type) {
        node.occupancy.executions -= 1;
        note_idle(node, turn);
    }
}

/// The node is heard: idleness whose beginning is unknown begins now, and what has lasted is stored.
/// Returns whether its record changes.
pub(crate) fn heard(node: &mut LiveNode, turn: &mut Turn<'_>) -> bool {
    let begins = note_idle(node, turn);
    let has_lasted = turn.now.since(node.occupancy.idle_at) >= LASTING;
    if node.row.idle_since.is_some() && has_lasted && !node.occupancy.is_idle_stored {
        node.occupancy.is_idle_stored = true;
        turn.out.changes.nodes.insert(node.row.id, Some(node.row.clone()));
    }
    begins
}

/// The node's row is stored as it is.
pub(super) fn stored(node: &mut LiveNode) {
    node.occupancy.is_idle_stored = node.row.idle_since.is_some();
}

/// Returns whether the node begins to be idle.
fn note_idle(node: &mut LiveNode, turn: &Turn<'_>) -> bool {
    let begins = node.occupancy.executions == 0 && node.row.idle_since.is_none();
    if begins {
        node.row.idle_since = Some(turn.wall);
        node.occupancy.idle_at = turn.now;
    }
    begins
}

/// Panics unless the node's idleness agrees with what it has.
pub(crate) fn check(node: &LiveNode, occupants: u64) {
    let (id, occupancy) = (node.row.id, &node.occupancy);
    let is_idle = node.row.idle_since.is_some();
    assert_eq!(occupancy.executions, occupants, "node {id} miscounts what occupies it");
    assert!(occupants == 0 || !is_idle, "node {id} is idle and has work");
    assert!(!occupancy.is_idle_stored || is_idle, "node {id} is stored as idle, and is not");
}
