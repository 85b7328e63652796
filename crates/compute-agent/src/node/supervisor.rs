//! The only owner of this node's executions.
//!
//! It takes the waiting messages (bounded), passes each to the [`NodeState`], and commits all
//! resulting changes in one transaction. Only then does it release effects, reports and answers:
//! nothing leaves the process before the state it reports is on disk. Records that no message
//! depends on wait for the next commit ([`NodeState::close`]). A failed commit, on a full disk for
//! instance, is retried while messages wait and tasks keep running.
//!
//! It is plain synchronous code on a separate thread, so that a commit blocks no other task.

pub(crate) mod sweep;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_core::execution::{Effect, Phase};
use agent_core::node_state::{Input, Limits, NodeState, Transaction};
use agent_core::{Batch, Contents};
use api_types::protocol::Work;
use api_types::quantity::Resources;
use api_types::{ExecutionId, NodeId};
use daemon::Pulse;
use failpoint::Fault;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::error;

use crate::host::clock;
use crate::node::admission::Admission;
use crate::node::effects::{EffectRunner, ExecutionHandle, Files};
use crate::node::ledger::{Ledger, LedgerError};
use crate::node::outbox::Outbox;

use crate::node::mailbox::{Mailbox, Message, WeakMailbox};
use crate::node::vitals::Vitals;

/// The most messages in one commit; the rest wait for the next.
const MAX_MESSAGES_PER_TURN: usize = 1024;

/// Delay between attempts to write the ledger.
const COMMIT_RETRY: Duration = Duration::from_secs(1);

pub(crate) struct Supervisor {
    ledger: Ledger,
    state: NodeState,
    /// Cancels the fetch of each execution that is being prepared, further attempts to start one that
    /// no one wants any more, and to stop one that has ended.
    cancels: HashMap<ExecutionId, CancellationToken>,
    capacity: Resources,
    outbox: Arc<Outbox>,
    runner: Arc<EffectRunner>,
    mailbox: WeakMailbox,
    pulse: Pulse,
    vitals: Arc<Vitals>,
}

/// The parts of the supervisor, except the ledger.
pub(crate) struct Parts {
    pub(crate) limits: Limits,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) runner: Arc<EffectRunner>,
    pub(crate) mailbox: Mailbox,
    /// Where the supervisor publishes the contents of heartbeats.
    pub(crate) vitals: Arc<Vitals>,
}

/// The contents of one commit.
#[derive(Default)]
struct Round {
    transaction: Transaction,
    /// Answers to queries, sent after the commit.
    answers: Vec<Box<dyn FnOnce()>>,
    /// Also commits records that could wait for a later commit.
    settles: bool,
    stops: bool,
}

// === impl Supervisor ===

impl Supervisor {
    pub(crate) fn new(ledger: Ledger, contents: Contents, parts: Parts) -> Self {
        let Parts { limits, outbox, runner, mailbox, vitals } = parts;
        let state = NodeState::restore(&contents, limits);
        outbox.push(contents.reports);
        Self {
            ledger,
            state,
            cancels: HashMap::new(),
            capacity: limits.capacity,
            outbox,
            runner,
            mailbox: mailbox.downgrade(),
            pulse: Pulse::default(),
            vitals,
        }
    }

    /// Beats in each turn, and with every retry of a ledger write.
    pub(crate) fn pulse(&self) -> Pulse {
        self.pulse.clone()
    }

    /// Resumes interrupted executions, then serves messages until it is asked to stop.
    pub(crate) fn run(mut self, mut messages: mpsc::Receiver<Message>) {
        self.vitals.turn_begins();
        let mut round = Round::default();
        self.state.open(clock::steady_now(), &mut round.transaction);
        self.state.resume(clock::steady_now(), &mut round.transaction);
        if !self.end(round) {
            return;
        }
        self.vitals.turn_ends();
        let mut waiting = Vec::with_capacity(MAX_MESSAGES_PER_TURN);
        while messages.blocking_recv_many(&mut waiting, MAX_MESSAGES_PER_TURN) > 0 {
            self.pulse.beat();
            self.vitals.turn_begins();
            let mut round = Round::default();
            for message in waiting.drain(..) {
                self.take(message, &mut round);
            }
            let stops = round.stops;
            if !self.end(round) || stops {
                return;
            }
            self.vitals.turn_ends();
        }
    }

    fn take(&mut self, message: Message, round: &mut Round) {
        match message {
            Message::Input(input) => {
                if let Input::Acknowledged(reports) = &input {
                    self.runner.observer.acknowledged(reports, clock::now());
                }
                let (runner, capacity) = (&self.runner, self.capacity);
                let admit = |work: &Work| admission(runner, capacity, work);
                self.state.take(input, &admit, clock::steady_now(), &mut round.transaction);
            }
            Message::Tick => {
                self.vitals.publish(self.state.usage());
                round.settles = true;
            }
            Message::Usage(answer) => round.answer(answer, self.state.usage()),
            Message::List(answer) => round.answer(answer, self.state.list(self.node_id())),
            Message::Find(prefix, answer) => {
                round.answer(answer, self.state.find(&prefix, self.node_id()));
            }
            Message::Leftovers(found, answer) => round.answer(answer, self.state.leftovers(found)),
            Message::Stop => {
                self.state.stop();
                round.settles = true;
                round.stops = true;
            }
            Message::Kill => {
                round.settles = true;
                round.stops = true;
            }
        }
    }

