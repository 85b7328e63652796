//! Records are stored like everything else: in numbered commits, before anybody hears of them.

use super::*;
use crate::records::{Expected, RecordKind, RecordRefusal, RecordWrite};

fn write(caller: u32, expected: Expected, value: &str) -> (u32, Request) {
    let key = RecordKind::Token.key("a");
    (caller, Request::Records(vec![RecordWrite { key, expected, value: Some(value.into()) }]))
}

#[test]
fn records_are_committed_before_the_reply_and_checked_against_the_last_version() {
    let mut world = World::new(Trust::Always);
    let (first, second) = (Expected::Nothing, Expected::Nothing);
    world.request([write(1, first, "1"), write(2, second, "2")]);
    let refusal = RecordRefusal::Changed(RecordKind::Token.key("a"));
    assert!(matches!(&world.replies[0], (1, Reply::Recorded(Ok(())))), "{:?}", world.replies);
    assert!(matches!(&world.replies[1], (2, Reply::Recorded(Err(why))) if *why == refusal));
    let stored = world.store.records().unwrap();
    assert_eq!((stored[0].version, stored[0].value.as_ref()), (1, "1"));

    world.refusal = Some(full);
    world.request([write(3, Expected::Version(1), "3")]);
    assert_eq!(world.refused, [(3, Refused::NotStored)]);
    world.refusal = None;
    world.pass(RETRY_EVERY);
    // What was not stored is forgotten: the version is still the first.
    world.request([write(4, Expected::Version(1), "4")]);
    assert!(matches!(world.replies.last(), Some((4, Reply::Recorded(Ok(()))))));
    assert_eq!(world.store.records().unwrap()[0].value.as_ref(), "4");
}
