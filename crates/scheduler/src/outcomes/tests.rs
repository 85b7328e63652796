//! Outcomes: what is recorded reads back, is counted in any range, and is listed within bounds.

use alloc::string::ToString;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

use super::*;

fn after(slots: &Slots, ended: &BTreeMap<u32, SlotOutcome>) -> Outcomes {
    let mut outcomes = Outcomes::default();
    for (index, outcome) in ended {
        outcomes.record(slots, *index, *outcome);
    }
    outcomes
}

#[test]
fn what_is_recorded_reads_back_and_is_counted_in_any_range() {
    let slots: Slots = "3,7-5000,8190-8200,100000".parse().unwrap();
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut ended = BTreeMap::new();
    for index in slots.iter() {
        match random.next_u32() % 3 {
            0 => drop(ended.insert(index, SlotOutcome::Completed)),
            1 => drop(ended.insert(index, SlotOutcome::Failed)),
            _ => {}
        }
    }
    let mut stored = Outcomes::default();
    for (number, chunk) in after(&slots, &ended).chunks() {
        stored.insert(number, Chunk::from(Box::from(chunk.bytes())));
    }
    assert_eq!(stored, after(&slots, &ended));
    assert_eq!(stored.tally(&slots), stored.tally_within(&slots, 0..=u32::MAX));
    for _ in 0..300 {
        let first = random.next_u32() % 9000;
        let last = first + random.next_u32() % 9000;
        let count = |wanted| {
            let within = ended.range(first..=last).filter(|(_, outcome)| **outcome == wanted);
            u32::try_from(within.count()).unwrap()
        };
        let total = slots.iter().filter(|index| (first..=last).contains(index)).count();
        let expected = Tally {
            total: u32::try_from(total).unwrap(),
            completed: count(SlotOutcome::Completed),
            failed: count(SlotOutcome::Failed),
        };
        assert_eq!(stored.tally_within(&slots, first..=last), expected, "{first}-{last}");
    }
}

#[test]
fn failed_slots_are_listed_as_ranges_across_chunks() {
    let slots = Slots::below(10_000);
    let failed: Slots = "0,17,4090-4100,8191-8192,9999".parse().unwrap();
    let ended = failed.iter().map(|index| (index, SlotOutcome::Failed)).collect();
    let outcomes = after(&slots, &ended);
    assert_eq!(outcomes.failed_text(4096), failed.to_string());
    assert_eq!(outcomes.failed_text(20), "0,17,4090-4100,…");
    assert_eq!(outcomes.failed_text(3), "…");
    assert_eq!(Outcomes::default().failed_text(4096), "");
}

#[test]
fn a_list_of_half_a_million_failed_slots_is_short() {
    let slots = Slots::below(1_000_000);
    let odd = (0..1_000_000).filter(|index| index % 2 == 1);
    let outcomes = after(&slots, &odd.map(|index| (index, SlotOutcome::Failed)).collect());
    let text = outcomes.failed_text(4096);
    assert!(text.len() <= 4096 && text.len() > 4080, "{} bytes", text.len());
    assert!(text.starts_with("1,3,5,") && text.ends_with(",…"), "{text}");
    assert_eq!(outcomes.tally(&slots), Tally { total: 1_000_000, completed: 0, failed: 500_000 });
    let bytes: usize = outcomes.chunks().map(|(_, chunk)| chunk.bytes().len()).sum();
    assert_eq!(bytes, 250_000);
}

#[test]
fn a_small_array_has_a_small_chunk_and_a_single_slot_none() {
    let mut outcomes = Outcomes::default();
    let (number, chunk) = outcomes.record(&Slots::below(20), 19, SlotOutcome::Completed);
    assert_eq!((number, chunk.bytes()), (0, [0x55, 0x55, 0x55, 0x55, 0x95].as_slice()));
    let one = Slots::below(1);
    assert_eq!(Outcomes::of_one(&one, 0, 1).failed_text(9), "0");
    assert_eq!(Outcomes::of_one(&one, 1, 0).tally(&one).completed, 1);
    assert_eq!(Outcomes::of_one(&one, 0, 0), Outcomes::default());
    assert_eq!(Outcomes::of_one(&Slots::default(), 0, 1), Outcomes::default());
}
