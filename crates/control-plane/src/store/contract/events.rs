//! The events of all jobs: filters, pages, gaps, and lookup by time.

use api_types::execution::ComputeState;
use api_types::history::EventType;
use api_types::job::JobStateType;
use api_types::{JobId, Timestamp};
use scheduler::change::{Changes, EventRow, EventSubject};
use scheduler::time::Moment;

use super::samples::{Put, Random, Sample};
use super::{Backend, load};
use crate::store::{
    EventEntry, EventsPage, EventsQuery, HistoryQuery, Namespaces, Reads, Retention, Store,
};

const EVENTS: u64 = 300;

fn all(limit: u32) -> EventsQuery {
    EventsQuery {
        after: 0,
        job: None,
        namespaces: Namespaces::All,
        event_type: None,
        since: Timestamp::ZERO,
        limit,
    }
}

/// Three jobs in two namespaces, the first of which is finished, with interleaved events.
fn store_events(store: &mut dyn Store, random: &mut Random) -> (Vec<Sample>, Vec<EventRow>) {
    let mut samples: Vec<_> = (0..3).map(|_| Sample::job(random)).collect();
    samples[0].row.live = false;
    samples[0].row.state = JobStateType::Completed;
    samples[0].row.ended_at = Some(Moment(1));
    samples[2].new.namespace = "other".to_owned();
    let mut changes = Changes::default();
    samples.iter().for_each(|sample| sample.add_to(&mut changes));
    for seq in 1..=EVENTS {
        let sample = random.pick(&samples).clone();
        let mut event = sample.event(seq);
        event.time = Timestamp(i64::try_from(seq / 4).unwrap());
        if random.chance(50) {
            event.subject = EventSubject::Execution {
                job: sample.id(),
                id: random.execution_id(),
                node: random.node_id(),
                previous: ComputeState::New,
                new: ComputeState::AskForBid,
            };
        }
        changes.events.push(event);
    }
    store.put(1, &changes, &[]).unwrap();
    (samples, changes.events)
}

/// Every page until the end.
fn walk(reads: &dyn Reads, query: &EventsQuery) -> (Vec<EventEntry>, EventsPage) {
    let mut query = query.clone();
    let mut entries = Vec::new();
    loop {
        let page = reads.events(&query).unwrap();
        assert!(page.entries.len() <= 2 * query.limit as usize + 1);
        assert!(page.through > query.after || !page.more, "it goes on: {page:?}");
        entries.extend(page.entries.iter().cloned());
        query.after = page.through;
        if !page.more {
            return (entries, page);
        }
    }
}

fn matches(query: &EventsQuery, event: &EventRow, namespace_of: impl Fn(JobId) -> String) -> bool {
    let namespace = event.job().map(namespace_of);
    event.seq > query.after
        && event.time >= query.since
        && query.job.is_none_or(|job| Some(job) == event.job())
        && match query.event_type {
            None => event.event_type() != EventType::NodeLevel,
            Some(wanted) => wanted == event.event_type(),
        }
        && match &query.namespaces {
            Namespaces::All => true,
            Namespaces::Only(names) => namespace.is_some_and(|name| names.contains(&name)),
        }
}

pub(in crate::store) fn events_of_all_jobs_are_listed_in_order(backend: &impl Backend) {
    let mut random = Random(110);
    let (mut store, reads) = backend.open();
    assert_eq!(reads.last_event().unwrap(), 0);
    assert_eq!(walk(reads.as_ref(), &all(5)).0, []);
    let (samples, events) = store_events(store.as_mut(), &mut random);
    assert_eq!(reads.last_event().unwrap(), EVENTS);
    let namespace_of = |id| {
        let of = samples.iter().find(|sample| sample.id() == id).unwrap();
        of.new.namespace.clone()
    };
    let mut found = 0;
    for case in 0..144 {
        let query = EventsQuery {
            after: [0, 150][case % 2],
            job: [None, Some(samples[1].id())][case / 2 % 2],
            namespaces: [Namespaces::All, Namespaces::one("other"), Namespaces::one("default")]
                [case / 4 % 3]
                .clone(),
            event_type: [None, Some(EventType::JobLevel), Some(EventType::ExecutionLevel)]
                [case / 12 % 3],
            since: Timestamp([0, 50][case / 36 % 2]),
            limit: [7, 1000][case / 72],
        };
        let expected: Vec<_> = events
            .iter()
            .filter(|event| matches(&query, event, namespace_of))
            .cloned()
            .map(EventEntry::Event)
            .collect();
        let (entries, last) = walk(reads.as_ref(), &query);
        assert_eq!(entries, expected, "{query:?}");
        assert_eq!((last.through, last.job_gone), (EVENTS, false));
        found += entries.len();
    }
    assert!(found > 2000, "the queries find too little to show anything: {found}");
}

