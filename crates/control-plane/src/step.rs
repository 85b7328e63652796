//! The control plane as one step without I/O: an event and the time become actions.
//!
//! Its runner, the daemon's driver or the simulator, feeds it [`Event`]s, carries out the
//! [`Action`]s in their order, and reports their outcomes as further events. The step owns the
//! scheduler, decides what is committed under which number, holds replies back until then
//! ([`gate`]), and knows what to do about every failure of the store:
//!
//! | the store says | the step |
//! |---|---|
//! | full | refuses callers, and probes once a second with a commit under the next number; then takes a new term |
//! | unavailable | repeats the same commit under the same number; after [`UNKNOWN_FOR`] takes a new term, which settles it |
//! | fenced | drops the scheduler, and takes a new term; steps down if its trust ends ([`Trust::AfterCommit`]) |
//! | anything else | steps down |
//!
//! Only one commit is under way at a time, and no request is handled until it ends; heartbeats are
//! taken at any time.
//!
//! A step that committed by itself, synchronously, was rejected: it can neither carry a commit
//! whose outcome is unknown nor be interrupted in it by the loss of the store.

mod arrivals;
mod commit_builder;
mod committing;
mod due_run;
mod event;
mod gate;
mod schedules;
mod term_state;

use std::sync::Arc;
use std::time::Duration;

use scheduler::Scheduler;
use scheduler::input::Input;
use scheduler::time::Moment;

use self::arrivals::Arrivals;
use self::commit_builder::CommitBuilder;
pub use self::event::{
    Action, Delivery, DueRun, Envelope, Event, Failure, GraphSubmission, IdempotencyKey, Lookups,
    NotCreated, Origin, Reason, Refused, Reply, Request, Submission, Trigger,
};
use self::gate::Gate;
pub use self::gate::{Release, TRUSTED_FOR, Trust};
pub use self::schedules::DueTime;
use self::schedules::Schedules;
pub use self::term_state::{TakeError, TermState};
use crate::audit::Chains;
use crate::batch::{Batch, Content, NumberedCommit};
use crate::clock::Stamp;
use crate::pruning::Pruning;
use crate::records::Records;
use crate::store::{CommitId, LookupResults, Progress, Retention, StoreError, Term};

/// How often a store that failed is tried again.
const RETRY_EVERY: Duration = Duration::from_secs(1);

/// How often a commit is repeated whose outcome is unknown.
const REPEAT_EVERY: Duration = Duration::from_millis(100);

/// For how long callers wait for a commit whose outcome is unknown.
const UNKNOWN_FOR: Duration = Duration::from_secs(3);

/// The control plane. `C` is the type of a caller that waits for an answer.
pub struct Step<C> {
    phase: Phase<C>,
    heard: Arrivals,
    gate: Gate,
    pruning: Pruning,
}

enum Phase<C> {
    /// Neither term nor state.
    Loading(Load),
    Serving(Box<Serving>),
    /// A commit is under way or its outcome unknown.
    Committing {
        serving: Box<Serving>,
        writing: Writing<C>,
    },
    /// The store has no room. The state is that of a commit that failed: it answers questions, and
    /// is dropped as soon as there is room.
    Full {
        serving: Box<Serving>,
        probe: Probe,
    },
    SteppingDown,
}

#[derive(Debug, Clone, Copy)]
enum Load {
    UnderWay { since: Moment },
    RetryAt(Moment),
}

/// The state, and the term under which it was read.
struct Serving {
    scheduler: Scheduler,
    records: Records,
    schedules: Schedules,
    audit: Chains,
    term: Term,
    last_commit: u64,
    /// When the scheduler wants to be handed the time.
    wake: Moment,
    /// When a schedule may be due.
    due: Option<Moment>,
}

/// A commit that is repeated, never changed, until its outcome is known.
struct Writing<C> {
    commit: NumberedCommit,
    held: Vec<Delivery<C>>,
    since: Moment,
    attempt: Attempt,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempt {
    First,
    Repeat,
    RepeatAt(Moment),
}

#[derive(Debug, Clone, Copy)]
enum Probe {
    /// An empty commit, sent at this moment, which holds the lead where trust ends; a full store
    /// may still have room for it.
    Renewing(CommitId, Moment),
    UnderWay(CommitId),
    DueAt(Moment),
}

// === impl Step ===

impl<C> Step<C> {
    /// Begins with [`Action::Take`].
    pub fn start(retention: Retention, trust: Trust, now: Moment) -> (Self, Vec<Action<C>>) {
        let step = Self {
            phase: Phase::Loading(Load::UnderWay { since: now }),
            heard: Arrivals::default(),
            gate: Gate::new(trust),
            pruning: Pruning::new(retention),
        };
        (step, vec![Action::Take(Reason::Start)])
    }

