//! The outcome of each slot of a job: two bits per slot, in chunks that are stored one by one.
//!
//! A commit stores the chunks that it changed, so the end of a slot costs at most a kilobyte,
//! however many slots the job has. A job of one slot has no chunk: its counters say it all.
//! Rejected: ranges of completed and of failed slots, of which an array that fails every other time
//! has half a million.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec;
use core::fmt;
use core::ops::RangeInclusive;

use crate::slots::{Slots, list};

/// Slots of one chunk.
pub const CHUNK_SLOTS: u32 = 4096;

const SLOTS_PER_BYTE: u32 = 4;

/// In each pair of bits, the lower one.
const LOWER: u8 = 0b0101_0101;

/// What became of a slot. The numbers are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotOutcome {
    /// The job has no such slot.
    Absent = 0,
    /// It waits or runs, or the job ended before it did.
    ToDo = 1,
    Completed = 2,
    /// It is not tried again.
    Failed = 3,
}

/// The outcomes of [`CHUNK_SLOTS`] slots; the last chunk of a job ends with its last slot.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Chunk(Box<[u8]>);

/// The chunks in which a slot has ended, by their number. The slots of the others are all to do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcomes(BTreeMap<u32, Chunk>);

/// The slots of a job that is no longer live, and what became of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Past {
    pub slots: Slots,
    pub outcomes: Outcomes,
}

/// Slots, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    pub total: u32,
    pub completed: u32,
    pub failed: u32,
}

// === impl SlotOutcome ===

impl SlotOutcome {
    const fn from_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0 => Self::Absent,
            1 => Self::ToDo,
            2 => Self::Completed,
            _ => Self::Failed,
        }
    }
}

// === impl Chunk ===

impl Chunk {
    /// The chunk of this number while all of its slots are to do.
    fn to_do(slots: &Slots, number: u32) -> Self {
        let first = number.saturating_mul(CHUNK_SLOTS);
        let len = slots.end().saturating_sub(first).min(CHUNK_SLOTS);
        let mut chunk = Self(vec![0; len.div_ceil(SLOTS_PER_BYTE) as usize].into());
        for index in slots.between(first, first.saturating_add(CHUNK_SLOTS - 1)) {
            chunk.set(index, SlotOutcome::ToDo);
        }
        chunk
    }

    /// As stored.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn get(&self, index: u32) -> SlotOutcome {
        let (byte, shift) = place(index);
        SlotOutcome::from_bits(self.0.get(byte).map_or(0, |bits| bits >> shift))
    }

    pub(crate) fn set(&mut self, index: u32, outcome: SlotOutcome) {
        let (byte, shift) = place(index);
        if let Some(bits) = self.0.get_mut(byte) {
            *bits = *bits & !(0b11 << shift) | (outcome as u8) << shift;
        }
    }

    /// The slots of the job, as indexes within the chunk.
    fn present(&self) -> impl Iterator<Item = u32> {
        let within = (0_u32..).zip(self.0.iter()).filter(|(_, bits)| **bits != 0);
        let within = within.flat_map(|(at, _)| at * SLOTS_PER_BYTE..(at + 1) * SLOTS_PER_BYTE);
        within.filter(|index| self.get(*index) != SlotOutcome::Absent)
    }

    /// Completed and failed slots of the whole chunk.
    fn ended(&self) -> (u32, u32) {
        let count = |bits: &u8| {
            let (upper, lower) = (bits >> 1 & LOWER, bits & LOWER);
            ((upper & !lower).count_ones(), (upper & lower).count_ones())
        };
        self.0.iter().map(count).fold((0, 0), |(all, bad), (more, worse)| (all + more, bad + worse))
    }

    /// The failed slots, as indexes within the chunk.
    fn failed(&self) -> impl Iterator<Item = u32> {
        let with_some = |(_, bits): &(u32, &u8)| *bits & *bits >> 1 & LOWER != 0;
        let bytes = (0_u32..).zip(self.0.iter()).filter(with_some);
        let within = bytes.flat_map(|(at, _)| at * SLOTS_PER_BYTE..(at + 1) * SLOTS_PER_BYTE);
        within.filter(move |index| self.get(*index) == SlotOutcome::Failed)
    }
}

impl From<Box<[u8]>> for Chunk {
    fn from(bytes: Box<[u8]>) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (completed, failed) = self.ended();
        write!(f, "{{{completed} completed, {failed} failed}}")
    }
}

/// The byte of a slot within its chunk, and where its bits begin.
const fn place(index: u32) -> (usize, u32) {
    let within = index % CHUNK_SLOTS;
    ((within / SLOTS_PER_BYTE) as usize, within % SLOTS_PER_BYTE * 2)
}

// === impl Outcomes ===

impl Outcomes {
    pub(crate) const NONE: Self = Self(BTreeMap::new());