/// The events of one removed job leave a gap for every query, because their attributes are no
/// longer known.
pub(in crate::store) fn removed_events_leave_a_gap(backend: &impl Backend) {
    let mut random = Random(111);
    let (mut store, reads) = backend.open();
    let (samples, events) = store_events(store.as_mut(), &mut random);
    let retention = Retention { count: Some(0), age: None };
    // The same while the job is only half removed.
    for rows in [20, 10_000] {
        store.prune(Moment(0), &retention, rows).unwrap();
        for limit in [3, 1000] {
            let (entries, last) = walk(reads.as_ref(), &all(limit));
            assert_eq!(last.through, EVENTS);
            let mut next = 1;
            for entry in &entries {
                match entry {
                    EventEntry::Event(event) => {
                        assert_eq!(*event, events[usize::try_from(next).unwrap() - 1]);
                        assert_ne!(event.job(), Some(samples[0].id()));
                        next += 1;
                    }
                    EventEntry::Gap { from, to } => {
                        assert!(*from == next && from <= to, "{entry:?}");
                        for seq in *from..=*to {
                            let removed = &events[usize::try_from(seq).unwrap() - 1];
                            assert_eq!(removed.job(), Some(samples[0].id()));
                        }
                        next = to + 1;
                    }
                }
            }
            assert_eq!(next, EVENTS + 1);
        }
    }
    let gone = EventsQuery { after: 40, job: Some(samples[0].id()), ..all(10) };
    let page = reads.events(&gone).unwrap();
    assert!(page.job_gone && !page.more);
    assert_eq!(page.entries, [EventEntry::Gap { from: 41, to: EVENTS }]);
    assert_eq!(reads.last_event().unwrap(), EVENTS);

    // The last sequences are not reused after their removal either.
    drop((store, reads));
    let (mut store, reads) = backend.open();
    assert_eq!(load(store.as_mut()).1.last_seq, EVENTS);
    assert_eq!(reads.last_event().unwrap(), EVENTS);
}

/// The wall clock is set forward and back again while events arrive.
pub(in crate::store) fn events_are_found_by_their_time(backend: &impl Backend) {
    const SECOND: i64 = 1_000_000_000;
    let mut random = Random(112);
    let (mut store, reads) = backend.open();
    assert_eq!(reads.position_before(Timestamp(i64::MAX)).unwrap(), 0);
    let samples: Vec<_> = (0..3).map(|_| Sample::job(&mut random)).collect();
    let mut times = [0; 3];
    let mut events: Vec<EventRow> = Vec::new();
    for commit in 1..=60 {
        let mut changes = Changes::default();
        if commit == 1 {
            samples.iter().for_each(|sample| sample.add_to(&mut changes));
        }
        let ahead = if (20..40).contains(&commit) { 1000 * SECOND } else { 0 };
        for _ in 0..5 {
            let seq = events.len() as u64 + 1;
            let of = usize::try_from(random.below(3)).unwrap();
            // Within a job, times never go back.
            times[of] = (ahead + i64::try_from(seq).unwrap() * SECOND / 7).max(times[of]);
            let event = EventRow { time: Timestamp(times[of]), ..samples[of].event(seq) };
            changes.events.push(event.clone());
            events.push(event);
        }
        store.put(commit, &changes, &[]).unwrap();
    }
    for time in (-2..1050).map(|second| Timestamp(second * SECOND + 5)) {
        let position = reads.position_before(time).unwrap();
        let first = events.iter().find(|event| event.time >= time);
        let first = first.map_or(u64::MAX, |event| event.seq);
        assert!(position < first, "{time:?}: {position} and {first}");
        for sample in &samples {
            let of_job = |event: &&EventRow| event.job() == Some(sample.id()) && event.time >= time;
            let expected: Vec<_> = events.iter().filter(of_job).cloned().collect();
            let query = HistoryQuery {
                job: sample.id(),
                since: time,
                event_type: None,
                execution: None,
                node: None,
                after: None,
                limit: 1000,
            };
            assert_eq!(reads.history(&query).unwrap().items, expected, "{time:?}");
        }
    }
    // While no one sets the clock, the position precedes `time` by at most a commit and a second's
    // worth.
    for second in 1..10 {
        let time = Timestamp(second * SECOND);
        let first = events.iter().find(|event| event.time >= time).unwrap().seq;
        assert!(first - reads.position_before(time).unwrap() <= 5 + 2 * 7, "{time:?}");
    }
}
