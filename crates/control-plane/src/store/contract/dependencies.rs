//! Dependencies: what a start loads of them, and that retention keeps what live jobs depend on.

use std::sync::Arc;

use api_types::dependency::{Condition, Dependency, Indexes};
use api_types::job::{JobStateType, JobType};
use api_types::{GraphId, NodeId, Timestamp};
use scheduler::change::{Changes, LiveJobRow, NamedJob, NewGraphRow};
use scheduler::outcomes::{Outcomes, Past, SlotOutcome};
use scheduler::time::Moment;
use uuid::Uuid;

use super::samples::{Put, Random, Sample};
use super::{Backend, load};
use crate::store::{GraphQuery, Namespaces, Removed, Retention, StoredEdge};

const EVERYTHING: Retention = Retention { age: None, count: Some(0) };

pub(in crate::store) fn what_live_jobs_depend_on_is_kept_and_loaded(backend: &impl Backend) {
    let mut random = Random(41);
    let [mut first, mut second, mut waits] = [(); 3].map(|()| Sample::job(&mut random));
    let (mut store, _) = backend.open();
    let mut changes = first.changes();
    second.add_to(&mut changes);
    store.put(1, &changes, &[]).unwrap();
    end(&mut first);
    let named = |job: &Sample, condition| Dependency {
        job_id: job.id(),
        job: "other".to_owned(),
        condition,
        indexes: Indexes::All,
    };
    waits.new.depends_on =
        vec![named(&first, Condition::Completed), named(&second, Condition::Ended)];
    // One ends in the commit that stores what depends on it, the other later.
    let mut changes = waits.changes();
    changes.jobs.insert(first.id(), first.row.clone());
    store.put(2, &changes, &[]).unwrap();
    let over = |job: &Sample| NamedJob {
        id: job.id(),
        state: JobStateType::Completed,
        ended_at: Some(Moment(7)),
        past: None,
    };
    assert_eq!(load(store.as_mut()).1.named, [over(&first)]);
    let asked = [first.id(), random.job_id()].map(|id| (id, Indexes::All));
    assert_eq!(store.named(&asked.into()).unwrap(), [over(&first)]);
    end(&mut second);
    let mut changes = Changes::default();
    changes.jobs.insert(second.id(), second.row.clone());
    store.put(3, &changes, &[]).unwrap();
    let nothing = Removed { count: 0, more: false };
    assert_eq!(store.prune(Moment(100), &EVERYTHING, 1000).unwrap(), nothing);
    drop(store);

    let (mut store, _) = backend.open();
    assert_eq!(load(store.as_mut()).1.named.len(), 2);
    end(&mut waits);
    let mut changes = Changes { released: vec![waits.id()], ..Changes::default() };
    changes.jobs.insert(waits.id(), waits.row.clone());
    let last = store.last_commit().unwrap();
    store.put(last + 1, &changes, &[]).unwrap();
    assert_eq!(load(store.as_mut()).1.named, []);
    let all = Removed { count: 3, more: false };
    assert_eq!(store.prune(Moment(100), &EVERYTHING, 1000).unwrap(), all);
}

pub(in crate::store) fn archives_are_needed_while_a_live_job_depends_on_their_job(
    backend: &impl Backend,
) {
    let mut random = Random(43);
    let [mut first, mut waits] = [(); 2].map(|()| Sample::job(&mut random));
    let rows = [0, 1].map(|index| first.execution(&mut random, index));
    let other = waits.execution(&mut random, 0);
    waits.new.depends_on = vec![Dependency {
        job_id: first.id(),
        job: "first".to_owned(),
        condition: Condition::Completed,
        indexes: Indexes::All,
    }];
    let mut changes = first.changes();
    let all = [&rows[0], &rows[1], &other].map(|row| row.id);
    changes.executions.extend(rows.clone().map(|row| (row.id, row)));
    let (mut store, reads) = backend.open();
    store.put(1, &changes, &[]).unwrap();
    let needed = |node| reads.needed(node, &all).unwrap();
    assert_eq!(needed(rows[0].node), []);
    let mut changes = waits.changes();
    changes.executions.insert(other.id, other.clone());
    end(&mut first);
    changes.jobs.insert(first.id(), first.row.clone());
    store.put(2, &changes, &[]).unwrap();
    // The answer to a node has its own executions only.
    let own: Vec<_> =
        rows.iter().filter(|row| row.node == rows[0].node).map(|row| row.id).collect();
    assert_eq!(needed(rows[0].node), own);
    assert_eq!(needed(NodeId::from_uuid(Uuid::from_u128(1))), []);
    end(&mut waits);
    let mut changes = Changes { released: vec![waits.id()], ..Changes::default() };
    changes.jobs.insert(waits.id(), waits.row.clone());
    store.put(3, &changes, &[]).unwrap();
    assert_eq!(needed(rows[0].node), []);
}

fn end(job: &mut Sample) {
    (job.row.state, job.row.live) = (JobStateType::Completed, false);
    job.row.ended_at = Some(Moment(7));
}

