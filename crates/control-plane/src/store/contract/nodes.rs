//! The history of nodes: apart from that of jobs, kept in bounds, and what a forgotten node leaves.

use api_types::history::{EventType, NodeStateType};
use api_types::{NodeId, Timestamp};
use scheduler::change::{Changes, EventRow, EventSubject};
use scheduler::time::Moment;

use super::Backend;
use super::samples::{Put, Random, Sample};
use crate::store::{
    EventEntry, EventsQuery, FORGOTTEN_NODES_EVENTS, HistoryQuery, NODE_EVENTS, Namespaces,
    NodeHistoryQuery, Reads, Retention,
};

fn event(node: NodeId, seq: u64, revision: u64, new: NodeStateType) -> EventRow {
    EventRow {
        seq,
        time: Timestamp(i64::try_from(seq).unwrap()),
        revision,
        comment: format!("event {revision}").into(),
        subject: EventSubject::Node { node, previous: NodeStateType::Connected, new },
    }
}

fn query(node: NodeId) -> NodeHistoryQuery {
    NodeHistoryQuery { node, since: Timestamp::ZERO, after: None, limit: 1000 }
}

fn all_events(event_type: Option<EventType>) -> EventsQuery {
    EventsQuery {
        after: 0,
        job: None,
        namespaces: Namespaces::All,
        event_type,
        since: Timestamp::ZERO,
        limit: 100_000,
    }
}

fn streamed(reads: &dyn Reads, query: &EventsQuery) -> Vec<EventRow> {
    let entries = reads.events(query).unwrap().entries.into_iter();
    let events = entries.map(|entry| match entry {
        EventEntry::Event(event) => event,
        EventEntry::Gap { from, to } => panic!("{from} to {to} are there"),
    });
    events.collect()
}

pub(in crate::store) fn events_of_nodes_are_apart_from_those_of_jobs(backend: &impl Backend) {
    let mut random = Random(150);
    let (mut store, reads) = backend.open();
    let sample = Sample::job(&mut random);
    let (one, other) = (random.node_id(), random.node_id());
    let mut changes = sample.changes();
    let (mut of_job, mut of_nodes) = (Vec::new(), Vec::new());
    for (seq, new) in (1..).zip(NodeStateType::ALL.iter().skip(1)) {
        let node = if seq % 3 == 0 { other } else { one };
        let (first, second) = (event(node, 2 * seq - 1, seq, *new), sample.event(2 * seq));
        changes.events.extend([first.clone(), second.clone()]);
        of_nodes.push(first);
        of_job.push(second);
    }
    store.put(1, &changes, &[]).unwrap();
    let reads = reads.as_ref();

    assert_eq!(streamed(reads, &all_events(None)), of_job);
    assert_eq!(streamed(reads, &all_events(Some(EventType::JobLevel))), of_job);
    let only_nodes = all_events(Some(EventType::NodeLevel));
    assert_eq!(streamed(reads, &only_nodes), of_nodes);
    let of_namespace = EventsQuery { namespaces: Namespaces::one("default"), ..only_nodes.clone() };
    assert_eq!(streamed(reads, &of_namespace), [], "a node has no namespace");
    let with_job = EventsQuery { job: Some(sample.id()), ..only_nodes };
    assert_eq!(streamed(reads, &with_job), []);
    for (event_type, expected) in [(None, of_job.len()), (Some(EventType::NodeLevel), 0)] {
        let query = HistoryQuery {
            job: sample.id(),
            since: Timestamp::ZERO,
            event_type,
            execution: None,
            node: None,
            after: None,
            limit: 1000,
        };
        assert_eq!(reads.history(&query).unwrap().items.len(), expected);
    }

    for (since, limit) in [(0, 1), (0, 3), (7, 1), (7, 1000)] {
        let since = Timestamp(since);
        let mut query = NodeHistoryQuery { since, limit, ..query(one) };
        let mut found = Vec::new();
        loop {
            let page = reads.node_history(&query).unwrap();
            query.after = page.items.last().map(|event| event.seq);
            found.extend(page.items);
            if !page.more {
                break;
            }
        }
        let is_expected = |event: &&EventRow| {
            matches!(event.subject, EventSubject::Node { node, .. } if node == one)
                && event.time >= since
        };
        let expected: Vec<_> = of_nodes.iter().filter(is_expected).cloned().collect();
        assert_eq!(found, expected, "{since:?} {limit}");
    }
    assert_eq!(reads.node_history(&query(random.node_id())).unwrap().items, []);
}

pub(in crate::store) fn a_known_node_keeps_its_newest_events(backend: &impl Backend) {
    let mut random = Random(151);
    let (mut store, reads) = backend.open();
    let (busy, quiet) = (random.node_id(), random.node_id());
    let sample = Sample::job(&mut random);
    let mut changes = sample.changes();
    let connected = NodeStateType::Connected;
    changes.events.extend([event(quiet, 1, 1, connected), sample.event(2)]);
    for revision in 1..=NODE_EVENTS + 7 {
        changes.events.push(event(busy, 2 + revision, revision, connected));
        if revision % 100 == 0 {
            store.put(revision / 100, &changes, &[]).unwrap();
            changes = Changes::default();
        }
    }
    store.put(NODE_EVENTS / 100 + 1, &changes, &[]).unwrap();
    let found = reads.node_history(&query(busy)).unwrap();
    let revisions: Vec<_> = found.items.iter().map(|event| event.revision).collect();
    assert_eq!(revisions, (8..=NODE_EVENTS + 7).collect::<Vec<_>>());
    assert!(!found.more);
    assert_eq!(reads.node_history(&query(quiet)).unwrap().items.len(), 1);
    let gap = EventEntry::Gap { from: 3, to: 9 };
    let entries = reads.events(&all_events(None)).unwrap().entries;
    assert_eq!(entries, [EventEntry::Event(sample.event(2)), gap]);

    // Events of nodes do not go with those of jobs.
    let everything = Retention { age: None, count: Some(0) };
    store.prune(Moment(0), &everything, 100).unwrap();
    assert_eq!(reads.node_history(&query(quiet)).unwrap().items.len(), 1);
}

pub(in crate::store) fn a_forgotten_node_leaves_its_history_for_a_while(backend: &impl Backend) {
    let mut random = Random(152);
    let (mut store, reads) = backend.open();
    let first = random.node_id();
    let (connected, unknown) = (NodeStateType::Connected, NodeStateType::Unknown);
    let mut changes = Changes::default();
    // It is forgotten and joins again, under its ID.
    changes.events.extend([
        event(first, 1, 1, connected),
        event(first, 2, 2, unknown),
        event(first, 3, 1, connected),
    ]);
    store.put(1, &changes, &[]).unwrap();
    assert_eq!(reads.node_history(&query(first)).unwrap().items, changes.events);

    let mut changes = Changes::default();
    let mut last = random.node_id();
    for half in 1..=FORGOTTEN_NODES_EVENTS / 2 {
        last = random.node_id();
        let seq = 2 + 2 * half;
        changes.events.extend([event(last, seq, 1, connected), event(last, seq + 1, 2, unknown)]);
    }
    store.put(2, &changes, &[]).unwrap();
    let kept: Vec<_> =
        reads.node_history(&query(first)).unwrap().items.iter().map(|event| event.seq).collect();
    assert_eq!(kept, [3], "what it did before it was forgotten is too old");
    assert_eq!(reads.node_history(&query(last)).unwrap().items.len(), 2);
}
