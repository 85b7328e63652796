//! Nodes that a slot avoids for a while after it failed there for reasons unrelated to the task.

use alloc::vec::Vec;
use core::time::Duration;

use api_types::NodeId;

use crate::time::Moment;

/// How long a slot avoids a node after its first failure there; each further failure doubles it.
/// Long enough for a Docker Engine restart, and short enough to wait for when there is no other
/// node.
const FIRST: Duration = Duration::from_secs(30);

const LONGEST: Duration = Duration::from_secs(600);

/// Exclusions kept per slot; beyond this, the one that ends first is dropped.
const MAX_EXCLUSIONS: usize = 8;

/// The exclusion of one node for one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exclusion {
    pub node: NodeId,
    /// The slot is not placed on the node before this moment.
    pub until: Moment,
    /// Failures of the slot on this node; they lengthen the next exclusion.
    pub failures: u32,
}

/// The exclusions of one slot. Expired ones are kept, because they lengthen the next one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exclusions(pub Vec<Exclusion>);

// === impl Exclusions ===

impl Exclusions {
    /// Excludes the node, for longer than the last time, and returns when the exclusion ends.
    pub(crate) fn exclude(&mut self, node: NodeId, now: Moment) -> Moment {
        let before = self.0.iter().position(|exclusion| exclusion.node == node);
        let failures = match before {
            Some(at) => self.0.remove(at).failures.saturating_add(1),
            None => 1,
        };
        if self.0.len() >= MAX_EXCLUSIONS
            && let Some((first, _)) =
                self.0.iter().enumerate().min_by_key(|(_, exclusion)| exclusion.until)
        {
            self.0.remove(first);
        }
        let until = now + FIRST.saturating_mul(1 << (failures - 1).min(16)).min(LONGEST);
        self.0.push(Exclusion { node, until, failures });
        until
    }

    /// Excludes the node until then, which counts as no failure; unless that would make another
    /// exclusion be forgotten.
    pub(crate) fn avoid(&mut self, node: NodeId, until: Moment) -> bool {
        if let Some(known) = self.0.iter_mut().find(|exclusion| exclusion.node == node) {
            known.until = known.until.max(until);
            return true;
        }
        let has_room = self.0.len() < MAX_EXCLUSIONS;
        if has_room {
            self.0.push(Exclusion { node, until, failures: 0 });
        }
        has_room
    }

    /// The nodes that are currently excluded, in order.
    pub(crate) fn nodes(&self, now: Moment) -> Vec<NodeId> {
        let live = self.0.iter().filter(|exclusion| exclusion.until > now);
        let mut nodes: Vec<_> = live.map(|exclusion| exclusion.node).collect();
        nodes.sort_unstable();
        nodes
    }

    /// When the next exclusion ends.
    pub(crate) fn next_end(&self, now: Moment) -> Option<Moment> {
        self.0.iter().map(|exclusion| exclusion.until).filter(|until| *until > now).min()
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn node(number: u128) -> NodeId {
        NodeId::from_uuid(Uuid::from_u128(number))
    }

    #[test]
    fn an_exclusion_ends_and_the_next_one_of_the_same_node_is_longer() {
        let mut exclusions = Exclusions::default();
        let mut now = Moment(1);
        let mut lengths = Vec::new();
        for _ in 0..7 {
            let until = exclusions.exclude(node(1), now);
            assert_eq!(exclusions.nodes(now), [node(1)]);
            assert_eq!(exclusions.next_end(now), Some(until));
            lengths.push(until.since(now).as_secs());
            now = until;
            assert!(exclusions.nodes(now).is_empty());
        }
        assert_eq!(lengths, [30, 60, 120, 240, 480, 600, 600]);
    }

    #[test]
    fn the_exclusion_that_ends_first_is_forgotten_beyond_the_bound() {
        let mut exclusions = Exclusions::default();
        for number in 0..=8 {
            exclusions.exclude(node(number), Moment(u64::try_from(number).unwrap_or(0)));
        }
        assert_eq!(exclusions.nodes(Moment(0)), [1, 2, 3, 4, 5, 6, 7, 8].map(node));
    }
}