pub(in crate::store) fn what_slots_wait_for_is_kept_and_loaded(backend: &impl Backend) {
    let mut random = Random(43);
    let mut first = Sample::of_type(&mut random, JobType::Batch, 5000);
    let mut waits = Sample::of_type(&mut random, JobType::Batch, 5000);
    let (job_id, job) = (first.id(), "a".to_owned());
    let (condition, indexes) = (Condition::Completed, Indexes::Same);
    waits.new.depends_on = vec![Dependency { job_id, job, condition, indexes }];
    let (mut store, reads) = backend.open();
    let mut changes = first.changes();
    waits.add_to(&mut changes);
    changes.begun.push((waits.id(), Moment(5)));
    store.put(1, &changes, &[]).unwrap();
    let began = |jobs: Vec<LiveJobRow>| {
        let began = jobs.into_iter().filter_map(|job| Some((job.row.id, job.began_at?)));
        began.collect::<Vec<_>>()
    };
    assert_eq!(began(load(store.as_mut()).0), [(waits.id(), Moment(5))]);
    assert_eq!(reads.dependants(first.id(), 9).unwrap(), [waits.id()]);
    assert_eq!(reads.dependants(first.id(), 0).unwrap(), []);
    assert_eq!(reads.dependants(waits.id(), 9).unwrap(), []);

    let mut outcomes = Outcomes::default();
    let mut changes = Changes::default();
    for (index, outcome) in [(3, SlotOutcome::Failed), (4999, SlotOutcome::Completed)] {
        let (number, chunk) = outcomes.record(&first.row.slots, index, outcome);
        changes.outcomes.insert((first.id(), number), chunk.clone());
    }
    end(&mut first);
    changes.jobs.insert(first.id(), first.row.clone());
    store.put(2, &changes, &[]).unwrap();
    drop((store, reads));

    let (mut store, _) = backend.open();
    let past = |indexes| NamedJob {
        id: first.id(),
        state: JobStateType::Completed,
        ended_at: Some(Moment(7)),
        past: (indexes == Indexes::Same)
            .then(|| Arc::new(Past { slots: first.row.slots.clone(), outcomes: outcomes.clone() })),
    };
    assert_eq!(load(store.as_mut()).1.named, [past(Indexes::Same)]);
    for indexes in [Indexes::All, Indexes::Same] {
        assert_eq!(store.named(&[(first.id(), indexes)].into()).unwrap(), [past(indexes)]);
    }
}

pub(in crate::store) fn a_graph_is_described_listed_and_goes_with_the_last_of_its_jobs(
    backend: &impl Backend,
) {
    let mut random = Random(42);
    let [mut first, mut second] = [(); 2].map(|()| Sample::job(&mut random));
    first.new.namespace = "team".to_owned();
    second.new.namespace = "team".to_owned();
    second.new.depends_on = vec![Dependency {
        job_id: first.id(),
        job: "a".to_owned(),
        condition: Condition::Failed,
        indexes: Indexes::Same,
    }];
    let graph = |number: u128, jobs| NewGraphRow {
        id: GraphId::from_uuid(Uuid::from_u128(number)),
        namespace: "team".to_owned(),
        name: format!("graph {number}"),
        create_time: Timestamp(5),
        jobs,
    };
    let mut changes = first.changes();
    second.add_to(&mut changes);
    let jobs = vec![("a".to_owned(), first.id()), ("b".to_owned(), second.id())];
    changes.new_graphs = vec![graph(1, jobs)];
    let (mut store, reads) = backend.open();
    store.put(1, &changes, &[]).unwrap();
    let other = Sample::job(&mut random);
    let mut changes = other.changes();
    changes.new_graphs = vec![graph(2, vec![("a".to_owned(), other.id())])];
    store.put(2, &changes, &[]).unwrap();

    let id = GraphId::from_uuid(Uuid::from_u128(1));
    let stored = reads.graph(id).unwrap().unwrap();
    assert_eq!((stored.name.as_str(), stored.namespace.as_str()), ("graph 1", "team"));
    let names: Vec<_> = stored.jobs.iter().map(|job| (job.name.as_str(), job.job)).collect();
    assert_eq!(names, [("a", first.id()), ("b", second.id())]);
    let edge = StoredEdge {
        from: first.id(),
        to: second.id(),
        condition: Condition::Failed,
        indexes: Indexes::Same,
    };
    assert_eq!(stored.edges, [edge]);

    let mut query = GraphQuery {
        namespaces: Namespaces::one("team".to_owned()),
        name: None,
        after: None,
        limit: 1,
    };
    let page = reads.graphs(&query).unwrap();
    assert_eq!((page.items[0].name.as_str(), page.more), ("graph 2", true));
    query.after = Some(page.items[0].number);
    let page = reads.graphs(&query).unwrap();
    assert_eq!((page.items[0].jobs[&JobStateType::Pending], page.more), (2, false));
    (query.after, query.name) = (None, Some("graph 1".to_owned()));
    assert_eq!(reads.graphs(&query).unwrap().items, page.items);
    query.namespaces = Namespaces::one("other".to_owned());
    assert_eq!(reads.graphs(&query).unwrap().items, []);

    [&mut first, &mut second].into_iter().for_each(end);
    let mut changes = Changes { released: vec![second.id()], ..Changes::default() };
    changes.jobs.extend([(first.id(), first.row.clone()), (second.id(), second.row.clone())]);
    store.put(3, &changes, &[]).unwrap();
    let one = Retention { age: None, count: Some(1) };
    store.prune(Moment(100), &one, 1000).unwrap();
    assert_eq!(reads.graph(id).unwrap().unwrap().jobs.len(), 1);
    store.prune(Moment(100), &EVERYTHING, 1000).unwrap();
    assert_eq!(reads.graph(id).unwrap(), None);
    query.namespaces = Namespaces::All;
    assert_eq!(reads.graphs(&query).unwrap().items, []);
}
