//! The history of a job: its filters, alone and together, page after page.

use api_types::Timestamp;
use api_types::execution::ComputeState;
use api_types::history::EventType;
use scheduler::change::{Changes, EventRow, EventSubject};

use super::Backend;
use super::samples::{Put, Random, Sample};
use crate::store::{HistoryQuery, Store};

/// Stores jobs with many interleaved events each; returns those of the first.
fn store_events(store: &mut dyn Store, random: &mut Random) -> (Sample, Vec<EventRow>) {
    let samples: Vec<_> = (0..3).map(|_| Sample::job(random)).collect();
    let executions: Vec<_> = (0..4).map(|_| (random.execution_id(), random.node_id())).collect();
    let mut changes = Changes::default();
    samples.iter().for_each(|sample| sample.add_to(&mut changes));
    for seq in 1..=200 {
        let sample = random.pick(&samples).clone();
        let mut event = sample.event(seq);
        event.time = Timestamp(i64::try_from(seq / 4).unwrap());
        if random.chance(70) {
            let (id, node) = *random.pick(&executions);
            event.subject = EventSubject::Execution {
                job: sample.id(),
                id,
                node,
                previous: ComputeState::AskForBidAccepted,
                new: *random.pick(&ComputeState::ALL),
            };
        }
        changes.events.push(event);
    }
    store.put(1, &changes, &[]).unwrap();
    let first = samples[0].clone();
    let events =
        changes.events.into_iter().filter(|event| event.job() == Some(first.id())).collect();
    (first, events)
}

fn matches(query: &HistoryQuery, event: &EventRow) -> bool {
    let (event_type, execution, node) = match event.subject {
        EventSubject::Job { .. } => (EventType::JobLevel, None, None),
        EventSubject::Execution { id, node, .. } => {
            (EventType::ExecutionLevel, Some(id), Some(node))
        }
        EventSubject::Node { node, .. } => (EventType::NodeLevel, None, Some(node)),
    };
    event.time >= query.since
        && query.event_type.is_none_or(|wanted| wanted == event_type)
        && (query.execution.is_none() || query.execution == execution)
        && (query.node.is_none() || query.node == node)
}

pub(in crate::store) fn history_is_filtered_and_paged(backend: &impl Backend) {
    let mut random = Random(40);
    let (mut store, reads) = backend.open();
    let (sample, events) = store_events(store.as_mut(), &mut random);
    let (execution, node) = events
        .iter()
        .find_map(|event| match event.subject {
            EventSubject::Execution { id, node, .. } => Some((id, node)),
            EventSubject::Job { .. } | EventSubject::Node { .. } => None,
        })
        .unwrap();
    let mut found = 0;
    for case in 0..96 {
        let mut query = HistoryQuery {
            job: sample.id(),
            since: Timestamp([0, 25][case % 2]),
            event_type: [None, Some(EventType::JobLevel), Some(EventType::ExecutionLevel)]
                [case / 2 % 3],
            execution: [None, Some(execution)][case / 6 % 2],
            node: [None, Some(node)][case / 12 % 2],
            after: None,
            limit: [1, 5, 50, 1000][case / 24],
        };
        let mut all = Vec::new();
        loop {
            let page = reads.history(&query).unwrap();
            assert!(page.items.len() == query.limit as usize || !page.more);
            query.after = page.items.last().map(|event| event.seq);
            all.extend(page.items);
            if !page.more {
                break;
            }
        }
        let expected: Vec<_> =
            events.iter().filter(|event| matches(&query, event)).cloned().collect();
        assert_eq!(all, expected, "{query:?}");
        found += all.len();
    }
    assert!(found > 500, "the queries find too little to show anything: {found}");
    let unknown = HistoryQuery {
        job: random.job_id(),
        since: Timestamp::ZERO,
        event_type: None,
        execution: None,
        node: None,
        after: None,
        limit: 10,
    };
    assert_eq!(reads.history(&unknown).unwrap().items, []);
}
