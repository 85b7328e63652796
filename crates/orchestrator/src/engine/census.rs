//! How much there is of everything, for those who count.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use api_types::execution::ComputeState;
use api_types::job::JobStateType;
use api_types::{JobId, Timestamp};
use uuid::Uuid;

use super::Engine;
use super::pool::Rank;

/// All that is live, by state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Census {
    pub jobs: BTreeMap<JobStateType, u64>,
    pub executions: BTreeMap<ComputeState, u64>,
}

/// What waits for room.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Jobs with something that any node of their pool may take.
    pub jobs: usize,
    /// Slots that only one node may take.
    pub pinned: usize,
    /// When the oldest of these jobs came.
    pub oldest: Option<Timestamp>,
}

// === impl Engine: counting ===

impl Engine {
    /// Looks at everything; for the moment after a restore.
    pub fn census(&self) -> Census {
        let mut census = Census::default();
        for job in self.jobs.values().filter(|job| !job.is_terminal()) {
            *census.jobs.entry(job.row.state).or_default() += 1;
        }
        for row in self.executions.values() {
            *census.executions.entry(row.compute).or_default() += 1;
        }
        census
    }

    /// Looks at every class in which something waits, at every node, and at pinned slots, but
    /// never at a whole queue.
    pub fn waiting(&self) -> Waiting {
        let mut waiting = Waiting::default();
        for class in self.queue.waiting_classes() {
            waiting.jobs += class.waiting.len();
            waiting.note(oldest(&class.waiting));
        }
        for node in self.nodes.values() {
            waiting.pinned += node.pinned.len();
            waiting.note(node.pinned.iter().map(|(rank, _)| rank.created).min());
        }
        waiting
    }
}

// === impl Waiting ===

impl Waiting {
    fn note(&mut self, came: Option<Timestamp>) {
        self.oldest = [self.oldest, came].into_iter().flatten().min();
    }
}

/// The first of each priority is the oldest of that priority.
fn oldest(ranks: &BTreeSet<Rank>) -> Option<Timestamp> {
    let mut oldest = None;
    let mut next = ranks.first();
    while let Some(rank) = next {
        oldest = [oldest, Some(rank.created)].into_iter().flatten().min();
        let last = JobId::from_uuid(Uuid::max());
        let end = Rank { priority: rank.priority, created: Timestamp(i64::MAX), job: last };
        next = ranks.range((Bound::Excluded(end), Bound::Unbounded)).next();
    }
    oldest
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use super::*;

    #[test]
    fn the_oldest_of_all_priorities_is_found() {
        let rank = |priority, created| Rank {
            priority: Reverse(priority),
            created: Timestamp(created),
            job: JobId::from_uuid(Uuid::from_u128(1)),
        };
        assert_eq!(oldest(&BTreeSet::new()), None);
        let ranks =
            BTreeSet::from([rank(90, 7), rank(90, 8), rank(50, 3), rank(50, 4), rank(1, 5)]);
        assert_eq!(oldest(&ranks), Some(Timestamp(3)));
    }
}
