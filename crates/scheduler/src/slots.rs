//! The slots of a job: a set of indexes, kept as sorted ranges with gaps between them.
//!
//! A job of a million slots is one range, and so costs what a job of one slot costs. Only a job
//! that runs some slots of another one has several. Rejected: a bit for each slot, which is 125 kB
//! for each change of the job's row.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::RangeInclusive;
use core::str::FromStr;

/// The most ranges that are stored as a text, which each change of the job's row writes again. A
/// job with more is stored with a chunk for each 4,096 slots from the beginning.
pub const LISTED_RANGES: usize = 16;

/// A set of slots. A clone of it shares its ranges.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Slots(Ranges);

#[derive(Clone, PartialEq, Eq, Default)]
enum Ranges {
    #[default]
    None,
    One(Range),
    Many(Arc<Many>),
}

/// Two ranges or more, and the number of slots in them. A million jobs without any need not be
/// larger for it.
#[derive(PartialEq, Eq)]
struct Many {
    ranges: Box<[Range]>,
    /// How many slots are in the ranges before each one.
    before: Box<[u32]>,
    len: u32,
}

/// Indexes from `first` to `last`, both included. `last` is below `u32::MAX`, so that the number of
/// slots and the index after the last one fit into a `u32`.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Range {
    first: u32,
    last: u32,
}

/// A text that lists no slots.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a list of indexes such as 3,7-9")]
pub struct InvalidSlots(String);

// === impl Slots ===

impl Slots {
    /// The slots from 0 up to the count.
    pub fn below(count: u32) -> Self {
        match count.checked_sub(1) {
            None => Self::default(),
            Some(last) => Self(Ranges::One(Range { first: 0, last: last.min(u32::MAX - 1) })),
        }
    }

    fn from_ranges(mut ranges: Vec<Range>) -> Self {
        ranges.sort_unstable_by_key(|range| range.first);
        let mut merged: Vec<Range> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match merged.last_mut() {
                Some(last) if range.first <= last.last + 1 => last.last = last.last.max(range.last),
                _ => merged.push(range),
            }
        }
        Self(match merged.as_slice() {
            [] => Ranges::None,
            [one] => Ranges::One(*one),
            _ => Ranges::Many(Arc::new(Many::new(merged))),
        })
    }

    pub fn len(&self) -> u32 {
        match &self.0 {
            Ranges::None => 0,
            Ranges::One(range) => range.len(),
            Ranges::Many(many) => many.len,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.all().is_empty()
    }

    pub fn contains(&self, index: u32) -> bool {
        self.at_or_above(index) == Some(index)
    }

    /// The first slot at or above this index.
    pub fn at_or_above(&self, index: u32) -> Option<u32> {
        self.from(index).first().map(|range| range.first.max(index))
    }

    /// How many slots are at or above this index.
    pub fn count_from(&self, index: u32) -> u32 {
        let rest = self.from(index);
        let Some(first) = rest.first() else { return 0 };
        let before = match &self.0 {
            Ranges::None | Ranges::One(_) => 0,
            Ranges::Many(many) => many.before[many.ranges.len() - rest.len()],
        };
        self.len() - before - index.saturating_sub(first.first)
    }

    /// The index after the last slot.
    pub fn end(&self) -> u32 {
        self.all().last().map_or(0, |range| range.last + 1)
    }

    /// Adds the slot after the last one, and returns it.
    pub fn extend(&mut self) -> u32 {
        let index = self.end();
        let added = Range { first: index, last: index.min(u32::MAX - 1) };
        *self = Self::from_ranges(self.all().iter().copied().chain([added]).collect());
        index
    }

    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.all().iter().flat_map(|range| range.first..=range.last)
    }

    /// The ranges of indexes, in order, with gaps between them.
    pub fn ranges(&self) -> impl Iterator<Item = RangeInclusive<u32>> {
        self.all().iter().map(|range| range.first..=range.last)
    }

    /// Whether the slots are in more ranges than a text may list.
    pub fn is_scattered(&self) -> bool {
        self.all().len() > LISTED_RANGES
    }

    /// Ranges that are kept in memory separately from the job; none of slots that a text lists.
    pub(crate) fn scattered_ranges(&self) -> u64 {
        if self.is_scattered() { self.all().len() as u64 } else { 0 }
    }

    /// As a text of at most this many bytes; a longer one ends with `…`.
    pub fn shortened(&self, most_bytes: usize) -> String {
        list(self.all().iter().map(|range| (range.first, range.last)), most_bytes)
    }

    /// Whether each slot of the other set is in this one.
    pub fn includes(&self, other: &Self) -> bool {
        other.all().iter().all(|range| {
            let after = self.count_from(range.last + 1);
            self.count_from(range.first) - after == range.len()
        })
    }

    /// Those of the slots from this index to that one, both included.
    pub(crate) fn between(&self, first: u32, last: u32) -> impl Iterator<Item = u32> {
        let ranges = self.from(first).iter().take_while(move |range| range.first <= last);
        ranges.flat_map(move |range| range.first.max(first)..=range.last.min(last))
    }

    fn all(&self) -> &[Range] {
        match &self.0 {
            Ranges::None => &[],
            Ranges::One(range) => core::slice::from_ref(range),
            Ranges::Many(many) => &many.ranges,
        }
    }

    /// The ranges that do not end below this index.
    fn from(&self, index: u32) -> &[Range] {
        let ranges = self.all();
        &ranges[ranges.partition_point(|range| range.last < index)..]
    }
}

impl fmt::Display for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Range { first, last }) in self.all().iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

