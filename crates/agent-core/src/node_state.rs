//! The state of this node and its reactions, as a pure state machine over all its executions.
//!
//! Each input produces a [`Transaction`]: changes for the ledger, and effects that may run once the
//! changes are committed. The supervisor runs it against the real ledger and the real engines; the
//! simulator runs it with crashes between any two steps.
//!
//! An execution takes a few hundred bytes here plus its specification, which a finished one does
//! not keep; the number of finished ones is bounded ([`Finished`]).

mod caution;
mod finished;
mod limits;
mod queries;
mod reconcile;
mod slot;
mod transaction;

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use api_types::execution::{ComputeState, DesiredState};
use api_types::protocol::{Acknowledgement, Assignment, FailureCause, Report, Work};
use api_types::{ExecutionId, Timestamp};
use tracing::{debug, info, warn};

use crate::boot::Now;
use crate::execution::{Decline, Effect, Event, Execution, Phase};
use crate::ledger::Contents;

use caution::Caution;
use finished::Finished;
pub use limits::Limits;
pub use queries::{Matches, Usage};
use slot::Slot;
pub use transaction::Transaction;
use transaction::Unwritten;

/// Every execution that this node has not forgotten.
pub struct NodeState {
    table: BTreeMap<ExecutionId, Slot>,
    finished: Finished,
    /// Reports about executions that this node never had, until they are acknowledged.
    unknown_executions: BTreeSet<ExecutionId>,
    unwritten: Unwritten,
    caution: Caution,
    /// Position of the next report.
    next_position: u64,
    limits: Limits,
}

/// Whether this node can run an offered task; otherwise the reason.
pub type Admit<'a> = &'a dyn Fn(&Work) -> Result<(), String>;

/// An input of the core.
#[derive(Debug)]
pub enum Input {
    /// The complete desired state of this node, as it was at this time or later.
    Snapshot(Timestamp, Vec<Assignment>),
    /// The new desired state of one execution.
    Change(Box<Assignment>),
    /// A step of an execution ended.
    Event(ExecutionId, Event),
    Acknowledged(Vec<Acknowledgement>),
}

// === impl NodeState ===

impl NodeState {
    /// Continues from the content of the ledger.
    pub fn restore(contents: &Contents, limits: Limits) -> Self {
        let mut table: BTreeMap<_, _> = contents
            .executions
            .iter()
            .map(|execution| (execution.id, Slot::new(execution.clone())))
            .collect();
        let mut unknown_executions = BTreeSet::new();
        for stored in &contents.reports {
            let id = stored.report.execution_id;
            match table.get_mut(&id) {
                Some(slot) => slot.unacknowledged += 1,
                None => drop(unknown_executions.insert(id)),
            }
        }
        let next_position = contents.reports.last().map_or(1, |last| last.position + 1);
        let mut finished = Finished::default();
        for slot in table.values_mut() {
            finished.enter(slot);
        }
        let unwritten = Unwritten::default();
        let caution = Caution::new(contents.ends.clone());
        Self { table, finished, unknown_executions, unwritten, caution, next_position, limits }
    }

    /// An agent starts: it notes how its predecessor ended, and gives up the execution that ended
    /// it, if so. To be called before [`resume`](Self::resume).
    pub fn open(&mut self, now: Now, transaction: &mut Transaction) {
        let Some((id, ends)) = self.caution.open(now.time) else { return };
        let Some(slot) = self.table.get_mut(&id) else { return };
        warn!(execution = %id, ends, "giving up an execution: the agent ended while it handled it alone");
        let effects = slot.execution.give_up(ends, now.time);
        if !effects.is_empty() {
            self.take_effects(id, effects, transaction);
        }
    }

    /// The agent stops in order.
    pub fn stop(&mut self) {
        self.caution.close();
    }

    /// Resumes interrupted steps after a restart.
    pub fn resume(&mut self, now: Now, transaction: &mut Transaction) {
        if self.caution.is_one_by_one() {
            warn!("earlier agents ended without a stop: resuming one execution at a time");
        }
        let executions = self.table.values().map(|slot| &slot.execution);
        let mut ids: Vec<_> =
            executions.map(|execution| (caution::rank(&execution.phase), execution.id)).collect();
        ids.sort_unstable();
        for (_, id) in ids {
            let Some(slot) = self.table.get_mut(&id) else { continue };
            let before = slot.execution.phase.word();
            let effects = slot.execution.resume(now);
            if !effects.is_empty() {
                info!(execution = %id, phase = before, "resuming an execution");
                self.take_effects(id, effects, transaction);
            }
        }
    }

