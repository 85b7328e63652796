//! The writes of each transaction, and the effect of a crash before them.

use alloc::vec;
use core::time::Duration;

use api_types::quantity::Resources;
use api_types::testing::{execution_id, plain_work};

use super::*;
use crate::boot::BootId;
use crate::execution::{Collected, Exit, Publishing};

const NOW: Now = Now { time: Timestamp(1), boot_id: BootId::UNKNOWN };

/// A core, and what its ledger holds.
struct Node {
    core: NodeState,
    ledger: Contents,
}

impl Node {
    fn restored(ledger: Contents) -> Self {
        let capacity = Resources { cpu_millis: 4000, memory_bytes: 1 << 40, ..Resources::ZERO };
        let limits = Limits { capacity, retain: Duration::from_secs(60), retain_bytes: u64::MAX };
        let core = NodeState::restore(&ledger, limits);
        Self { core, ledger }
    }

    /// A core that has accepted the execution, with the acceptance acknowledged.
    fn with_one_accepted() -> Self {
        let mut node = Self::restored(Contents::default());
        node.take(Input::Change(Box::new(assignment(DesiredState::Pending))), false);
        let sequence = node.ledger.reports[0].report.sequence;
        let execution_id = execution_id(1);
        node.take(Input::Acknowledged(vec![Acknowledgement { execution_id, sequence }]), true);
        node
    }

    /// What the ledger holds about the execution after the transaction, and the effects.
    fn take(&mut self, input: Input, settles: bool) -> (&'static str, Vec<Effect>) {
        let mut transaction = Transaction::default();
        self.core.take(input, &|_| Ok(()), NOW, &mut transaction);
        self.core.close(NOW.time, settles, &mut transaction);
        self.ledger.apply(&transaction.batch);
        let written = self.ledger.executions[0].phase.word();
        (written, transaction.effects.into_iter().map(|(_, effect)| effect).collect())
    }

    fn crashed(self) -> Self {
        Self::restored(self.ledger)
    }
}

fn assignment(desired_state: DesiredState) -> Assignment {
    Assignment {
        execution_id: execution_id(1),
        desired_state,
        compute_state: ComputeState::AskForBid,
        message: String::new(),
        work: Some(plain_work()),
    }
}

fn run_order() -> Input {
    Input::Change(Box::new(assignment(DesiredState::Running)))
}

#[test]
fn the_order_to_run_is_written_with_the_next_commit() {
    let mut node = Node::with_one_accepted();
    assert_eq!(node.take(run_order(), false), ("Accepted", vec![Effect::Prepare]));
    let prepared = Input::Event(execution_id(1), Event::Prepared);
    assert_eq!(node.take(prepared, false), ("Starting", vec![Effect::Start]));

    let mut node = Node::with_one_accepted();
    node.take(run_order(), false);
    assert_eq!(node.take(Input::Acknowledged(Vec::new()), true), ("Preparing", Vec::new()));
}

#[test]
fn an_execution_ordered_to_run_before_a_crash_is_ordered_again_or_leaves_nothing() {
    let crashed = || {
        let mut node = Node::with_one_accepted();
        node.take(run_order(), false);
        node.crashed()
    };
    let mut node = crashed();
    let known = ComputeState::AskForBidAccepted;
    let wanted = Assignment { compute_state: known, ..assignment(DesiredState::Running) };
    let snapshot = Input::Snapshot(NOW.time, vec![wanted]);
    assert_eq!(node.take(snapshot, false), ("Accepted", vec![Effect::Prepare]));

    let mut node = crashed();
    let nothing_wanted = Input::Snapshot(NOW.time, Vec::new());
    assert_eq!(node.take(nothing_wanted, false), ("Cancelled", vec![Effect::Discard]));
}

