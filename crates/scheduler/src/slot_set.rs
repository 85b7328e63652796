//! A set of slots that changes slot by slot: a bit for each, in chunks that are there while a bit is set.
//!
//! A million slots take 125 kB, in whatever order they come and go. Rejected: a tree of indexes,
//! which takes forty times as much, and [`Slots`](crate::slots::Slots), which copies all of its
//! ranges with each change.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

const WORDS: usize = 64;
const CHUNK_SLOTS: u32 = u64::BITS * 64;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SlotSet {
    chunks: BTreeMap<u32, Box<[u64; WORDS]>>,
    len: u32,
}

// === impl SlotSet ===

impl SlotSet {
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn contains(&self, index: u32) -> bool {
        let (number, word, bit) = place(index);
        self.chunks.get(&number).is_some_and(|chunk| chunk[word] & bit != 0)
    }

    pub(crate) fn first(&self) -> Option<u32> {
        let (number, chunk) = self.chunks.first_key_value()?;
        let word = chunk.iter().position(|word| *word != 0)?;
        let before = u32::try_from(word).ok()? * u64::BITS + chunk[word].trailing_zeros();
        Some(number * CHUNK_SLOTS + before)
    }

    /// Whether the slot is new.
    pub(crate) fn insert(&mut self, index: u32) -> bool {
        let (number, word, bit) = place(index);
        let chunk = self.chunks.entry(number).or_insert_with(|| Box::new([0; WORDS]));
        let is_new = chunk[word] & bit == 0;
        chunk[word] |= bit;
        self.len += u32::from(is_new);
        is_new
    }

    /// Whether the slot was there.
    pub(crate) fn remove(&mut self, index: u32) -> bool {
        let (number, word, bit) = place(index);
        let Some(chunk) = self.chunks.get_mut(&number) else { return false };
        let was_there = chunk[word] & bit != 0;
        chunk[word] &= !bit;
        self.len -= u32::from(was_there);
        if was_there && chunk.iter().all(|word| *word == 0) {
            self.chunks.remove(&number);
        }
        was_there
    }
}

/// The chunk of a slot, and its word and bit there.
const fn place(index: u32) -> (u32, usize, u64) {
    let within = index % CHUNK_SLOTS;
    (index / CHUNK_SLOTS, (within / u64::BITS) as usize, 1 << (within % u64::BITS))
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

    use super::*;

    #[test]
    fn it_answers_as_a_tree_of_indexes_does() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let (mut set, mut tree) = (SlotSet::default(), BTreeSet::new());
        for step in 0_u32..20_000 {
            let index = random.next_u32() % 20_000;
            match random.next_u32() % 3 == 0 || step > 15_000 {
                true => assert_eq!(set.remove(index), tree.remove(&index)),
                false => assert_eq!(set.insert(index), tree.insert(index)),
            }
            assert_eq!(set.contains(index), tree.contains(&index));
            assert_eq!((set.first(), set.len() as usize), (tree.first().copied(), tree.len()));
        }
        while let Some(first) = set.first() {
            assert!(set.remove(first) && tree.remove(&first));
        }
        assert!(tree.is_empty() && set == SlotSet::default());
    }
}