    pub fn on(&mut self, event: Event<C>, now: Stamp) -> Vec<Action<C>> {
        match event {
            Event::Inputs { inputs, known } => self.on_inputs(inputs, known, now),
            Event::Heard { gap, arrivals } => {
                self.heard.note(gap, arrivals);
                Vec::new()
            }
            Event::Committed(id, result) => self.on_committed(id, result, now),
            Event::Took(result) => self.on_took(result, now),
            Event::Tick => self.on_tick(now),
        }
    }

    /// When the next [`Event::Tick`] is due; none while something under way has to end first.
    pub fn wake(&self) -> Option<Moment> {
        match &self.phase {
            Phase::Loading(Load::RetryAt(at)) => Some(*at),
            Phase::Serving(serving) => {
                let wake = serving.wake.min(self.pruning.due());
                [serving.due, self.gate.renewal_due()].into_iter().flatten().chain([wake]).min()
            }
            Phase::Committing { writing, .. } => match writing.attempt {
                Attempt::First | Attempt::Repeat => None,
                Attempt::RepeatAt(at) => Some(at),
            },
            Phase::Full { probe: Probe::DueAt(at), .. } => Some(*at),
            Phase::Loading(Load::UnderWay { .. })
            | Phase::Full { probe: Probe::UnderWay(_) | Probe::Renewing(..), .. }
            | Phase::SteppingDown => None,
        }
    }

    /// When an empty commit is due, if none is sent before; none if no other process can take over.
    pub fn renewal_due(&self) -> Option<Moment> {
        self.gate.renewal_due()
    }

    /// Until when what claims nothing stored may leave; none if no other process can take over.
    pub fn trusted_until(&self) -> Option<Moment> {
        self.gate.trusted_until()
    }

    /// Whether requests should wait in their queue: their callers would be refused otherwise.
    pub fn is_committing(&self) -> bool {
        match &self.phase {
            Phase::Committing { .. } => true,
            Phase::Loading(_) | Phase::Serving(_) | Phase::Full { .. } | Phase::SteppingDown => {
                false
            }
        }
    }

    /// What questions are put to.
    pub fn scheduler(&self) -> Option<&Scheduler> {
        match &self.phase {
            Phase::Serving(serving)
            | Phase::Committing { serving, .. }
            | Phase::Full { serving, .. } => Some(&serving.scheduler),
            Phase::Loading(_) | Phase::SteppingDown => None,
        }
    }

    fn on_inputs(
        &mut self,
        inputs: Vec<Envelope<C>>,
        known: Option<LookupResults>,
        now: Stamp,
    ) -> Vec<Action<C>> {
        match self.leave() {
            Phase::Serving(serving) => self.turn(serving, inputs, known, now),
            phase @ (Phase::Loading(_)
            | Phase::Committing { .. }
            | Phase::Full { .. }
            | Phase::SteppingDown) => {
                self.phase = phase;
                let callers = inputs.into_iter().map(|envelope| envelope.caller).collect();
                vec![Action::Refuse { callers, why: Refused::NotStored }]
            }
        }
    }

    fn on_tick(&mut self, now: Stamp) -> Vec<Action<C>> {
        match self.leave() {
            Phase::Loading(Load::RetryAt(at)) if at <= now.moment => {
                self.load(Reason::Retry, now.moment)
            }
            Phase::Serving(serving) => {
                self.turn(serving, Vec::new(), Some(LookupResults::default()), now)
            }
            Phase::Committing { serving, writing } => self.repeat(serving, writing, now.moment),
            Phase::Full { serving, probe: Probe::DueAt(at) } if at <= now.moment => {
                vec![self.probe(serving, now)]
            }
            phase @ (Phase::Loading(_) | Phase::Full { .. } | Phase::SteppingDown) => {
                self.phase = phase;
                Vec::new()
            }
        }
    }

