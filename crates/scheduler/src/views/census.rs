//! Counts of everything that is live, for metrics.

use alloc::collections::{BTreeMap, BTreeSet};
use core::ops::Bound;
use core::time::Duration;

use api_types::execution::ComputeState;
use api_types::gate::GateType;
use api_types::job::JobStateType;
use api_types::{JobId, NodeId};
use uuid::Uuid;

use crate::rank::{ClassId, Rank};
use crate::state::State;
use crate::time::Moment;

/// Everything that is live, by state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Census {
    pub jobs: BTreeMap<JobStateType, u64>,
    pub executions: BTreeMap<ComputeState, u64>,
}

/// The work that waits for room.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Jobs with at least one slot that any node of their pool may run.
    pub jobs: usize,
    /// Slots that only one particular node may run.
    pub pinned: usize,
    /// Jobs with slots that a gate holds back from room, by the type of the gate.
    pub gated: BTreeMap<GateType, u64>,
    /// When the oldest of these jobs was submitted.
    pub oldest: Option<Moment>,
    /// When these counts were taken.
    pub now: Moment,
}

// === Counting ===

/// Visits every live record; meant to run once, after a restore.
pub(crate) fn census(state: &State) -> Census {
    let mut census = Census::default();
    for job in state.jobs.values().filter(|job| !job.is_terminal()) {
        *census.jobs.entry(job.row().state).or_default() += 1;
    }
    for row in state.executions.values() {
        *census.executions.entry(row.compute).or_default() += 1;
    }
    census
}

/// Visits every class in which a job waits, every node, and every pinned slot, but never a
/// whole queue.
pub(crate) fn waiting(state: &State, now: Moment) -> Waiting {
    let gated = state.gated.clone();
    let mut waiting = Waiting { now, gated, ..Waiting::default() };
    let held = |id: &ClassId| state.queue.is_held(*id);
    for (_, class) in state.queue.waiting_classes().filter(|(id, _)| !held(id)) {
        waiting.jobs += class.waiting.len();
        waiting.note(oldest(&class.waiting));
    }
    for node in state.nodes.values() {
        for (rank, _) in node.unheld() {
            waiting.pinned += 1;
            waiting.note(Some(rank.created));
        }
    }
    waiting
}

// === impl Waiting ===

impl Waiting {
    /// How long ago the oldest of these jobs was submitted.
    pub fn longest(&self) -> Option<Duration> {
        self.oldest.map(|came| self.now.since(came))
    }

    fn note(&mut self, came: Option<Moment>) {
        self.oldest = [self.oldest, came].into_iter().flatten().min();
    }
}

/// The first entry of each priority is the oldest of that priority.
fn oldest(ranks: &BTreeSet<Rank>) -> Option<Moment> {
    let mut oldest = None;
    let mut next = ranks.first();
    while let Some(rank) = next {
        oldest = [oldest, Some(rank.created)].into_iter().flatten().min();
        let last = JobId::from_uuid(Uuid::max());
        let end = Rank { priority: rank.priority, created: Moment(u64::MAX), job: last };
        next = ranks.range((Bound::Excluded(end), Bound::Unbounded)).next();
    }
    oldest
}

/// Nodes that are kept free for work that has waited for too long.
pub(crate) fn reserved_nodes(state: &State) -> impl Iterator<Item = NodeId> {
    state.reservations.nodes.values().copied()
}

#[cfg(test)]
mod tests {
    use core::cmp::Reverse;

    use super::*;

    #[test]
    fn the_oldest_of_all_priorities_is_found() {
        let rank = |priority, created| Rank {
            priority: Reverse(priority),
            created: Moment(created),
            job: JobId::from_uuid(Uuid::from_u128(1)),
        };
        assert_eq!(oldest(&BTreeSet::new()), None);
        let ranks =
            BTreeSet::from([rank(90, 7), rank(90, 8), rank(50, 3), rank(50, 4), rank(1, 5)]);
        assert_eq!(oldest(&ranks), Some(Moment(3)));
    }
}

// === Reads of reservations ===