    /// Those of a job of at most one slot, of which no chunk is stored.
    pub fn of_one(slots: &Slots, completed: u32, failed: u32) -> Self {
        let mut outcomes = Self::NONE;
        if let Some(index) = slots.at_or_above(0) {
            if failed > 0 {
                outcomes.record(slots, index, SlotOutcome::Failed);
            } else if completed > 0 {
                outcomes.record(slots, index, SlotOutcome::Completed);
            }
        }
        outcomes
    }

    /// A chunk for each part of the job that has slots, all of which are to do.
    pub fn to_do(slots: &Slots) -> Self {
        let mut outcomes = Self::NONE;
        let mut next = slots.at_or_above(0);
        while let Some(index) = next {
            let number = index / CHUNK_SLOTS;
            outcomes.insert(number, Chunk::to_do(slots, number));
            let end = (number + 1).checked_mul(CHUNK_SLOTS);
            next = end.and_then(|end| slots.at_or_above(end));
        }
        outcomes
    }

    /// The slots that the chunks say the job has.
    pub fn slots(&self) -> Slots {
        let chunks = self.0.iter();
        chunks
            .flat_map(|(number, chunk)| chunk.present().map(move |at| number * CHUNK_SLOTS + at))
            .collect()
    }

    /// Adds a chunk as it was stored.
    pub fn insert(&mut self, number: u32, chunk: Chunk) {
        self.0.insert(number, chunk);
    }

    /// A slot of the job has ended. Returns the number of its chunk, and the chunk.
    pub fn record(&mut self, slots: &Slots, index: u32, outcome: SlotOutcome) -> (u32, &Chunk) {
        let number = index / CHUNK_SLOTS;
        let chunk = self.0.entry(number).or_insert_with(|| Chunk::to_do(slots, number));
        chunk.set(index, outcome);
        (number, chunk)
    }

    /// What became of this slot of the job.
    pub fn get(&self, index: u32) -> SlotOutcome {
        self.0.get(&(index / CHUNK_SLOTS)).map_or(SlotOutcome::ToDo, |chunk| chunk.get(index))
    }

    pub fn chunks(&self) -> impl Iterator<Item = (u32, &Chunk)> {
        self.0.iter().map(|(number, chunk)| (*number, chunk))
    }

    /// All slots of the job, counted.
    pub fn tally(&self, slots: &Slots) -> Tally {
        let ended = self.0.values().map(Chunk::ended);
        let (completed, failed) =
            ended.fold((0, 0), |(all, bad), (more, worse)| (all + more, bad + worse));
        Tally { total: slots.len(), completed, failed }
    }

    /// Those with indexes in this range, counted.
    pub fn tally_within(&self, slots: &Slots, range: RangeInclusive<u32>) -> Tally {
        let (first, last) = range.into_inner();
        let beyond = last.checked_add(1).map_or(0, |next| slots.count_from(next));
        let total = slots.count_from(first) - beyond;
        let mut tally = Tally { total, completed: 0, failed: 0 };
        for (number, chunk) in self.0.range(first / CHUNK_SLOTS..=last / CHUNK_SLOTS) {
            let begin = number * CHUNK_SLOTS;
            let end = begin + (CHUNK_SLOTS - 1);
            if first <= begin && end <= last {
                let (completed, failed) = chunk.ended();
                tally.completed += completed;
                tally.failed += failed;
                continue;
            }
            for index in first.max(begin)..=last.min(end) {
                match chunk.get(index) {
                    SlotOutcome::Completed => tally.completed += 1,
                    SlotOutcome::Failed => tally.failed += 1,
                    SlotOutcome::Absent | SlotOutcome::ToDo => {}
                }
            }
        }
        tally
    }

    /// The failed slots, in order.
    fn failed(&self) -> impl Iterator<Item = u32> {
        let chunks = self.0.iter();
        chunks.flat_map(|(number, chunk)| chunk.failed().map(move |at| number * CHUNK_SLOTS + at))
    }

    /// The failed slots as [`Slots`] lists them; a list that would take more bytes than this ends
    /// with `…`.
    pub fn failed_text(&self, most_bytes: usize) -> String {
        let mut failed = self.failed().peekable();
        let ranges = core::iter::from_fn(|| {
            let first = failed.next()?;
            let mut last = first;
            while let Some(next) = failed.next_if(|next| *next == last + 1) {
                last = next;
            }
            Some((first, last))
        });
        list(ranges, most_bytes)
    }
}

// === impl Past ===

impl Past {
    pub fn get(&self, index: u32) -> SlotOutcome {
        match self.slots.contains(index) {
            true => self.outcomes.get(index),
            false => SlotOutcome::Absent,
        }
    }
}

// === impl Tally ===

impl Tally {
    /// Slots that have neither completed nor failed.
    pub const fn unfinished(&self) -> u32 {
        self.total.saturating_sub(self.completed.saturating_add(self.failed))
    }
}

#[cfg(test)]
mod tests;
