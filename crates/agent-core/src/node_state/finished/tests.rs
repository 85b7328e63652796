//! Which finished executions a node forgets first.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use api_types::execution::ComputeState;
use api_types::quantity::Resources;
use api_types::testing::{execution_id, plain_work};

use super::*;
use crate::execution::Execution;

const LIMITS: Limits =
    Limits { capacity: Resources::ZERO, retain: Duration::from_secs(3600), retain_bytes: 1000 };

/// One that ended at the time of its number.
fn slot(number: u128, namespace: &str, unpublished: bool, kept_bytes: u64) -> Slot {
    let mut work = plain_work();
    work.namespace = String::from(namespace);
    let finished_at = Timestamp(number.try_into().unwrap());
    let (mut execution, _) =
        Execution::offered(execution_id(number), Arc::new(work), Ok(Vec::new()), finished_at);
    execution.phase = Phase::Done {
        state: ComputeState::Completed,
        message: String::new(),
        finished_at,
        unpublished,
        kept_bytes: Some(kept_bytes),
        outcome: None,
    };
    Slot::new(execution)
}

/// What is forgotten when all of these are finished, in order.
fn forgotten(slots: impl IntoIterator<Item = Slot>) -> Vec<ExecutionId> {
    let mut finished = Finished::default();
    slots.into_iter().for_each(|mut slot| finished.enter(&mut slot));
    core::iter::from_fn(|| finished.take_expired(Timestamp(5000), &LIMITS)).collect()
}

#[test]
fn empty_programs_of_one_namespace_do_not_remove_the_output_of_another() {
    let good = [slot(1, "good", false, 10)];
    let empty = (2..1012).map(|number| slot(number, "hostile", false, 0));
    let expected: Vec<_> = (2..=12).map(execution_id).collect();
    assert_eq!(forgotten(good.into_iter().chain(empty)), expected);
}

#[test]
fn large_output_of_one_namespace_does_not_remove_the_output_of_another() {
    let slots = [
        slot(1, "good", false, 300),
        slot(2, "hostile", false, 400),
        slot(3, "hostile", false, 400),
    ];
    assert_eq!(forgotten(slots), [execution_id(2)]);
}

#[test]
fn results_that_exist_nowhere_else_go_last() {
    let slots = [
        slot(1, "hostile", true, 600),
        slot(2, "hostile", false, 300),
        slot(3, "good", false, 200),
        slot(4, "hostile", false, 0),
    ];
    assert_eq!(forgotten(slots), [execution_id(2)]);
    let slots = [slot(1, "a", true, 600), slot(2, "a", false, 300), slot(3, "a", true, 600)];
    assert_eq!(forgotten(slots), [execution_id(2), execution_id(1)]);
}

#[test]
fn unpublished_results_are_counted_apart_and_shared_as_well() {
    let plain = (1..=1000).map(|number| slot(number, "hostile", false, 0));
    let unpublished = (1001..=11_001)
        .map(|number| slot(number, if number == 1001 { "good" } else { "hostile" }, true, 0));
    assert_eq!(forgotten(plain.chain(unpublished)), [execution_id(1002)]);
}

#[test]
fn the_retention_time_is_the_same_for_everyone() {
    let mut finished = Finished::default();
    let later = Timestamp(10) + LIMITS.retain;
    for (number, namespace) in [(10, "a"), (11, "b")] {
        finished.enter(&mut slot(number, namespace, true, 0));
    }
    assert_eq!(finished.take_expired(later, &LIMITS), Some(execution_id(10)));
    assert_eq!(finished.take_expired(later, &LIMITS), None);
    assert!(finished.by_namespace.len() == 1 && finished.unpublished_count == 1);
    finished.leave(&slot(11, "b", true, 0));
    assert!(finished.by_namespace.is_empty() && finished.by_end.is_empty());
}