impl FromIterator<u32> for Slots {
    /// From indexes in rising order; any other is left out.
    fn from_iter<I: IntoIterator<Item = u32>>(indexes: I) -> Self {
        let mut ranges: Vec<Range> = Vec::new();
        for index in indexes.into_iter().filter(|index| *index < u32::MAX) {
            match ranges.last_mut() {
                Some(last) if index == last.last + 1 => last.last = index,
                Some(last) if index <= last.last => {}
                _ => ranges.push(Range { first: index, last: index }),
            }
        }
        Self::from_ranges(ranges)
    }
}

impl FromStr for Slots {
    type Err = InvalidSlots;

    /// In any order; an index may be listed twice.
    fn from_str(text: &str) -> Result<Self, InvalidSlots> {
        let parts = text.split(',').filter(|_| !text.is_empty());
        let ranges: Option<Vec<Range>> = parts.map(Range::parse).collect();
        ranges.map(Self::from_ranges).ok_or_else(|| InvalidSlots(text.into()))
    }
}

/// Lists ranges in at most this many bytes; a longer list ends with `…`.
pub(crate) fn list(ranges: impl Iterator<Item = (u32, u32)>, most_bytes: usize) -> String {
    let mut text = String::new();
    let mut ranges = ranges.peekable();
    while let Some((first, last)) = ranges.next() {
        let comma = if text.is_empty() { "" } else { "," };
        let part = match first == last {
            true => format!("{comma}{first}"),
            false => format!("{comma}{first}-{last}"),
        };
        let room = if ranges.peek().is_some() { "…".len() + 1 } else { 0 };
        if text.len() + part.len() + room > most_bytes {
            text.push_str(comma);
            text.push('…');
            return text;
        }
        text.push_str(&part);
    }
    text
}

// === impl Many ===

impl Many {
    fn new(ranges: Vec<Range>) -> Self {
        let mut len = 0;
        let mut before = Vec::with_capacity(ranges.len());
        for range in &ranges {
            before.push(len);
            len += range.len();
        }
        Self { before: before.into(), ranges: ranges.into(), len }
    }
}

// === impl Range ===

impl Range {
    fn len(self) -> u32 {
        self.last - self.first + 1
    }

    fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let range = Self { first: first.parse().ok()?, last: last.parse().ok()? };
        (range.first <= range.last && range.last < u32::MAX).then_some(range)
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::string::ToString;

    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

    use super::*;

    #[test]
    fn a_set_of_ranges_answers_what_a_set_of_indexes_answers() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut below = move |bound: u32| random.next_u32() % bound;
        for step in 0..3000 {
            let mut all = BTreeSet::new();
            let mut ranges = Vec::new();
            for _ in 0..below(6) {
                let first = below(40);
                let last = first + below(5);
                ranges.push(Range { first, last });
                all.extend(first..=last);
            }
            let mut slots = Slots::from_ranges(ranges);
            if step % 2 == 0 {
                assert_eq!(slots.extend(), all.last().map_or(0, |last| last + 1));
                all.insert(slots.end() - 1);
            }
            assert_eq!(slots.to_string().parse(), Ok(slots.clone()), "{slots}");
            assert_eq!(slots.iter().collect::<BTreeSet<_>>(), all, "{slots}");
            assert_eq!((slots.len() as usize, slots.is_empty()), (all.len(), all.is_empty()));
            assert_eq!(slots.end(), all.last().map_or(0, |last| last + 1));
            assert_eq!(all.iter().copied().collect::<Slots>(), slots);
            let other: Slots = (0..below(4)).map(|at| at * 9).collect();
            assert_eq!(slots.includes(&other), other.iter().all(|index| all.contains(&index)));
            for index in 0..50 {
                let next: Vec<_> = slots.between(index, index + 9).collect();
                assert_eq!(next, all.range(index..=index + 9).copied().collect::<Vec<_>>());
                assert_eq!(slots.contains(index), all.contains(&index), "{index} of {slots}");
                assert_eq!(slots.at_or_above(index), all.range(index..).next().copied());
                assert_eq!(slots.count_from(index) as usize, all.range(index..).count());
            }
            let gaps = slots.all().windows(2).all(|pair| pair[0].last + 1 < pair[1].first);
            assert!(gaps, "{slots} is not in its shortest form");
        }
    }

    #[test]
    fn a_million_slots_are_one_range() {
        let mut slots = Slots::below(1_000_000);
        assert_eq!((slots.to_string().as_str(), slots.len()), ("0-999999", 1_000_000));
        assert_eq!(slots.extend(), 1_000_000);
        assert_eq!(slots, Slots::below(1_000_001));
        assert_eq!(Slots::below(0), Slots::default());
        assert_eq!(Slots::below(u32::MAX).end(), u32::MAX);
        assert_eq!(Slots::below(u32::MAX).at_or_above(u32::MAX), None);
    }

    #[test]
    fn half_a_million_ranges_are_counted_without_walking_them() {
        let odd = (0..500_000).map(|slot| Range { first: 2 * slot + 1, last: 2 * slot + 1 });
        let slots = Slots::from_ranges(odd.collect());
        for index in 0..1_000_000 {
            assert_eq!(slots.count_from(index), 500_000 - index / 2);
        }
    }

    #[test]
    fn a_text_that_lists_no_indexes_is_refused() {
        assert_eq!(
            "7-9,3,8,10".parse::<Slots>().map(|slots| slots.to_string()),
            Ok("3,7-10".into())
        );
        assert_eq!("".parse(), Ok(Slots::default()));
        for text in ["-", "3-", "9-7", "1,", "a", " 1", "4294967295"] {
            assert_eq!(text.parse::<Slots>(), Err(InvalidSlots(text.into())));
        }
    }
}
