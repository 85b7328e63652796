//! What this node holds and does about it, as a pure state machine over all its executions.
//!
//! Inputs go in, a [`Turn`] comes out: what is to be written to the ledger, and effects that may
//! be carried out once it is. The supervisor runs it against the real ledger and the real engines,
//! the simulator against crashes between any two steps.
//!
//! An execution costs a few hundred bytes here besides its specification; of finished ones at most
//! [`MAX_FINISHED`] are kept.

mod queries;
mod reconcile;
mod slot;
mod turn;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use api_types::execution::{ComputeState, DesiredState};
use api_types::protocol::{Acknowledgement, Assignment, FailureCause, Report, Work};
use api_types::quantity::Resources;
use api_types::{ExecutionId, Timestamp};
use tracing::{debug, info, warn};

use crate::execution::{Effect, Event, Execution, Phase};

pub use crate::ledger::{Batch, Contents, StoredReport};
pub(crate) use queries::{Found, Usage};
use slot::Slot;
pub use turn::Turn;
use turn::Unwritten;

/// Finished executions that are remembered with their directories; beyond it the oldest goes
/// before its time.
const MAX_FINISHED: usize = 1000;

/// Every execution of this node that is not forgotten.
pub struct Core {
    table: HashMap<ExecutionId, Slot>,
    /// Done, and every report acknowledged; by the time of their end.
    finished: BTreeSet<(Timestamp, ExecutionId)>,
    /// Reports about executions that this node never had, until they are acknowledged.
    strangers: BTreeSet<ExecutionId>,
    unwritten: Unwritten,
    /// Of the next report.
    next_position: u64,
    limits: Limits,
}

/// What this node has and keeps.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub capacity: Resources,
    /// How long a finished execution is remembered.
    pub retain: Duration,
}

/// Whether this node can run what it is offered; the reason if not.
pub type Admit<'a> = &'a dyn Fn(&Work) -> Result<(), String>;

/// What the core is told.
#[derive(Debug)]
pub enum Input {
    /// All that is desired of this node, as it was at this time or later.
    Snapshot(Timestamp, Vec<Assignment>),
    /// What is now desired of one execution.
    Change(Box<Assignment>),
    /// A step of an execution came to its end.
    Event(ExecutionId, Event),
    Acknowledged(Vec<Acknowledgement>),
}

// === impl Core ===

impl Core {
    /// Goes on from what the ledger holds.
    pub fn restore(contents: &Contents, limits: Limits) -> Self {
        let mut table: HashMap<_, _> = contents
            .executions
            .iter()
            .map(|execution| (execution.id, Slot::new(execution.clone())))
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
        let unwritten = Unwritten::default();
        Self { table, finished, strangers, unwritten, next_position, limits }
    }

