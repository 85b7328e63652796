//! Every daemon has a slot on every node that takes work and that it may run on.

use std::collections::{BTreeMap, BTreeSet};

use api_types::history::NodeStateType;
use api_types::job::{Constraint, JobType};
use api_types::node::{Connection, Eligibility, Membership};
use api_types::{JobId, NodeId};
use scheduler::change::NodeRow;

use super::orchestrator::Disk;

/// A slot may be missing in this many counts, one per second: later turns finish what one leaves.
const COUNTS: u32 = 3;

#[derive(Default)]
pub(super) struct Coverage {
    /// In how many counts in a row the slot was missing.
    missing: BTreeMap<(JobId, NodeId), u32>,
}

// === impl Coverage ===

impl Coverage {
    /// The orchestrator was held up: it could not do anything about what was missing.
    pub(super) fn begin_anew(&mut self) {
        self.missing.clear();
    }

    /// Counts what is missing now; panics if it was missing for too long.
    pub(super) fn count(&mut self, disk: &Disk) {
        let missing = Self::missing_now(disk);
        let before = std::mem::take(&mut self.missing);
        for at in missing {
            let times = before.get(&at).map_or(1, |times| times + 1);
            let (job, node) = at;
            assert!(times <= COUNTS, "daemon {job} has no slot on node {node}");
            self.missing.insert(at, times);
        }
    }

    fn missing_now(disk: &Disk) -> Vec<(JobId, NodeId)> {
        let store = &disk.store;
        let live = store.jobs.values().filter(|row| row.live && !row.state.is_terminal());
        let is_daemon = |id: &JobId| store.new_jobs[id].job_type == JobType::Daemon;
        let daemons: BTreeSet<_> = live.map(|row| row.id).filter(is_daemon).collect();
        let has_slot = if daemons.is_empty() { BTreeSet::new() } else { slots(disk, &daemons) };
        let mut missing = Vec::new();
        for job in daemons {
            let constraints = &disk.specs[&job].constraints;
            let nodes = store.nodes.values().filter(|node| takes(node, constraints));
            missing.extend(nodes.map(|node| (job, node.id)).filter(|at| !has_slot.contains(at)));
        }
        missing
    }
}

/// Where these jobs have a slot: one that waits, one that runs, or one that was given up.
fn slots(disk: &Disk, daemons: &BTreeSet<JobId>) -> BTreeSet<(JobId, NodeId)> {
    let store = &disk.store;
    let waiting = store.pending_slots.values().filter_map(|slot| Some((slot.job, slot.pinned?)));
    let placed = store.executions.values().filter(|row| {
        let is_given_up = row.compute.is_terminal() && row.followup.is_none();
        // One of before it was forgotten is no slot of the node that has joined since.
        let joined = disk.joined.get(&row.node);
        let is_of_this_node = joined.is_some_and(|joined| row.offered_at >= *joined);
        daemons.contains(&row.job) && (!row.compute.is_terminal() || is_given_up && is_of_this_node)
    });
    waiting.chain(placed.map(|row| (row.job, row.node))).collect()
}

/// Whether the node takes work that requires this of it.
fn takes(node: &NodeRow, constraints: &[Constraint]) -> bool {
    let labels = &node.record.labels;
    node.connection == Connection::Connected
        && node.membership == Membership::Approved
        && node.eligibility == Eligibility::Eligible
        && node.health.is_well()
        && node.history.standing.health != NodeStateType::Stalled
        && constraints.iter().all(|constraint| {
            labels.get(&constraint.key).is_some_and(|label| constraint.values.contains(label))
        })
}
