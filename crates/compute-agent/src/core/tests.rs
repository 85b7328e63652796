//! What is written when, and what a crash before it costs.

use super::*;
use crate::testing::{execution_id, plain_work};

const NOW: Timestamp = Timestamp(1);

/// A core, and what its ledger holds.
struct Node {
    core: Core,
    ledger: Contents,
}

impl Node {
    fn of(ledger: Contents) -> Self {
        let capacity = Resources { cpu_millis: 4000, memory_bytes: 1 << 40, ..Resources::ZERO };
        let core = Core::restore(&ledger, Limits { capacity, retain: Duration::from_secs(60) });
        Self { core, ledger }
    }

    /// One that has taken the execution on, and was acknowledged.
    fn with_one_accepted() -> Self {
        let mut node = Self::of(Contents::default());
        node.take(Input::Change(Box::new(assignment(DesiredState::Pending))), false);
        let sequence = node.ledger.reports[0].report.sequence;
        let execution_id = execution_id(1);
        node.take(Input::Acknowledged(vec![Acknowledgement { execution_id, sequence }]), true);
        node
    }

    /// What the ledger has the execution as, after the turn, and what is to be done.
    fn take(&mut self, input: Input, settles: bool) -> (&'static str, Vec<Effect>) {
        let mut turn = Turn::default();
        self.core.take(input, &|_| Ok(()), NOW, &mut turn);
        self.core.close(NOW, settles, &mut turn);
        self.ledger.apply(&turn.batch);
        let written = self.ledger.executions[0].phase.word();
        (written, turn.effects.into_iter().map(|(_, effect)| effect).collect())
    }

    fn crashed(self) -> Self {
        Self::of(self.ledger)
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

fn told_to_run() -> Input {
    Input::Change(Box::new(assignment(DesiredState::Running)))
}

#[test]
fn that_it_was_told_to_run_is_written_with_what_comes_next() {
    let mut node = Node::with_one_accepted();
    assert_eq!(node.take(told_to_run(), false), ("Accepted", vec![Effect::Prepare]));
    let prepared = Input::Event(execution_id(1), Event::Prepared);
    assert_eq!(node.take(prepared, false), ("Starting", vec![Effect::Start]));

    let mut node = Node::with_one_accepted();
    node.take(told_to_run(), false);
    assert_eq!(node.take(Input::Acknowledged(Vec::new()), true), ("Preparing", Vec::new()));
}

#[test]
fn an_execution_that_was_told_to_run_before_a_crash_is_told_again_or_leaves_nothing() {
    let crashed = || {
        let mut node = Node::with_one_accepted();
        node.take(told_to_run(), false);
        node.crashed()
    };
    let mut node = crashed();
    let snapshot = Input::Snapshot(NOW, vec![assignment(DesiredState::Running)]);
    assert_eq!(node.take(snapshot, false), ("Accepted", vec![Effect::Prepare]));

    let mut node = crashed();
    let nothing_wanted = Input::Snapshot(NOW, Vec::new());
    assert_eq!(node.take(nothing_wanted, false), ("Cancelled", vec![Effect::Discard]));
}
