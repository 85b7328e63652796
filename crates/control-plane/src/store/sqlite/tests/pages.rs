//! A page is bounded in bytes as well as in rows.

use scheduler::change::Changes;

use super::{Backend, directory};
use crate::store::contract::{Put, Random, Sample};
use crate::store::sqlite::jobs::PAGE_BYTES;
use crate::store::{ExecutionOrder, ExecutionPosition, ExecutionQuery, JobPosition, JobQuery};

#[test]
fn a_page_of_large_jobs_ends_early_and_the_next_continues() {
    let directory = directory();
    let mut random = Random(150);
    let (mut store, reads) = directory.open();
    let mut changes = Changes::default();
    let large = PAGE_BYTES / 4;
    for _ in 0..11 {
        let mut sample = Sample::job(&mut random);
        sample.new.spec_json = "x".repeat(large).into();
        sample.add_to(&mut changes);
    }
    store.put(1, &changes, &[]).unwrap();
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

#[test]
fn a_page_of_executions_with_much_text_ends_early_and_the_next_continues() {
    let directory = directory();
    let mut random = Random(151);
    let (mut store, reads) = directory.open();
    let sample = Sample::job(&mut random);
    let mut changes = sample.changes();
    for index in 0..11 {
        let mut row = sample.execution(&mut random, index);
        row.compute_message = "x".repeat(PAGE_BYTES / 4).into();
        changes.executions.insert(row.id, row);
    }
    store.put(1, &changes, &[]).unwrap();
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
