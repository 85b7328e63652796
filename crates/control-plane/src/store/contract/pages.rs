//! A page is bounded in bytes as well as in rows.

use scheduler::change::Changes;

use super::samples::{Put, Random, Sample};
use super::{Backend, Store};
use crate::store::page::PAGE_BYTES;
use crate::store::{
    ExecutionOrder, ExecutionPosition, ExecutionQuery, JobPosition, JobQuery, LiveExecutionsQuery,
    Namespaces,
};

/// Five of these, with their texts, are more than a page.
const LARGE: usize = PAGE_BYTES / 4;

/// Stores eleven jobs with large specifications, one by one.
fn put_large_jobs(store: &mut dyn Store, random: &mut Random) -> Vec<Sample> {
    let jobs = (1..=11).map(|number| {
        let mut sample = Sample::job(random);
        sample.new.spec_json = "x".repeat(LARGE).into();
        store.put(number, &sample.changes(), &[]).unwrap();
        sample
    });
    jobs.collect()
}

pub(in crate::store) fn a_page_of_large_jobs_ends_early_and_the_next_continues(
    backend: &impl Backend,
) {
    let (mut store, reads) = backend.open();
    put_large_jobs(store.as_mut(), &mut Random(150));
    let mut query = JobQuery { limit: 1000, ..JobQuery::default() };
    let mut pages = Vec::new();
    let mut found = Vec::new();
    loop {
        let page = reads.jobs(&query).unwrap();
        pages.push(page.items.len());
        found.extend(page.items.iter().map(|job| job.id));
        query.after =
            page.items.last().map(|job| JobPosition { time: job.create_time, id: job.id });
        if !page.more {
            break;
        }
    }
    assert_eq!(pages, [5, 5, 1]);
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len(), 11);
}

pub(in crate::store) fn a_page_of_executions_with_much_text_ends_early_and_the_next_continues(
    backend: &impl Backend,
) {
    let mut random = Random(151);
    let (mut store, reads) = backend.open();
    let sample = Sample::job(&mut random);
    store.put(1, &sample.changes(), &[]).unwrap();
    for (number, index) in (2..).zip(0..11) {
        let mut row = sample.execution(&mut random, index);
        row.compute_message = "x".repeat(LARGE).into();
        let mut changes = Changes::default();
        changes.executions.insert(row.id, row);
        store.put(number, &changes, &[]).unwrap();
    }
    let order = ExecutionOrder::Id;
    let mut query = ExecutionQuery {
        job: sample.id(),
        order,
        reverse: false,
        states: Vec::new(),
        slots: None,
        after: None,
        limit: 1000,
    };
    let mut found = Vec::new();
    let mut pages = 0;
    loop {
        let page = reads.executions(&query).unwrap();
        pages += 1;
        found.extend(page.items.iter().map(|execution| execution.row.id));
        query.after = found.last().map(|id| ExecutionPosition { key: 0, id: *id });
        if !page.more {
            break;
        }
    }
    assert_eq!(pages, 3);
    found.dedup();
    assert_eq!(found.len(), 11);
}

/// Their records have the specifications of their jobs.
pub(in crate::store) fn a_page_of_live_executions_of_large_jobs_ends_early(backend: &impl Backend) {
    let mut random = Random(152);
    let (mut store, reads) = backend.open();
    let jobs = put_large_jobs(store.as_mut(), &mut random);
    let mut changes = Changes::default();
    for sample in &jobs {
        let row = sample.execution(&mut random, 0);
        changes.executions.insert(row.id, row);
    }
    store.put(12, &changes, &[]).unwrap();
    for reverse in [false, true] {
        let namespaces = Namespaces::All;
        let mut query =
            LiveExecutionsQuery { namespaces, node: None, reverse, after: None, limit: 1000 };
        let mut pages = Vec::new();
        loop {
            let page = reads.live_executions(&query).unwrap();
            pages.push(page.items.len());
            assert!(page.items.iter().all(|execution| execution.spec_json.len() == LARGE));
            query.after = page.items.last().map(|execution| execution.number);
            if !page.more {
                break;
            }
        }
        assert_eq!(pages, [5, 5, 1]);
    }
}
