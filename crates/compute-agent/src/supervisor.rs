//! The one owner of this node's executions.
//!
//! It takes whatever messages wait (bounded), hands each to the execution it is about, commits
//! what all of them have become in one transaction, and only then lets effects, reports and
//! answers out: nothing leaves the process before what it claims is on disk. A commit that fails,
//! on a full disk for instance, is tried again while everything waits and every task runs on.
//!
//! It is plain synchronous code on a thread of its own, so that a commit blocks nobody else. An
//! execution costs a few hundred bytes here besides its specification; of finished ones at most
//! [`MAX_FINISHED`] are kept.

pub(crate) mod mailbox;
mod queries;
mod reconcile;
mod slot;
pub(crate) mod sweep;
mod turn;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use api_types::execution::{ComputeState, DesiredState};
use api_types::protocol::{Acknowledgement, Assignment, FailureCause, Report, Work};
use api_types::quantity::Resources;
use api_types::{ExecutionId, Timestamp};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use crate::admission::Admission;
use crate::clock;
use crate::execution::{Effect, Event, Execution, Phase};
use crate::ledger::{Contents, Ledger};
use crate::outbox::Outbox;
use crate::steps::{Step, Steps};

use mailbox::WeakMailbox;
pub(crate) use mailbox::{Found, Mailbox, Message, Usage};
use slot::Slot;
use turn::Turn;

/// Messages that go into one commit; the others wait for the next.
const MAX_MESSAGES_PER_TURN: usize = 1024;

/// Finished executions that are remembered with their directories; beyond it the oldest goes
/// before its time.
const MAX_FINISHED: usize = 1000;

/// Between tries to write the ledger.
const COMMIT_RETRY: Duration = Duration::from_secs(1);

pub(crate) struct Supervisor {
    ledger: Ledger,
    table: HashMap<ExecutionId, Slot>,
    /// Done, and every report acknowledged; by the time of their end.
    finished: BTreeSet<(Timestamp, ExecutionId)>,
    /// Reports about executions that this node never had, until they are acknowledged.
    strangers: BTreeSet<ExecutionId>,
    /// Of the next report.
    next_position: u64,
    capacity: Resources,
    retain: Duration,
    outbox: Arc<Outbox>,
    steps: Arc<Steps>,
    mailbox: WeakMailbox,
}

/// What the supervisor is made from, besides the ledger.
pub(crate) struct Parts {
    pub(crate) capacity: Resources,
    pub(crate) retain: Duration,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) steps: Arc<Steps>,
    pub(crate) mailbox: Mailbox,
}

// === impl Supervisor ===

impl Supervisor {
    pub(crate) fn new(ledger: Ledger, contents: Contents, parts: Parts) -> Self {
        let Parts { capacity, retain, outbox, steps, mailbox } = parts;
        let mut table: HashMap<_, _> = contents
            .executions
            .into_iter()
            .map(|execution| (execution.id, Slot::new(execution)))
            .collect();
        let mut strangers = BTreeSet::new();
        for stored in &contents.reports {
            let id = stored.report.execution_id;
            match table.get_mut(&id) {
                Some(slot) => slot.unacknowledged += 1,
                None => drop(strangers.insert(id)),
            }
        }
        let next_position = contents.reports.last().map_or(1, |last| last.position + 1);
        let finished = table.values().filter_map(Slot::finished).collect();
        outbox.push(contents.reports);
        Self {
            ledger,
            table,
            finished,
            strangers,
            next_position,
            capacity,
            retain,
            outbox,
            steps,
            mailbox: mailbox.downgrade(),
        }
    }

    /// Takes up what was under way, then serves messages until it is told to stop.
    pub(crate) fn run(mut self, mut messages: mpsc::Receiver<Message>) {
        if !self.resume() {
            return;
        }
        let mut waiting = Vec::with_capacity(MAX_MESSAGES_PER_TURN);
        while messages.blocking_recv_many(&mut waiting, MAX_MESSAGES_PER_TURN) > 0 {
            let now = clock::now();
            let mut turn = Turn::default();
            for message in waiting.drain(..) {
                self.take(message, now, &mut turn);
            }
            let stops = turn.stops;
            if !self.end(turn, now) || stops {
                return;
            }
        }
    }