    /// Applies one input. `admit` says whether this node can run an offered task.
    pub fn take(
        &mut self,
        input: Input,
        admit: Admit<'_>,
        now: Now,
        transaction: &mut Transaction,
    ) {
        match input {
            Input::Snapshot(as_of, assignments) => {
                self.reconcile(as_of, assignments, admit, now, transaction);
            }
            Input::Change(assignment) => self.assign(*assignment, admit, now, transaction),
            Input::Event(id, mut event) => {
                event.cut_texts();
                self.event(id, event, now, transaction);
            }
            Input::Acknowledged(acknowledged) => self.acknowledge(acknowledged, now.time),
        }
    }

    /// Completes the transaction: its batch then holds everything to write. Deferrable changes join an
    /// existing commit, or any commit if the transaction `settles` everything.
    pub fn close(&mut self, now: Timestamp, settles: bool, transaction: &mut Transaction) {
        self.retire(now, transaction);
        let table = &self.table;
        let phase = |id| table.get(&id).map(|slot| &slot.execution.phase);
        if let Some((id, effects)) = self.caution.proceed(now, phase) {
            transaction.effects.extend(effects.into_iter().map(|effect| (id, effect)));
        }
        transaction.batch.ends = self.caution.take_record();
        if settles || transaction.is_written() || self.caution.is_alert(now) {
            transaction.touched.append(&mut self.unwritten.executions);
            transaction.batch.acknowledged.append(&mut self.unwritten.acknowledged);
        }
        for id in core::mem::take(&mut transaction.touched) {
            if let Some(slot) = self.table.get(&id) {
                transaction.batch.changed.insert(id, slot.execution.clone());
            }
        }
    }

    /// The specification to run, for a step that starts now.
    pub fn execution(&self, id: ExecutionId) -> Option<&Execution> {
        self.table.get(&id).map(|slot| &slot.execution)
    }

    /// The snapshot is the complete desired state: everything else is no longer wanted.
    fn reconcile(
        &mut self,
        as_of: Timestamp,
        assignments: Vec<Assignment>,
        admit: Admit<'_>,
        now: Now,
        transaction: &mut Transaction,
    ) {
        let held = self.table.values().map(|slot| (slot.execution.id, &slot.execution.phase));
        for id in reconcile::unwanted(held, &assignments) {
            info!(execution = %id, "an execution is no longer wanted");
            let message = "no longer wanted by the orchestrator".to_owned();
            self.event(
                id,
                Event::Desired { state: DesiredState::Stopped, message },
                now,
                transaction,
            );
        }
        for assignment in assignments {
            let (id, known) = (assignment.execution_id, assignment.compute_state);
            let was_held = self.table.contains_key(&id);
            self.assign(assignment, admit, now, transaction);
            if let Some(slot) = self.table.get_mut(&id)
                && was_held
                && slot.unacknowledged == 0
                && slot.acknowledged_at < as_of
            {
                let effects = slot.execution.repeat(known);
                if !effects.is_empty() {
                    self.take_effects(id, effects, transaction);
                }
            }
        }
    }

    fn assign(
        &mut self,
        assignment: Assignment,
        admit: Admit<'_>,
        now: Now,
        transaction: &mut Transaction,
    ) {
        let Assignment { execution_id: id, desired_state: state, compute_state, message, work } =
            assignment;
        let message = match state {
            DesiredState::Stopped if message.is_empty() => "stopped".to_owned(),
            _ => message,
        };
        if self.table.contains_key(&id) {
            return self.event(id, Event::Desired { state, message }, now, transaction);
        }
        let was_offered_only = matches!(compute_state, ComputeState::New | ComputeState::AskForBid);
        match (state, work) {
            (DesiredState::Stopped, _) => {
                self.report_unknown(id, ComputeState::Cancelled, message, transaction);
            }
            (DesiredState::Pending | DesiredState::Running, Some(work)) if was_offered_only => {
                let decision = admit(&work);
                self.offer(id, work, decision, now, transaction);
                self.event(id, Event::Desired { state, message }, now, transaction);
            }
            // It may have run here already: only another execution is certain to run at most once.
            (DesiredState::Pending | DesiredState::Running, _) => {
                warn!(execution = %id, "the orchestrator requests an execution that this node has no record of");
                let message = "its node has no record of it, and does not run it a second time";
                self.report_unknown(id, ComputeState::Failed, message.to_owned(), transaction);
            }
        }
    }

