//! Removals are commits of their own, and keep their numbers.

use super::*;
use crate::store::Removal;

fn is_removal(commit: &NumberedCommit) -> bool {
    matches!(commit.content, Content::Removal(Removal::Keys { .. } | Removal::Jobs { .. }))
}

#[test]
fn a_removal_is_a_commit_of_its_own_and_no_full_disk_refuses_callers_for_it() {
    let mut world = World::new(Trust::Always);
    world.request([submit(1, 20, "a", Some(("k", 1)))]);
    world.refusal = Some(full);
    world.now = world.now + KEY_RETENTION + Duration::from_secs(1);
    world.request([stop(2)]);
    assert!(world.commits.last().is_some_and(is_removal), "{:?}", world.commits);
    assert_eq!(world.replies.len(), 2);
    assert_eq!(world.refused, []);
    world.refusal = None;
    for _ in 0..3 {
        world.pass(Duration::from_secs(11));
    }
    assert!(world.store.keys.is_empty());
    let mut numbers: Vec<_> = world.numbers();
    numbers.dedup();
    assert!(numbers.is_sorted() && numbers.len() >= 2, "{numbers:?}");
}

#[test]
fn a_removal_of_unknown_outcome_keeps_its_number_although_the_disk_is_full() {
    let mut world = World::new(Trust::Always);
    world.request([submit(1, 20, "a", Some(("k", 1)))]);
    world.refusal = Some(|| StoreError::Unavailable);
    world.now = world.now + KEY_RETENTION + Duration::from_secs(1);
    world.request([stop(2)]);
    let unknown = world.commits.iter().position(is_removal).expect("old keys are removed");
    world.refusal = Some(full);
    world.pass(REPEAT_EVERY);
    assert_eq!(world.takes, [Reason::Start, Reason::Unknown]);
    world.refusal = None;
    // The first attempt comes late.
    let late = world.commits[unknown].clone();
    drop(late.write_to(&mut world.store));
    world.pass(RETRY_EVERY);
    world.request([submit(3, 21, "a", None)]);
    assert_eq!(world.created().last(), Some(&(3, Ok(job(21)))));
    assert!(world.store.jobs.contains_key(&job(21)), "what was acknowledged is stored");
}
