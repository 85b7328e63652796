//! The slots of one job that were tried and wait.
//!
//! Those that delay the job or wait for one node are counted, since a job of 10,000 such slots is
//! asked about them whenever one of its executions ends.

use alloc::collections::BTreeMap;
use core::ops::Bound;

use api_types::NodeId;

use crate::change::PendingSlotRow;
use crate::time::Moment;

pub(crate) struct PendingSlots {
    slots: BTreeMap<u32, PendingSlotRow>,
    /// Slots that wait for the end of a delay.
    delayed: usize,
    /// Slots without a delay that may run on one node only.
    pinned: usize,
}

// === impl PendingSlots ===

impl PendingSlots {
    pub(crate) const NONE: Self = Self { slots: BTreeMap::new(), delayed: 0, pinned: 0 };

    pub(crate) fn insert(&mut self, slot: PendingSlotRow) {
        self.remove(slot.index);
        self.count(&slot, 1);
        self.slots.insert(slot.index, slot);
    }

    pub(crate) fn remove(&mut self, index: u32) -> Option<PendingSlotRow> {
        let slot = self.slots.remove(&index)?;
        self.count(&slot, -1);
        Some(slot)
    }

    /// The delay of a slot is over; returns the slot.
    pub(crate) fn end_delay(&mut self, index: u32) -> Option<&PendingSlotRow> {
        let mut slot = self.remove(index)?;
        slot.due = None;
        self.insert(slot);
        self.slots.get(&index)
    }

    pub(crate) fn get(&self, index: u32) -> Option<&PendingSlotRow> {
        self.slots.get(&index)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &PendingSlotRow> {
        self.slots.values()
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The next slot after this one that waits for its node, and that node.
    pub(crate) fn next_pinned(&self, after: Option<u32>) -> Option<(u32, NodeId)> {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut slots = self.slots.range((after, Bound::Unbounded));
        slots.find_map(|(index, slot)| {
            slot.pinned.filter(|_| slot.due.is_none()).map(|node| (*index, node))
        })
    }

    /// Whether a slot waits for the end of a delay.
    pub(crate) fn has_delayed(&self) -> bool {
        self.delayed > 0
    }

    /// Whether a slot without a delay waits for the only node that it may run on.
    pub(crate) fn has_pinned(&self) -> bool {
        self.pinned > 0
    }

    fn count(&mut self, slot: &PendingSlotRow, by: isize) {
        let counter = match (slot.due, slot.pinned) {
            (Some(_), _) => &mut self.delayed,
            (None, Some(_)) => &mut self.pinned,
            (None, None) => return,
        };
        *counter = counter.saturating_add_signed(by);
    }
}

// === impl PendingSlotRow ===

impl PendingSlotRow {
    /// Whether the only node on which it may run is excluded.
    pub(crate) fn avoids_its_node(&self, now: Moment) -> bool {
        self.pinned.is_some_and(|node| self.tries.exclusions.nodes(now).contains(&node))
    }
}