    /// Loading => Serving, or tries again.
    fn on_took(&mut self, result: Result<TermState, TakeError>, now: Stamp) -> Vec<Action<C>> {
        let since = match self.leave() {
            Phase::Loading(Load::UnderWay { since }) => since,
            phase @ (Phase::Loading(Load::RetryAt(_))
            | Phase::Serving(_)
            | Phase::Committing { .. }
            | Phase::Full { .. }
            | Phase::SteppingDown) => {
                self.phase = phase;
                return Vec::new();
            }
        };
        match result {
            Ok(TermState { progress, scheduler, records, audit }) => {
                self.gate.renewed(since);
                let Progress { term, last_commit, .. } = progress;
                let wake = scheduler.next_wake(now.moment);
                let scheduler = *scheduler;
                let schedules = Schedules::load(&records, &scheduler);
                let due = schedules.wake(now);
                let serving =
                    Serving { scheduler, records, schedules, audit, term, last_commit, wake, due };
                let serving = Box::new(serving);
                self.serve(serving, Arc::default(), Vec::new(), now)
            }
            Err(TakeError::Store(StoreError::Fenced)) if self.can_lose_the_lead() => {
                vec![Action::StepDown(Failure::LeadLost)]
            }
            Err(TakeError::Store(
                StoreError::Full { .. } | StoreError::Unavailable | StoreError::Fenced,
            )) => {
                self.phase = Phase::Loading(Load::RetryAt(now.moment + RETRY_EVERY));
                Vec::new()
            }
            Err(error) => vec![Action::StepDown(error.into())],
        }
    }

    /// Serving => Committing, unless nothing is to be stored.
    fn turn(
        &mut self,
        mut serving: Box<Serving>,
        inputs: Vec<Envelope<C>>,
        known: Option<LookupResults>,
        now: Stamp,
    ) -> Vec<Action<C>> {
        let number = serving.last_commit + 1;
        let mut builder = CommitBuilder::new(known, number);
        let Serving { scheduler, records, schedules, .. } = serving.as_mut();
        // Nothing is decided before the heartbeats that arrived until now: neither whose lease has
        // ended nor who gets work.
        self.heard.hand_over(&mut builder, scheduler, now.now());
        for envelope in inputs {
            builder.take(scheduler, records, schedules, envelope, now.moment);
        }
        if serving.wake <= now.moment {
            builder.handle(&mut serving.scheduler, now.now(), Input::Tick);
        }
        serving.wake = serving.scheduler.next_wake(now.moment);
        let due = serving.decide_schedules(&mut builder, now);
        let (batch, held) = builder.finish(&mut serving.audit);
        let is_free = batch.is_empty() && self.gate.lets_out(&held, now.moment);
        let batch = Arc::new(batch);
        let mut actions = match is_free {
            true => self.serve(serving, batch, held, now),
            false => vec![self.commit(serving, Content::Batch(batch), held, now)],
        };
        if !due.is_empty() {
            actions.push(Action::Due(due));
        }
        actions
    }

    /// Goes on, and removes what is due.
    fn serve(
        &mut self,
        mut serving: Box<Serving>,
        batch: Arc<Batch>,
        held: Vec<Delivery<C>>,
        now: Stamp,
    ) -> Vec<Action<C>> {
        let release = self.gate.release(&mut serving.scheduler, batch, held, now.moment);
        let mut actions = vec![Action::Release(release)];
        actions.extend(self.remove(serving, now));
        actions
    }

    /// Drops the state. Whatever the old term still has under way, the new one fences it.
    fn load(&mut self, reason: Reason, now: Moment) -> Vec<Action<C>> {
        self.phase = Phase::Loading(Load::UnderWay { since: now });
        vec![Action::CloseStreams, Action::Take(reason)]
    }

    /// A lock cannot be lost, so what fences its holder is an earlier term of its own or a mistake.
    fn can_lose_the_lead(&self) -> bool {
        match self.gate.trust() {
            Trust::Always => false,
            Trust::AfterCommit => true,
        }
    }

    /// Takes the phase out. The caller sets the next one; until then the step is stepping down.
    fn leave(&mut self) -> Phase<C> {
        std::mem::replace(&mut self.phase, Phase::SteppingDown)
    }
}

// === impl Serving: schedules ===

impl Serving {
    /// Once the inputs of a turn are handled: what is due now.
    fn decide_schedules<C>(&mut self, builder: &mut CommitBuilder<C>, now: Stamp) -> Vec<DueTime> {
        let Self { scheduler, records, schedules, .. } = self;
        schedules.ended(builder.ended_jobs().into_iter(), records, scheduler);
        let due = schedules.decide(records, scheduler, now, |records, write, outcome| {
            builder.write_state(records, write, outcome);
        });
        self.due = self.schedules.wake(now);
        due
    }
}

#[cfg(test)]
mod tests;