    fn resume(&mut self) -> bool {
        let now = clock::now();
        let mut turn = Turn::default();
        let mut ids: Vec<_> = self.table.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            let Some(slot) = self.table.get_mut(&id) else { continue };
            let before = slot.execution.phase.word();
            let effects = slot.execution.resume(now);
            if !effects.is_empty() {
                info!(execution = %id, phase = before, "taking up an execution again");
                self.take_effects(id, effects, &mut turn);
            }
        }
        self.end(turn, now)
    }

    fn take(&mut self, message: Message, now: Timestamp, turn: &mut Turn) {
        match message {
            Message::Snapshot(assignments) => self.reconcile(assignments, now, turn),
            Message::Change(assignment) => self.assign(*assignment, now, turn),
            Message::Event(id, event) => self.event(id, event, now, turn),
            Message::Acknowledged(acknowledged) => self.acknowledge(acknowledged, turn),
            Message::Tick => {}
            Message::Usage(answer) => turn.answer(answer, self.usage()),
            Message::List(answer) => turn.answer(answer, self.list()),
            Message::Find(prefix, answer) => turn.answer(answer, self.find(&prefix)),
            Message::Leftovers(found, answer) => turn.answer(answer, self.leftovers(found)),
            Message::Stop => turn.stops = true,
        }
    }

    /// The snapshot is all that is desired: the rest is no longer wanted.
    fn reconcile(&mut self, assignments: Vec<Assignment>, now: Timestamp, turn: &mut Turn) {
        let held = self.table.values().map(|slot| (slot.execution.id, &slot.execution.phase));
        for id in reconcile::unwanted(held, &assignments) {
            info!(execution = %id, "an execution is no longer wanted");
            let message = "no longer wanted by the orchestrator".to_owned();
            self.event(id, Event::Desired { state: DesiredState::Stopped, message }, now, turn);
        }
        for assignment in assignments {
            let id = assignment.execution_id;
            self.assign(assignment, now, turn);
            if let Some(slot) = self.table.get_mut(&id)
                && slot.execution.phase.is_done()
                && slot.unacknowledged == 0
            {
                let effects = slot.execution.repeat_outcome();
                self.take_effects(id, effects, turn);
            }
        }
    }

    fn assign(&mut self, assignment: Assignment, now: Timestamp, turn: &mut Turn) {
        let Assignment { execution_id: id, desired_state: state, compute_state, message, work } =
            assignment;
        let message = match state {
            DesiredState::Stopped if message.is_empty() => "stopped".to_owned(),
            _ => message,
        };
        if self.table.contains_key(&id) {
            return self.event(id, Event::Desired { state, message }, now, turn);
        }
        let was_offered_only = matches!(compute_state, ComputeState::New | ComputeState::AskForBid);
        match (state, work) {
            (DesiredState::Stopped, _) => {
                self.disown(id, ComputeState::Cancelled, message, turn);
            }
            (DesiredState::Pending | DesiredState::Running, Some(work)) if was_offered_only => {
                self.offer(id, work, now, turn);
                self.event(id, Event::Desired { state, message }, now, turn);
            }
            // It may have run here already: only another execution can be sure to run once.
            (DesiredState::Pending | DesiredState::Running, _) => {
                warn!(execution = %id, "an execution that this node has no record of is wanted");
                let message = "its node has no record of it, and does not run it a second time";
                self.disown(id, ComputeState::Failed, message.to_owned(), turn);
            }
        }
    }

    fn offer(&mut self, id: ExecutionId, work: Work, now: Timestamp, turn: &mut Turn) {
        let decision = self.admission(&work);
        if let Err(reason) = &decision {
            info!(execution = %id, reason, "declining an execution");
        }
        let work = Arc::new(work);
        let (execution, effects) = Execution::offered(id, work.clone(), decision, now);
        self.table.insert(id, Slot::new(execution));
        turn.batch.admitted.push((id, work));
        self.take_effects(id, effects, turn);
    }

    /// Tells how things stand with an execution that this node does not have.
    fn disown(&mut self, id: ExecutionId, state: ComputeState, message: String, turn: &mut Turn) {
        if !self.strangers.insert(id) {
            return;
        }
        let report = Report {
            execution_id: id,
            sequence: 1,
            compute_state: state,
            message,
            cause: FailureCause::Node,
            run_output: None,
            published_result: None,
        };
        self.store_report(report, turn);
    }

    fn admission(&self, work: &Work) -> Result<(), String> {
        let Steps { engines, sources, publishers, .. } = &*self.steps;
        let admission = Admission { engines, sources, publishers, capacity: self.capacity };
        admission.decide(work, &engines.available().borrow())
    }

    fn event(&mut self, id: ExecutionId, event: Event, now: Timestamp, turn: &mut Turn) {
        let Some(slot) = self.table.get_mut(&id) else {
            return debug!(execution = %id, ?event, "an event about an execution that is forgotten");
        };
        let (phase, desired) = (slot.execution.phase.word(), slot.execution.desired);
        let effects = slot.execution.handle(event, now);
        let execution = &slot.execution;
        if execution.phase.word() != phase {
            debug!(execution = %id, from = phase, to = execution.phase.word(), "phase");
            if let Phase::Done { state, message, .. } = &execution.phase {
                info!(execution = %id, ?state, message, "an execution is done");
            }
        }
        // What changes nothing costs no row.
        if !effects.is_empty() || execution.phase.word() != phase || execution.desired != desired {
            self.take_effects(id, effects, turn);
        }
    }

    fn take_effects(&mut self, id: ExecutionId, effects: Vec<Effect>, turn: &mut Turn) {
        turn.touched.insert(id);
        for effect in effects {
            match effect {
                Effect::Report(report) => self.store_report(*report, turn),
                other => turn.effects.push((id, other)),
            }
        }
    }

    fn store_report(&mut self, report: Report, turn: &mut Turn) {
        if let Some(slot) = self.table.get_mut(&report.execution_id) {
            slot.unacknowledged += 1;
            self.finished.remove(&slot.finished_key());
        }
        turn.store(self.next_position, report);
        self.next_position += 1;
    }

    fn acknowledge(&mut self, acknowledged: Vec<Acknowledgement>, turn: &mut Turn) {
        for Acknowledgement { execution_id, .. } in &acknowledged {
            match self.table.get_mut(execution_id) {
                Some(slot) => {
                    slot.unacknowledged = slot.unacknowledged.saturating_sub(1);
                    self.finished.extend(slot.finished());
                }
                None => drop(self.strangers.remove(execution_id)),
            }
        }
        turn.batch.acknowledged.extend(acknowledged);
    }

    /// Commits the turn and lets its effects out. Answers whether the agent goes on.
    fn end(&mut self, mut turn: Turn, now: Timestamp) -> bool {
        self.retire(now, &mut turn);
        for id in std::mem::take(&mut turn.touched) {
            if let Some(slot) = self.table.get(&id) {
                turn.batch.changed.insert(id, slot.execution.clone());
            }
        }
        if !turn.batch.is_empty() {
            while let Err(failure) = self.ledger.commit(&turn.batch) {
                if self.steps.tasks.stopping().is_cancelled() {
                    return false;
                }
                error!(
                    error = &failure as &dyn std::error::Error,
                    "the ledger cannot be written; nothing goes on until it can"
                );
                std::thread::sleep(COMMIT_RETRY);
            }
        }
        self.outbox.push(std::mem::take(&mut turn.batch.reports));
        for (id, effect) in std::mem::take(&mut turn.effects) {
            self.carry_out(id, effect);
        }
        if !turn.batch.forgotten.is_empty() {
            sweep::remove_directories(&self.steps, std::mem::take(&mut turn.batch.forgotten));
        }
        turn.release();
        true
    }

    /// Forgets finished executions that are too old or too many.
    fn retire(&mut self, now: Timestamp, turn: &mut Turn) {
        while let Some((finished_at, id)) = self.finished.first().copied() {
            if self.finished.len() <= MAX_FINISHED && now.since(finished_at) < self.retain {
                break;
            }
            self.finished.pop_first();
            self.table.remove(&id);
            turn.batch.forgotten.push(id);
        }
    }

    fn carry_out(&mut self, id: ExecutionId, effect: Effect) {
        let Some(slot) = self.table.get_mut(&id) else { return };
        let Some(mailbox) = self.mailbox.upgrade() else { return };
        let step = Step { id, work: slot.execution.work.clone(), mailbox };
        match effect {
            // Reports went to the outbox.
            Effect::Report(_) => {}
            Effect::Prepare => {
                slot.cancel = CancellationToken::new();
                self.steps.prepare(step, slot.cancel.clone());
            }
            Effect::CancelPrepare => slot.cancel.cancel(),
            Effect::Start => self.steps.start(step),
            Effect::Watch { deadline } => self.steps.watch(step, deadline),
            Effect::Stop => self.steps.stop(step),
            Effect::Collect => self.steps.collect(step),
            Effect::Discard => self.steps.discard(step),
        }
    }
}

#[cfg(test)]
mod tests;
