//! Entries that a quota does not hold, so that those with the largest need are found.

use alloc::collections::BTreeSet;

use crate::demand::Need;
use crate::queue::group::Entry;
use crate::queue::heads::Limits;

#[derive(Default)]
pub(super) struct Open {
    pub(super) all: BTreeSet<Entry>,
    cpu: Asked,
    memory: Asked,
    gpus: Asked,
}

/// How much of a resource each entry needs.
#[derive(Default)]
struct Asked {
    given: BTreeSet<(u64, Entry)>,
    /// Those that leave it to the node.
    left: BTreeSet<Entry>,
}

// === impl Open ===

impl Open {
    pub(super) fn insert(&mut self, entry: Entry, need: &Need) {
        self.all.insert(entry);
        self.cpu.insert(entry, need.cpu_millis);
        self.memory.insert(entry, need.memory_bytes);
        if need.gpus > 0 {
            self.gpus.insert(entry, Some(need.gpus));
        }
    }

    pub(super) fn remove(&mut self, entry: Entry, need: &Need) {
        self.all.remove(&entry);
        self.cpu.remove(entry, need.cpu_millis);
        self.memory.remove(entry, need.memory_bytes);
        self.gpus.remove(entry, Some(need.gpus));
    }

    pub(super) fn first_over(&self, Limits { room, defaults }: &Limits) -> Option<Entry> {
        let cpu = || self.cpu.first_over(room.cpu_millis, defaults.cpu_millis);
        let memory = || self.memory.first_over(room.memory_bytes, defaults.memory_bytes);
        cpu().or_else(memory).or_else(|| self.gpus.first_over(room.gpus, 0))
    }
}

// === impl Asked ===

impl Asked {
    fn insert(&mut self, entry: Entry, asked: Option<u64>) {
        match asked {
            Some(amount) => self.given.insert((amount, entry)),
            None => self.left.insert(entry),
        };
    }

    fn remove(&mut self, entry: Entry, asked: Option<u64>) {
        match asked {
            Some(amount) => self.given.remove(&(amount, entry)),
            None => self.left.remove(&entry),
        };
    }

    fn first_over(&self, room: u64, default: u64) -> Option<Entry> {
        let given = self.given.last().filter(|(amount, _)| *amount > room).map(|(_, entry)| *entry);
        given.or_else(|| self.left.first().copied().filter(|_| default > room))
    }
}