#[test]
fn what_a_process_held_is_free_when_it_has_ended_and_the_disk_when_its_results_are_published() {
    let mut node = Node::with_one_accepted();
    let mut work = plain_work();
    work.resources.disk = 1000;
    work.resources.gpu = 1;
    let offer = Assignment {
        execution_id: execution_id(2),
        work: Some(work),
        ..assignment(DesiredState::Running)
    };
    node.core.limits.capacity.gpus = 1;
    let steps = [
        Event::Prepared,
        Event::Started { at: NOW.time, remark: None },
        Event::Exited(Exit::default()),
    ];
    node.take(Input::Change(Box::new(offer)), true);
    let (before, free_gpus) = (node.core.usage().used, node.core.free_gpus(1));
    assert!(before.disk_bytes == 1000 && before.gpus == 1 && free_gpus.is_err(), "{before:?}");
    for event in steps {
        node.take(Input::Event(execution_id(2), event), true);
    }
    let Resources { cpu_millis, disk_bytes, gpus, .. } = node.core.usage().used;
    assert_eq!((cpu_millis, disk_bytes, gpus), (500, 1000, 0), "the other one waits to run");
    assert_eq!(node.core.free_gpus(1), Ok(vec![0]));
    let collected = Event::Collected(Box::default());
    node.take(Input::Event(execution_id(2), collected), true);
    assert_eq!(node.core.usage().used.disk_bytes, 0);
}

#[test]
fn a_finished_execution_keeps_no_specification() {
    let mut node = Node::with_one_accepted();
    let mut work = plain_work();
    work.task.env.insert("LARGE".to_owned(), "x".repeat(10_000));
    let offer = Assignment {
        execution_id: execution_id(2),
        work: Some(work),
        ..assignment(DesiredState::Running)
    };
    let kept = |node: &Node| node.core.execution(execution_id(2)).unwrap().work.task.env.len();
    node.take(Input::Change(Box::new(offer)), true);
    let failure = crate::execution::Failure::task("no such image");
    node.take(Input::Event(execution_id(2), Event::Failed(failure)), true);
    assert_eq!(kept(&node), 1, "its removal may still need it");
    let reports: Vec<_> = node.ledger.reports.iter().map(|stored| stored.report.clone()).collect();
    let acknowledged = reports.iter().map(|report| Acknowledgement {
        execution_id: report.execution_id,
        sequence: report.sequence,
    });
    node.take(Input::Acknowledged(acknowledged.collect()), true);
    assert_eq!(kept(&node), 0);
    assert_eq!(kept(&node.crashed()), 0);
}

/// Runs a task to its end, with every report acknowledged.
fn finish(node: &mut Node, number: u128, end: Collected, now: Timestamp) {
    let id = execution_id(number);
    let assignment = Assignment { execution_id: id, ..assignment(DesiredState::Running) };
    let steps =
        [Event::Prepared, Event::Started { at: now, remark: None }, Event::Exited(Exit::default())];
    let events = steps.into_iter().chain([Event::Collected(Box::new(end))]);
    let acknowledged =
        (1..=3).map(|sequence| Acknowledgement { execution_id: id, sequence }).collect();
    let inputs = [Input::Change(Box::new(assignment))]
        .into_iter()
        .chain(events.map(|event| Input::Event(id, event)))
        .chain([Input::Acknowledged(acknowledged)]);
    for input in inputs {
        let mut transaction = Transaction::default();
        node.core.take(input, &|_| Ok(()), Now { time: now, ..NOW }, &mut transaction);
        node.core.close(now, true, &mut transaction);
        node.ledger.apply(&transaction.batch);
    }
}

#[test]
fn results_that_could_not_be_published_stay_however_many_executions_finish() {
    let refused = crate::execution::Failure::node("no bucket 'b'");
    let publishing = Publishing::Failed(refused);
    let mut node = Node::restored(Contents::default());
    finish(&mut node, 1, Collected { publishing, ..Collected::default() }, NOW.time);
    let mut node = node.crashed();
    for number in 2..=1 + 1001 {
        finish(&mut node, number, Collected::default(), NOW.time);
    }
    let is_known = |node: &Node, number| node.core.execution(execution_id(number)).is_some();
    assert!(!is_known(&node, 2), "beyond the number");
    assert!(is_known(&node, 1) && is_known(&node, 3));
    let minute = NOW.time + Duration::from_secs(60);
    finish(&mut node, 2000, Collected::default(), minute);
    assert!(!is_known(&node, 1), "expired");
}