    fn offer(
        &mut self,
        id: ExecutionId,
        work: Work,
        decision: Result<(), String>,
        now: Now,
        transaction: &mut Transaction,
    ) {
        let decision = decision.map_err(Decline::unfit);
        let decision = decision.and_then(|()| self.free_gpus(work.resources.gpu));
        if let Err(Decline { reason, .. }) = &decision {
            info!(execution = %id, reason, "declining an execution");
        }
        let work = Arc::new(work);
        let (execution, effects) = Execution::offered(id, work.clone(), decision, now.time);
        self.table.insert(id, Slot::new(execution));
        transaction.batch.admitted.push((id, work));
        self.take_effects(id, effects, transaction);
    }

    /// Reports the state of an execution that this node does not have.
    fn report_unknown(
        &mut self,
        id: ExecutionId,
        state: ComputeState,
        message: String,
        transaction: &mut Transaction,
    ) {
        if !self.unknown_executions.insert(id) {
            return;
        }
        let report = Report { message, cause: FailureCause::Node, ..Report::new(id, 1, state) };
        self.store_report(report, transaction);
    }

    fn event(&mut self, id: ExecutionId, event: Event, now: Now, transaction: &mut Transaction) {
        let Some(slot) = self.table.get_mut(&id) else {
            return debug!(execution = %id, ?event, "ignoring an event of a forgotten execution");
        };
        let (phase, desired) = (slot.execution.phase.word(), slot.execution.desired);
        let effects = slot.execution.handle(event, now);
        let execution = &slot.execution;
        if execution.phase.word() != phase {
            let job = execution.work.job_id;
            debug!(execution = %id, %job, from = phase, to = execution.phase.word(), "phase");
            match &execution.phase {
                // Thousands of these a second are an ordinary load.
                Phase::Done { state: ComputeState::Completed, .. } => {
                    debug!(execution = %id, %job, "an execution is completed");
                }
                Phase::Done { state, message: why, .. } => {
                    info!(execution = %id, %job, ?state, why, "an execution is done");
                }
                _ => {}
            }
        }
        // An event that changes nothing writes no row.
        if !effects.is_empty() || execution.phase.word() != phase || execution.desired != desired {
            self.take_effects(id, effects, transaction);
        }
    }

    fn take_effects(
        &mut self,
        id: ExecutionId,
        effects: Vec<Effect>,
        transaction: &mut Transaction,
    ) {
        if self.table.get(&id).is_some_and(|slot| slot.execution.phase.can_be_written_later()) {
            self.unwritten.executions.insert(id);
        } else {
            transaction.touched.insert(id);
        }
        for effect in effects {
            match effect {
                Effect::Report(report) => self.store_report(*report, transaction),
                other => {
                    let released = self.caution.release(id, other);
                    transaction.effects.extend(released.map(|effect| (id, effect)));
                }
            }
        }
    }

    fn store_report(&mut self, mut report: Report, transaction: &mut Transaction) {
        report.cut_texts();
        if let Some(slot) = self.table.get_mut(&report.execution_id) {
            slot.unacknowledged += 1;
            self.finished.leave(slot);
        }
        transaction.store(self.next_position, report);
        self.next_position += 1;
    }

    fn acknowledge(&mut self, acknowledged: Vec<Acknowledgement>, now: Timestamp) {
        for Acknowledgement { execution_id, .. } in &acknowledged {
            match self.table.get_mut(execution_id) {
                Some(slot) => {
                    slot.unacknowledged = slot.unacknowledged.saturating_sub(1);
                    slot.acknowledged_at = now;
                    self.finished.enter(slot);
                }
                None => drop(self.unknown_executions.remove(execution_id)),
            }
        }
        self.unwritten.acknowledged.extend(acknowledged);
    }

    /// Forgets finished executions that exceed the retention time, number or bytes.
    fn retire(&mut self, now: Timestamp, transaction: &mut Transaction) {
        while let Some(id) = self.finished.take_expired(now, &self.limits) {
            self.table.remove(&id);
            transaction.batch.forgotten.push(id);
        }
    }
}

#[cfg(test)]
mod tests;
