//! Agents that end again and again.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;

use api_types::execution::{ComputeState, DesiredState};
use api_types::protocol::{Assignment, Report};
use api_types::quantity::Resources;
use api_types::testing::{execution_id, plain_work};

use super::*;
use crate::boot::{BootId, Now};
use crate::execution::{Event, Exit};
use crate::ledger::Contents;
use crate::node_state::{Input, Limits, NodeState, Transaction};

/// A node whose processes end from time to time, with everything that outlives them.
struct Node {
    ledger: Contents,
    core: NodeState,
    seconds: u64,
    /// The steps that are under way.
    under_way: Vec<(ExecutionId, Effect)>,
    reports: Vec<Report>,
    starts: u32,
}

impl Node {
    fn new() -> Self {
        let ledger = Contents::default();
        let core = NodeState::restore(&ledger, LIMITS);
        let (under_way, reports) = (Vec::new(), Vec::new());
        let mut node = Self { ledger, core, seconds: 1, under_way, reports, starts: 0 };
        node.start();
        node
    }

    fn now(&self) -> Now {
        let time = Timestamp::ZERO + Duration::from_secs(self.seconds);
        Now { time, boot_id: BootId::UNKNOWN }
    }

    /// A process starts on the ledger, in place of the one before.
    fn start(&mut self) {
        self.starts += 1;
        self.under_way.clear();
        self.core = NodeState::restore(&self.ledger, LIMITS);
        let mut transaction = Transaction::default();
        self.core.open(self.now(), &mut transaction);
        self.core.resume(self.now(), &mut transaction);
        self.finish(transaction);
    }

    fn stop(&mut self) {
        self.core.stop();
        self.finish(Transaction::default());
    }

    fn take(&mut self, input: Input) {
        let mut transaction = Transaction::default();
        self.core.take(input, &|_| Ok(()), self.now(), &mut transaction);
        self.finish(transaction);
    }

    fn finish(&mut self, mut transaction: Transaction) {
        self.core.close(self.now().time, false, &mut transaction);
        self.ledger.apply(&transaction.batch);
        self.reports.extend(transaction.batch.reports.into_iter().map(|stored| stored.report));
        self.under_way.extend(transaction.effects);
    }

    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.seconds += 1;
            self.finish(Transaction::default());
        }
    }

    fn order(&mut self, number: u128, desired_state: DesiredState) {
        self.take(Input::Change(alloc::boxed::Box::new(Assignment {
            execution_id: execution_id(number),
            desired_state,
            compute_state: ComputeState::AskForBid,
            message: String::new(),
            work: Some(plain_work()),
        })));
    }

    fn run(&mut self, number: u128) {
        self.order(number, DesiredState::Pending);
        self.order(number, DesiredState::Running);
    }

    /// Ends one step that is under way.
    fn end_step(&mut self) {
        let (id, effect) = self.under_way.remove(0);
        let event = match effect {
            Effect::Prepare => Event::Prepared,
            Effect::Start => Event::Started { at: self.now().time, remark: None },
            Effect::Watch { .. } => Event::Exited(Exit::default()),
            Effect::Collect { .. } => Event::Collected(Default::default()),
            Effect::Report(_) | Effect::Cancel | Effect::Stop | Effect::Discard => return,
        };
        self.take(Input::Event(id, event));
    }

    fn ids(&self) -> BTreeSet<ExecutionId> {
        self.under_way.iter().map(|(id, _)| *id).collect()
    }

    fn failed(&self) -> Vec<&Report> {
        self.reports.iter().filter(|report| report.compute_state == ComputeState::Failed).collect()
    }
}

const LIMITS: Limits = Limits {
    capacity: Resources { cpu_millis: 1 << 20, memory_bytes: 1 << 50, ..Resources::ZERO },
    retain: Duration::from_secs(3600),
    retain_bytes: u64::MAX,
};