    fn node_id(&self) -> NodeId {
        self.ledger.node_id()
    }

    /// Commits the round and releases its effects. Returns whether the agent continues.
    fn end(&mut self, round: Round) -> bool {
        let Round { mut transaction, answers, settles, .. } = round;
        self.state.close(clock::steady(), settles, &mut transaction);
        if !transaction.batch.is_empty() {
            let began = Instant::now();
            while let Err(failure) = self.commit(&transaction.batch) {
                if self.runner.tasks.stopping().is_cancelled() {
                    return false;
                }
                error!(
                    error = &failure as &dyn std::error::Error,
                    "cannot write the ledger; the agent is blocked until it can"
                );
                self.pulse.beat();
                self.vitals.cannot_write(&failure);
                std::thread::sleep(COMMIT_RETRY);
            }
            self.runner.observer.metrics.committed(began.elapsed().as_secs_f64());
            self.observe(&transaction.batch);
        }
        self.outbox.push(transaction.batch.reports);
        for (id, effect) in transaction.effects {
            self.carry_out(id, effect);
        }
        if !transaction.batch.forgotten.is_empty() {
            sweep::forget(&self.runner, transaction.batch.forgotten);
        }
        for answer in answers {
            answer();
        }
        true
    }

    /// Reports committed changes to the observer.
    fn observe(&self, batch: &Batch) {
        let now = clock::now();
        for stored in &batch.reports {
            if let Some(execution) = self.state.execution(stored.report.execution_id) {
                self.runner.observer.reported(&stored.report, &execution.work, now);
            }
        }
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), LedgerError> {
        let refused = || LedgerError::Write(rusqlite::Error::InvalidQuery);
        match failpoint::reach_blocking("ledger.before") {
            None => {}
            Some(Fault::Error) => return Err(refused()),
            Some(Fault::Twice) => self.ledger.commit(batch)?,
        }
        self.ledger.commit(batch)?;
        match failpoint::reach_blocking("ledger.after") {
            Some(Fault::Error) => Err(refused()),
            None | Some(Fault::Twice) => Ok(()),
        }
    }

    fn carry_out(&mut self, id: ExecutionId, effect: Effect) {
        let Some(execution) = self.state.execution(id) else { return };
        let Some(mailbox) = self.mailbox.upgrade() else { return };
        if let (Effect::Watch { .. }, Phase::Running { started_at, .. }) =
            (&effect, &execution.phase)
        {
            self.runner.note_start(id, &execution.work, *started_at);
        }
        let (work, gpus) = (Arc::clone(&execution.work), execution.gpus.clone());
        let handle = ExecutionHandle { id, work, gpus, mailbox };
        match effect {
            // Reports are already in the outbox.
            Effect::Report(_) => {}
            Effect::Prepare => {
                self.runner.observer.run_requested(id, clock::now());
                let cancel = CancellationToken::new();
                self.cancels.insert(id, cancel.clone());
                self.runner.prepare(handle, cancel);
            }
            Effect::Cancel => self.cancel(id),
            Effect::Start => {
                let cancel = CancellationToken::new();
                self.cancels.insert(id, cancel.clone());
                self.runner.start(handle, cancel);
            }
            Effect::Watch { deadline } => self.runner.watch(handle, deadline),
            Effect::Stop => {
                let ended = CancellationToken::new();
                self.cancels.insert(id, ended.clone());
                self.runner.stop(handle, ended);
            }
            Effect::Collect { exit_code } => {
                self.cancel(id);
                self.runner.collect(handle, exit_code);
            }
            Effect::Discard => {
                self.cancel(id);
                self.runner.discard(handle);
            }
        }
    }

    fn cancel(&mut self, id: ExecutionId) {
        if let Some(cancel) = self.cancels.remove(&id) {
            cancel.cancel();
        }
    }
}

/// Whether this node can run it; the reason if not.
fn admission(runner: &EffectRunner, capacity: Resources, work: &Work) -> Result<(), String> {
    let EffectRunner { engines, files: Files { sources, publishers, secrets, .. }, .. } = runner;
    let admission = Admission { engines, sources, publishers, secrets, capacity };
    admission.decide(work, &engines.available().borrow())
}

// === impl Round ===

impl Round {
    /// Sends the answer at the end of the round; the receiver may be gone by then.
    fn answer<T: 'static>(&mut self, to: oneshot::Sender<T>, answer: T) {
        self.answers.push(Box::new(move || drop(to.send(answer))));
    }
}

#[cfg(test)]
mod tests;
