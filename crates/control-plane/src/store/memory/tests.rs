//! The contract of every store, and what only this one can show.

use super::*;
use crate::store::Retention;
use crate::store::contract::{Put, Random, Writer, ended, writer_contract};

struct InMemory;

impl Writer for InMemory {
    fn writer(&self) -> Box<dyn Store> {
        Box::new(MemoryStore::default())
    }
}

fn in_memory() -> Option<InMemory> {
    Some(InMemory)
}

writer_contract!(in_memory);

const EVERYTHING: Retention = Retention { age: None, count: Some(0) };

#[test]
fn retention_removes_what_ended_first_and_keeps_the_last_sequence() {
    let mut random = Random(140);
    let mut changes = Changes::default();
    let ids: Vec<_> = [30, 10, 20]
        .into_iter()
        .map(|end| ended(&mut random, &mut changes, end, 2).sample.id())
        .collect();
    let mut store = MemoryStore::default();
    store.put(1, &changes, &[]).unwrap();
    let one = Retention { age: None, count: Some(1) };
    let pruned = store.prune(Moment(0), &one, 1).unwrap();
    assert_eq!(pruned, Removed { count: 1, more: true });
    assert!(!store.has_job(ids[1]).unwrap());
    assert_eq!(store.prune(Moment(0), &one, 9).unwrap(), Removed { count: 1, more: false });
    assert!(store.has_job(ids[0]).unwrap() && !store.has_job(ids[2]).unwrap());
    assert_eq!((store.executions.len(), store.outputs.len(), store.events.len()), (2, 2, 6));

    let old = Retention { age: Some(std::time::Duration::from_secs(5)), count: None };
    assert_eq!(store.prune(Moment(35_000_000_000), &old, 9).unwrap(), Removed::default());
    store.prune(Moment(0), &EVERYTHING, 9).unwrap();
    assert!(store.jobs.is_empty() && store.events.is_empty() && store.executions.is_empty());
    assert_eq!(store.load(&mut |_| {}).unwrap().last_seq, 18);
}

#[test]
fn the_histories_of_nodes_stay_within_their_bounds() {
    let mut random = Random(141);
    let mut store = MemoryStore::default();
    let (busy, quiet) = (random.node_id(), random.node_id());
    let event = |node, seq, revision, new| EventRow {
        seq,
        time: api_types::Timestamp(0),
        revision,
        comment: "".into(),
        subject: EventSubject::Node { node, previous: NodeStateType::Connected, new },
    };
    let mut changes = Changes::default();
    changes.events.push(event(quiet, 1, 1, NodeStateType::Connected));
    changes.events.push(event(quiet, 2, 2, NodeStateType::Unknown));
    for revision in 1..=NODE_EVENTS + 5 {
        let last = changes.events.len() as u64;
        changes.events.push(event(busy, last + 1, revision, NodeStateType::Connected));
    }
    store.put(1, &changes, &[]).unwrap();
    let kept = store.node_history(busy);
    assert_eq!((kept.len() as u64, kept[0].revision), (NODE_EVENTS, 6));
    assert_eq!(store.node_history(quiet).len(), 2);

    let mut changes = Changes::default();
    for seq in 0..FORGOTTEN_NODES_EVENTS {
        let node = random.node_id();
        changes.events.push(event(node, 2000 + seq, 1, NodeStateType::Unknown));
    }
    store.put(2, &changes, &[]).unwrap();
    assert!(store.node_history(quiet).is_empty());
    assert_eq!(store.events.len() as u64, NODE_EVENTS + FORGOTTEN_NODES_EVENTS);
}
