//! Records are stored like everything else: in numbered commits, before anyone hears of them.

use super::*;
use api_types::audit::{AuditChain, AuditOutcome};

use crate::audit::AuditEntry;
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

#[test]
fn what_was_carried_out_is_in_the_audit_log_and_what_was_refused_is_not() {
    let mut world = World::new(Trust::Always);
    let entry = |object: &str| {
        Some(Box::new(AuditEntry {
            chain: AuditChain::Changes,
            time: api_types::Timestamp(0),
            user: "it".to_owned(),
            token_id: String::new(),
            address: String::new(),
            operation: if object == "a path" { "createJob" } else { "it" },
            object: object.to_owned(),
            request_id: String::new(),
            outcome: AuditOutcome::Done,
            count: 1,
        }))
    };
    let requests = [
        (write(1, Expected::Nothing, "1"), "made"),
        (write(2, Expected::Nothing, "2"), "refused"),
        (stop(3), "refused"),
        (submit(4, 20, "a", None), "a path"),
        ((5, Request::Records(Vec::new())), "nothing but the entry"),
        (submit(6, 21, "b", None), "a path"),
    ];
    let arrived = world.stamp().now();
    let envelope = |((caller, request), object)| Envelope {
        origin: Origin::User,
        arrived,
        request,
        audit: entry(object),
        caller,
    };
    let inputs = requests.into_iter().map(envelope).collect();
    let now = world.stamp();
    let actions =
        world.step.on(Event::Inputs { inputs, known: Some(LookupResults::default()) }, now);
    world.perform(actions);
    let objects: Vec<_> = world.store.audit.iter().map(|it| it.object.as_str()).collect();
    let jobs = format!("{} {}", job(20), job(21));
    assert_eq!(objects, ["made", jobs.as_str(), "nothing but the entry"]);
    assert_eq!(world.commits.len(), 1, "in the commit of the changes");
    let chain = world.store.audit_chains().unwrap().changes;
    assert_eq!((chain.sequence, &chain.hash), (3, &world.store.audit[2].hash));
}