#[test]
fn what_ends_its_agent_is_given_up_by_the_fourth_start_and_all_else_goes_on() {
    // In whichever phase its step is.
    for phase in 0..4 {
        let mut node = Node::new();
        let poison = execution_id(5);
        (1..=9).for_each(|number| node.run(number));
        // An agent that reaches the poisoned step ends.
        let reaches = |node: &Node| {
            node.under_way.iter().position(|(id, effect)| {
                let step = match effect {
                    Effect::Prepare => 0,
                    Effect::Start => 1,
                    Effect::Watch { .. } => 2,
                    Effect::Collect { .. } => 3,
                    _ => 9,
                };
                *id == poison && step == phase
            })
        };
        for _ in 0..1000 {
            if reaches(&node).is_some() {
                node.seconds += 2;
                node.start();
                // The orchestrator repeats its orders.
                (1..=9).for_each(|number| node.order(number, DesiredState::Running));
            } else if node.under_way.is_empty() {
                node.pass(1);
            } else {
                node.end_step();
            }
        }
        assert!(node.starts <= 4, "phase {phase}: {} starts", node.starts);
        let failed = node.failed();
        assert_eq!(failed.len(), 1, "phase {phase}");
        assert_eq!(failed[0].execution_id, poison);
        assert!(failed[0].ended_agent && failed[0].message.contains("nothing but this execution"));
        let completed: BTreeMap<_, _> = node
            .reports
            .iter()
            .filter(|report| report.compute_state == ComputeState::Completed)
            .map(|report| (report.execution_id, report))
            .collect();
        assert_eq!(completed.len(), 8, "phase {phase}");
    }
}

#[test]
fn an_order_that_ends_the_agent_before_it_is_written_is_found_too() {
    let mut node = Node::new();
    node.run(1);
    let mut starts = 1;
    while node.under_way.iter().any(|(_, effect)| *effect == Effect::Prepare) {
        node.seconds += 2;
        node.start();
        starts += 1;
        // The orchestrator repeats its order to one that has only accepted.
        node.order(1, DesiredState::Running);
        assert!(starts <= 4, "never given up");
    }
    assert_eq!(node.failed().len(), 1);
}

#[test]
fn after_two_ends_steps_begin_one_execution_at_a_time() {
    let mut node = Node::new();
    (1..=5).for_each(|number| node.run(number));
    node.start();
    (1..=5).for_each(|number| node.order(number, DesiredState::Running));
    assert_eq!(node.ids().len(), 5, "after one end all go on");
    node.start();
    assert_eq!(node.ids().len(), 1);
    // New work waits as well.
    node.run(6);
    assert_eq!(node.ids().len(), 1);
    let mut seen = BTreeSet::new();
    for _ in 0..200 {
        let steps =
            node.under_way.iter().filter(|(_, effect)| !matches!(effect, Effect::Watch { .. }));
        let ids: BTreeSet<_> = steps.map(|(id, _)| *id).collect();
        assert!(ids.len() <= 1, "{ids:?}");
        seen.extend(ids);
        match node.under_way.iter().position(|(_, effect)| !matches!(effect, Effect::Watch { .. }))
        {
            Some(index) => {
                node.under_way.swap(0, index);
                node.end_step();
            }
            None => node.pass(1),
        }
    }
    assert_eq!(seen.len(), 6);
    assert_eq!(node.ledger.ends.alone, None);
    // From now on as ever.
    node.run(7);
    node.run(8);
    assert!(node.ids().contains(&execution_id(7)) && node.ids().contains(&execution_id(8)));
    assert!(node.failed().is_empty());
}

#[test]
fn a_step_that_takes_long_does_not_hold_up_the_others_for_ever() {
    let mut node = Node::new();
    node.start();
    (1..=3).for_each(|number| node.run(number));
    node.start();
    assert_eq!(node.ids().len(), 1);
    node.pass(59);
    assert_eq!(node.ids().len(), 1);
    node.pass(2);
    assert_eq!(node.ids().len(), 2);
}

#[test]
fn a_stop_and_time_make_earlier_ends_forgotten() {
    let mut node = Node::new();
    (1..=2).for_each(|number| node.run(number));
    node.start();
    (1..=2).for_each(|number| node.order(number, DesiredState::Running));
    node.pass(10 * 60);
    node.start();
    assert_eq!(node.ids().len(), 2, "the first end is long ago");
    node.start();
    assert_eq!(node.ids().len(), 1);
    node.stop();
    node.start();
    assert_eq!(node.ids().len(), 2, "an agent that was stopped ended nothing");
    assert!(node.failed().is_empty());
}

#[test]
fn a_task_that_is_no_longer_wanted_is_cancelled_and_not_failed() {
    let mut node = Node::new();
    node.run(1);
    node.start();
    node.order(1, DesiredState::Running);
    node.start();
    node.order(1, DesiredState::Stopped);
    node.start();
    assert!(node.failed().is_empty());
    let last = node.reports.last().expect("a report");
    assert_eq!(last.compute_state, ComputeState::Cancelled);
}
