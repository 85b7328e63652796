//! Executions of a job: four orders, both directions, and the rows that belong to each.

use api_types::engine::PublisherType;
use api_types::execution::{ComputeState, PublishedResult};
use api_types::job::JobType;
use api_types::{ExecutionId, Timestamp};
use scheduler::change::{Changes, ExecutionRow, OutputRow};
use scheduler::slots::Slots;

use super::outputs::{output, published};
use super::samples::{Put, Random, Sample};
use super::{Backend, Reads};
use crate::store::{
    CompletedResult, ExecutionOrder, ExecutionPosition, ExecutionQuery, ResultPosition,
    ResultQuery, StoreError, StoredExecution,
};

fn random_execution(random: &mut Random, sample: &Sample, index: u32) -> ExecutionRow {
    let mut row = sample.execution(random, index);
    row.create_time = Timestamp(i64::try_from(random.below(8)).unwrap());
    row.modify_time = Timestamp(i64::try_from(random.below(8)).unwrap());
    row.compute = *random.pick(&ComputeState::ALL);
    row
}

fn walk(reads: &dyn Reads, query: &ExecutionQuery) -> Vec<ExecutionId> {
    let mut query = query.clone();
    let mut ids = Vec::new();
    loop {
        let page = reads.executions(&query).unwrap();
        assert!(page.items.len() == query.limit as usize || !page.more);
        ids.extend(page.items.iter().map(|execution| execution.row.id));
        match page.items.last() {
            Some(StoredExecution { row, .. }) if page.more => {
                let key = query.order.key(row);
                query.after = Some(ExecutionPosition { key, id: row.id });
            }
            _ => return ids,
        }
    }
}

pub(in crate::store) fn executions_are_listed_in_every_order(backend: &impl Backend) {
    let mut random = Random(30);
    let (sample, other) = (Sample::job(&mut random), Sample::job(&mut random));
    let mut changes = sample.changes();
    other.add_to(&mut changes);
    let mut rows: Vec<_> = (0..80).map(|n| random_execution(&mut random, &sample, n % 9)).collect();
    let alien = random_execution(&mut random, &other, 0);
    for row in rows.iter().chain([&alien]) {
        changes.executions.insert(row.id, row.clone());
    }
    let (mut store, reads) = backend.open();
    store.put(1, &changes, &[]).unwrap();
    for order in [
        ExecutionOrder::ModifyTime,
        ExecutionOrder::CreateTime,
        ExecutionOrder::Id,
        ExecutionOrder::State,
    ] {
        rows.sort_unstable_by_key(|row| (order.key(row), row.id));
        let mut expected: Vec<_> = rows.iter().map(|row| row.id).collect();
        for reverse in [false, true] {
            for limit in [1, 13, 80, 100] {
                let job = sample.id();
                let query = ExecutionQuery {
                    job,
                    order,
                    reverse,
                    states: Vec::new(),
                    slots: None,
                    after: None,
                    limit,
                };
                assert_eq!(walk(reads.as_ref(), &query), expected, "{query:?}");
            }
            expected.reverse();
        }
    }
    let unknown = ExecutionQuery {
        job: random.job_id(),
        order: ExecutionOrder::Id,
        reverse: false,
        states: Vec::new(),
        slots: None,
        after: None,
        limit: 10,
    };
    assert_eq!(reads.executions(&unknown).unwrap().items, []);
}

pub(in crate::store) fn executions_are_filtered_by_slot_and_state(backend: &impl Backend) {
    let mut random = Random(32);
    let sample = Sample::of_type(&mut random, JobType::Batch, 40);
    let mut changes = sample.changes();
    let rows: Vec<_> = (0..80).map(|n| random_execution(&mut random, &sample, n % 40)).collect();
    changes.executions.extend(rows.iter().map(|row| (row.id, row.clone())));
    let (mut store, reads) = backend.open();
    store.put(1, &changes, &[]).unwrap();
    for text in ["", "7", "0-39", "3,17,30-99", "1000"] {
        let slots: Slots = text.parse().unwrap();
        for states in [vec![], vec![ComputeState::Failed, ComputeState::Completed]] {
            let is_found = |row: &&ExecutionRow| {
                slots.contains(row.index) && (states.is_empty() || states.contains(&row.compute))
            };
            let mut expected: Vec<_> = rows.iter().filter(is_found).map(|row| row.id).collect();
            expected.sort_unstable();
            let query = ExecutionQuery {
                job: sample.id(),
                order: ExecutionOrder::Id,
                reverse: false,
                states: states.clone(),
                slots: Some(slots.clone()),
                after: None,
                limit: 7,
            };
            assert_eq!(walk(reads.as_ref(), &query), expected, "{text} {states:?}");
        }
    }
}