    /// Takes up, after a restart, what was under way.
    pub fn resume(&mut self, now: Timestamp, turn: &mut Turn) {
        let mut ids: Vec<_> = self.table.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            let Some(slot) = self.table.get_mut(&id) else { continue };
            let before = slot.execution.phase.word();
            let effects = slot.execution.resume(now);
            if !effects.is_empty() {
                info!(execution = %id, phase = before, "taking up an execution again");
                self.take_effects(id, effects, turn);
            }
        }
    }

    /// Takes one input in. `admit` says whether this node can run what it is offered.
    pub fn take(&mut self, input: Input, admit: Admit<'_>, now: Timestamp, turn: &mut Turn) {
        match input {
            Input::Snapshot(as_of, assignments) => {
                self.reconcile(as_of, assignments, admit, now, turn);
            }
            Input::Change(assignment) => self.assign(*assignment, admit, now, turn),
            Input::Event(id, event) => self.event(id, event, now, turn),
            Input::Acknowledged(acknowledged) => self.acknowledge(acknowledged, now),
        }
    }

    /// Completes the turn: its batch then holds all that is to be written. What can wait for a
    /// commit is among it if there is one anyway, or if the turn `settles` everything.
    pub fn close(&mut self, now: Timestamp, settles: bool, turn: &mut Turn) {
        self.retire(now, turn);
        if settles || turn.is_written() {
            turn.touched.append(&mut self.unwritten.executions);
            turn.batch.acknowledged.append(&mut self.unwritten.acknowledged);
        }
        for id in std::mem::take(&mut turn.touched) {
            if let Some(slot) = self.table.get(&id) {
                turn.batch.changed.insert(id, slot.execution.clone());
            }
        }
    }

    /// What is to be run, for a step that is carried out.
    pub(crate) fn execution(&self, id: ExecutionId) -> Option<&Execution> {
        self.table.get(&id).map(|slot| &slot.execution)
    }

    /// The snapshot is all that is desired: the rest is no longer wanted.
    fn reconcile(
        &mut self,
        as_of: Timestamp,
        assignments: Vec<Assignment>,
        admit: Admit<'_>,
        now: Timestamp,
        turn: &mut Turn,
    ) {
        let held = self.table.values().map(|slot| (slot.execution.id, &slot.execution.phase));
        for id in reconcile::unwanted(held, &assignments) {
            info!(execution = %id, "an execution is no longer wanted");
            let message = "no longer wanted by the orchestrator".to_owned();
            self.event(id, Event::Desired { state: DesiredState::Stopped, message }, now, turn);
        }
        for assignment in assignments {
            let id = assignment.execution_id;
            self.assign(assignment, admit, now, turn);
            if let Some(slot) = self.table.get_mut(&id)
                && slot.execution.phase.is_done()
                && slot.unacknowledged == 0
                && slot.acknowledged_at < as_of
            {
                let effects = slot.execution.repeat_outcome();
                self.take_effects(id, effects, turn);
            }
        }
    }

    fn assign(
        &mut self,
        assignment: Assignment,
        admit: Admit<'_>,
        now: Timestamp,
        turn: &mut Turn,
    ) {
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
                let decision = admit(&work);
                self.offer(id, work, decision, now, turn);
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

    fn offer(
        &mut self,
        id: ExecutionId,
        work: Work,
        decision: Result<(), String>,
        now: Timestamp,
        turn: &mut Turn,
    ) {
        let decision = decision.and_then(|()| self.free_gpus(work.resources.gpu));
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

    fn event(&mut self, id: ExecutionId, event: Event, now: Timestamp, turn: &mut Turn) {
        let Some(slot) = self.table.get_mut(&id) else {
            return debug!(execution = %id, ?event, "an event about an execution that is forgotten");
        };
        let (phase, desired) = (slot.execution.phase.word(), slot.execution.desired);
        let effects = slot.execution.handle(event, now);
        let execution = &slot.execution;
        if execution.phase.word() != phase {
            let job = execution.work.job_id;
            debug!(execution = %id, %job, from = phase, to = execution.phase.word(), "phase");
            match &execution.phase {
                // Thousands a second are an ordinary load.
                Phase::Done { state: ComputeState::Completed, .. } => {
                    debug!(execution = %id, %job, "an execution is completed");
                }
                Phase::Done { state, message: why, .. } => {
                    info!(execution = %id, %job, ?state, why, "an execution is done");
                }
                _ => {}
            }
        }
        // What changes nothing costs no row.
        if !effects.is_empty() || execution.phase.word() != phase || execution.desired != desired {
            self.take_effects(id, effects, turn);
        }
    }

    fn take_effects(&mut self, id: ExecutionId, effects: Vec<Effect>, turn: &mut Turn) {
        if self.table.get(&id).is_some_and(|slot| slot.execution.phase.can_be_written_later()) {
            self.unwritten.executions.insert(id);
        } else {
            turn.touched.insert(id);
        }
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

    fn acknowledge(&mut self, acknowledged: Vec<Acknowledgement>, now: Timestamp) {
        for Acknowledgement { execution_id, .. } in &acknowledged {
            match self.table.get_mut(execution_id) {
                Some(slot) => {
                    slot.unacknowledged = slot.unacknowledged.saturating_sub(1);
                    slot.acknowledged_at = now;
                    self.finished.extend(slot.finished());
                }
                None => drop(self.strangers.remove(execution_id)),
            }
        }
        self.unwritten.acknowledged.extend(acknowledged);
    }

    /// Forgets finished executions that are too old or too many.
    fn retire(&mut self, now: Timestamp, turn: &mut Turn) {
        while let Some((finished_at, id)) = self.finished.first().copied() {
            if self.finished.len() <= MAX_FINISHED && now.since(finished_at) < self.limits.retain {
                break;
            }
            self.finished.pop_first();
            self.table.remove(&id);
            turn.batch.forgotten.push(id);
        }
    }
}

#[cfg(test)]
mod tests;
