//! How an execution ends on this node: what its process did, and what became of its output.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use api_types::Timestamp;
use api_types::execution::{ComputeState, RunOutput};
use api_types::protocol::{FailureCause, Report, cut_message};

use super::verdict::Outage;
use super::{
    Collected, Effect, Execution, Exit, Failure, NO_EXIT_CODE, Outcome, Phase, Publishing,
    StopReason, Verdict,
};
use crate::boot::Now;

// === impl Execution: endings ===

impl Execution {
    /// Running, Stopping => Collecting.
    pub(super) fn exited(&mut self, exit: &Exit, now: Now) -> Vec<Effect> {
        let verdict = match &self.phase {
            Phase::Running { boot_id, .. } => {
                Verdict::of_exit(exit, Outage::of(exit, *boot_id, now.boot_id), &self.work)
            }
            Phase::Stopping { reason } => Verdict::of_stop(reason, exit, &self.work),
            Phase::Accepted
            | Phase::Preparing
            | Phase::Withdrawing { .. }
            | Phase::Starting { .. }
            | Phase::Overtaken { .. }
            | Phase::Collecting { .. }
            | Phase::Done { .. } => return Vec::new(),
        };
        self.ended_with(verdict)
    }

    /// Running, Stopping => Collecting. Nobody saw how the process ended, but why it had to is known.
    fn ended_unseen(&mut self, reason: &StopReason) -> Vec<Effect> {
        let exit = Exit { code: NO_EXIT_CODE, ..Exit::default() };
        self.ended_with(Verdict::of_stop(reason, &exit, &self.work))
    }

    fn ended_with(&mut self, verdict: Verdict) -> Vec<Effect> {
        let exit_code = verdict.exit_code;
        self.phase = Phase::Collecting { verdict };
        let collect = Effect::Collect { exit_code };
        // Otherwise the end follows at once.
        if self.leaves_results() {
            vec![self.report_process_ended(), collect]
        } else {
            vec![collect]
        }
    }

    /// Collecting => Done.
    pub(super) fn collected(&mut self, collected: Collected, now: Timestamp) -> Vec<Effect> {
        let Phase::Collecting { verdict } = &self.phase else { return Vec::new() };
        let mut verdict = verdict.clone();
        let message = verdict.message.clone();
        let mut notes = collected.notes;
        if let Some(Failure { cause, message }) = collected.spoilt {
            // A run that was stopped for the same reason has already reported it.
            if verdict.message != message {
                notes.insert(0, verdict.spoilt(cause, message));
            }
        }
        let (published, unpublished) = match collected.publishing {
            Publishing::NotAsked => (None, false),
            Publishing::Done(result) => (Some(result), false),
            Publishing::Failed(failure) => {
                notes.push(verdict.unpublished(failure));
                (None, true)
            }
        };
        let told = [message].into_iter().filter(|told| !told.is_empty()).chain(notes);
        let mut message = told.collect::<Vec<_>>().join("; ");
        cut_message(&mut message);
        let outcome =
            Outcome { cause: verdict.cause, exit_code: Some(verdict.exit_code), published };
        self.phase = Phase::Done {
            state: verdict.state,
            message: message.clone(),
            finished_at: now,
            unpublished,
            outcome: Some(Box::new(outcome.clone())),
        };
        let usage = collected.usage.map(|usage| verdict.complete(usage, &self.work));
        let output = RunOutput {
            exit_code: verdict.exit_code,
            runner_error: verdict.runner_error,
            ..collected.output
        };
        let has_failed = verdict.state == ComputeState::Failed;
        let report = Report {
            run_output: Some(output),
            tail: collected.tail.filter(|_| has_failed),
            usage,
            ..outcome.told_in(self.next_report(verdict.state, &message))
        };
        vec![Effect::Report(Box::new(report)), Effect::Discard]
    }

    /// Any phase under way => Done, except for a process that had to end anyway.
    pub(super) fn failed(&mut self, mut failure: Failure, now: Now) -> Vec<Effect> {
        match &self.phase {
            Phase::Withdrawing { message }
            | Phase::Overtaken { message }
            | Phase::Stopping { reason: StopReason::NoLongerWanted { message } } => {
                let message = message.clone();
                return self.cancelled(&message, now.time);
            }
            Phase::Accepted | Phase::Done { .. } => return Vec::new(),
            Phase::Running { boot_id, .. } if boot_id.differs_from(now.boot_id) => {
                failure = Failure::node(format!("{}; {failure}", Outage::Machine));
            }
            // It ran into its timeout while the agent was away.
            Phase::Running { started_at, .. }
                if failure.cause == FailureCause::Node
                    && self.deadline(*started_at).is_some_and(|deadline| deadline <= now.time) =>
            {
                return self.ended_unseen(&StopReason::ExecutionTimeout);
            }
            Phase::Stopping { reason } => {
                let reason = reason.clone();
                return self.ended_unseen(&reason);
            }
            // What the process did is known, even if its output is lost.
            Phase::Collecting { .. } => {
                let lost = Collected { spoilt: Some(failure), ..Collected::default() };
                return self.collected(lost, now.time);
            }
            Phase::Preparing | Phase::Starting { .. } | Phase::Running { .. } => {}
        }
        let Failure { cause, message } = failure;
        let outcome = Outcome { cause, exit_code: Some(NO_EXIT_CODE), published: None };
        let mut report = self.finish(ComputeState::Failed, &message, now.time, Some(outcome));
        if let Some(output) = &mut report.run_output {
            output.runner_error = message;
        }
        vec![Effect::Report(Box::new(report)), Effect::Discard]
    }

    pub(super) fn cancelled(&mut self, message: &str, now: Timestamp) -> Vec<Effect> {
        let report = self.finish(ComputeState::Cancelled, message, now, None);
        vec![Effect::Report(Box::new(report)), Effect::Discard]
    }

    /// Any phase => Done; returns the report of it.
    pub(super) fn finish(
        &mut self,
        state: ComputeState,
        message: &str,
        now: Timestamp,
        outcome: Option<Outcome>,
    ) -> Report {
        self.phase = Phase::Done {
            state,
            message: message.to_owned(),
            finished_at: now,
            unpublished: false,
            outcome: outcome.clone().map(Box::new),
        };
        let report = self.next_report(state, message);
        outcome.unwrap_or_default().told_in(report)
    }
}