pub(in crate::store) fn executions_carry_their_output_and_results(backend: &impl Backend) {
    let mut random = Random(31);
    let sample = Sample::job(&mut random);
    let mut row = sample.execution(&mut random, 0);
    let successor = random.execution_id();
    let (mut store, reads) = backend.open();
    let mut changes = sample.changes();
    changes.executions.insert(row.id, row.clone());
    store.put(1, &changes, &[]).unwrap();
    let mut expected = StoredExecution {
        row: row.clone(),
        next: None,
        run_output: None,
        usage: None,
        published_result: None,
    };
    assert_eq!(reads.execution(row.id).unwrap(), Some(expected.clone()));

    row.compute = ComputeState::Completed;
    let mut changes = Changes::default();
    changes.executions.insert(row.id, row.clone());
    changes.outputs.push(output(row.id, "hello\0world"));
    changes.successors.push((row.id, successor));
    store.put(2, &changes, &[]).unwrap();
    let OutputRow { run_output, usage, published_result, .. } = output(row.id, "hello\0world");
    expected = StoredExecution {
        row: row.clone(),
        next: Some(successor),
        run_output,
        usage,
        published_result,
    };
    assert_eq!(reads.execution(row.id).unwrap(), Some(expected.clone()));

    // A later change of the record leaves unmentioned parts alone.
    row.revision += 1;
    expected.row.revision += 1;
    let mut changes = Changes::default();
    changes.executions.insert(row.id, row.clone());
    store.put(3, &changes, &[]).unwrap();
    assert_eq!(reads.execution(row.id).unwrap(), Some(expected.clone()));
    let query = ExecutionQuery {
        job: sample.id(),
        order: ExecutionOrder::ModifyTime,
        reverse: false,
        states: Vec::new(),
        slots: None,
        after: None,
        limit: 1,
    };
    assert_eq!(reads.executions(&query).unwrap().items, [expected]);
    assert_eq!(reads.execution(successor).unwrap(), None);

    let mut changes = Changes::default();
    changes.outputs.push(output(successor, "of an execution that is not stored"));
    let refused = store.put(4, &changes, &[]);
    assert!(matches!(refused, Err(StoreError::Record { .. })), "{refused:?}");
}

pub(in crate::store) fn results_are_listed_by_slot(backend: &impl Backend) {
    let mut random = Random(32);
    let (sample, other) = (Sample::job(&mut random), Sample::job(&mut random));
    let mut changes = sample.changes();
    other.add_to(&mut changes);
    let mut expected = Vec::new();
    for n in 0..40 {
        let row = random_execution(&mut random, &sample, n % 6);
        let published_result = match n % 4 {
            0 => None,
            1 => Some(PublishedResult::default()),
            _ => {
                expected.push((row.index, row.create_time, row.id, published(&n.to_string())));
                Some(published(&n.to_string()))
            }
        };
        changes.outputs.push(OutputRow {
            id: row.id,
            run_output: None,
            tail: None,
            usage: None,
            curve: None,
            published_result,
        });
        changes.executions.insert(row.id, row);
    }
    let alien = random_execution(&mut random, &other, 0);
    changes.outputs.push(output(alien.id, "alien"));
    changes.executions.insert(alien.id, alien);
    let (mut store, reads) = backend.open();
    store.put(1, &changes, &[]).unwrap();

    expected.sort_unstable_by_key(|(index, create_time, id, _)| (*index, *create_time, *id));
    for limit in [1, 7, 20, 100] {
        let mut query = ResultQuery { job: sample.id(), after: None, limit };
        let mut found = Vec::new();
        loop {
            let page = reads.results(&query).unwrap();
            assert!(page.items.len() == limit as usize || !page.more);
            query.after = page.items.last().map(|result| result.position);
            found.extend(page.items.into_iter().map(|stored| {
                let ResultPosition { index, create_time, id } = stored.position;
                assert_eq!(stored.result.publisher_type, PublisherType::S3);
                (index, create_time, id, stored.result)
            }));
            if !page.more {
                break;
            }
        }
        assert_eq!(found, expected);
    }
}

pub(in crate::store) fn of_a_slot_the_completed_execution_has_the_results(backend: &impl Backend) {
    let mut random = Random(33);
    let sample = Sample::job(&mut random);
    let mut changes = sample.changes();
    let mut expected = Vec::new();
    for n in 0..12 {
        let mut row = random_execution(&mut random, &sample, n / 2);
        row.compute = match n % 2 {
            0 => ComputeState::Failed,
            _ => ComputeState::Completed,
        };
        // One that completed and published nothing, and one that failed alone.
        let published_result = (n != 3).then(|| published(&n.to_string()));
        if n == 5 {
            row.compute = ComputeState::Failed;
        } else if let Some(result) = published_result.clone().filter(|_| n % 2 == 1) {
            let ExecutionRow { index, id, node, version, .. } = row;
            expected.push(CompletedResult { index, id, node, version, result });
        }
        changes.outputs.push(OutputRow {
            id: row.id,
            run_output: None,
            tail: None,
            usage: None,
            curve: None,
            published_result,
        });
        changes.executions.insert(row.id, row);
    }
    let (mut store, reads) = backend.open();
    store.put(1, &changes, &[]).unwrap();
    let of = |index, limit| reads.completed_results(sample.id(), index, limit).unwrap();
    assert_eq!(of(None, 100), expected);
    assert_eq!(of(None, 2), expected[..2]);
    assert_eq!(of(Some(0), 100), expected[..1]);
    assert_eq!(of(Some(1), 100), []);
    assert_eq!(of(Some(2), 100), []);
}
