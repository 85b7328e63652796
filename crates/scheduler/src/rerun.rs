//! A job that runs slots of another one again, under the indexes that they had.

use alloc::collections::BTreeMap;

use api_types::NodeId;
use api_types::rerun::Only;

use crate::outcomes::{Outcomes, SlotOutcome};
use crate::slots::Slots;

/// Ranges of slots that the live jobs of a namespace may have in all, of those that have more than
/// [`LISTED_RANGES`](crate::slots::LISTED_RANGES). They are in memory, 12 bytes each. Beyond it, such a rerun is refused until
/// one of them has ended.
pub const MAX_RANGES: u64 = 2_000_000;

/// What a job runs again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rerun {
    pub slots: Slots,
    /// For an ops job: where each of these slots runs.
    pub nodes: BTreeMap<u32, NodeId>,
    /// What is stored of the slots, if they are too scattered for a text.
    pub chunks: Outcomes,
}

/// The slots of an ended job that a rerun names. Those that were cancelled or never ran have not
/// completed.
pub fn select(slots: &Slots, outcomes: &Outcomes, only: Only, within: Option<&Slots>) -> Slots {
    let is_meant = |index: &u32| match (only, outcomes.get(*index)) {
        (Only::All, _)
        | (Only::Failed | Only::NotCompleted, SlotOutcome::Failed)
        | (Only::NotCompleted, SlotOutcome::ToDo | SlotOutcome::Absent) => true,
        (Only::NotCompleted, SlotOutcome::Completed)
        | (Only::Failed, SlotOutcome::Completed | SlotOutcome::ToDo | SlotOutcome::Absent) => false,
    };
    match (only, within) {
        (Only::All, None) => slots.clone(),
        (_, None) => slots.iter().filter(is_meant).collect(),
        (_, Some(within)) => {
            slots.iter().filter(|index| within.contains(*index)).filter(is_meant).collect()
        }
    }
}

// === impl Rerun ===

impl Rerun {
    /// Prepares what is stored, so that a turn need not walk the slots.
    pub fn new(slots: Slots, nodes: BTreeMap<u32, NodeId>) -> Self {
        let chunks =
            if slots.is_scattered() { Outcomes::to_do(&slots) } else { Outcomes::default() };
        Self { slots, nodes, chunks }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn a_rerun_selects_by_outcome_and_index_and_its_chunks_name_exactly_its_slots() {
        let slots: Slots = "3,5-9,4090-4100".parse().unwrap();
        let mut outcomes = Outcomes::default();
        for (index, outcome) in [
            (3, SlotOutcome::Failed),
            (6, SlotOutcome::Completed),
            (4096, SlotOutcome::Failed),
            (4100, SlotOutcome::Completed),
        ] {
            outcomes.record(&slots, index, outcome);
        }
        let within: Slots = "5-7,4096".parse().unwrap();
        for (only, within, expected) in [
            (Only::All, None, "3,5-9,4090-4100"),
            (Only::Failed, None, "3,4096"),
            (Only::NotCompleted, None, "3,5,7-9,4090-4099"),
            (Only::All, Some(&within), "5-7,4096"),
            (Only::Failed, Some(&within), "4096"),
            (Only::NotCompleted, Some(&within), "5,7,4096"),
        ] {
            let selected = select(&slots, &outcomes, only, within);
            assert_eq!(selected.to_string(), expected);
            assert_eq!(Outcomes::to_do(&selected).slots(), selected);
        }
    }

    #[test]
    fn only_scattered_slots_are_stored_in_chunks() {
        let odd = |count: u32| (0..count).map(|at| 2 * at + 1).collect::<Slots>();
        let few = Rerun::new(odd(16), BTreeMap::new());
        assert_eq!(few.chunks, Outcomes::default());
        let many = Rerun::new(odd(500_000), BTreeMap::new());
        assert_eq!(many.chunks.chunks().count(), 245);
        assert_eq!(many.chunks.slots(), many.slots);
        assert_eq!(many.chunks.tally(&many.slots).unfinished(), 500_000);
    }
}
