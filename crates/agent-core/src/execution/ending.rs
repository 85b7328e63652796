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

/// Whether a message says that already: something has too much, perhaps with another amount, or the
/// container is gone, and how its process ended.
fn is_told(told: &str, message: &str) -> bool {
    let what = |text: &str| text.split(" has ").next().map(ToOwned::to_owned);
    told.starts_with(message) || (message.contains(" has ") && what(told) == what(message))
}

// === impl Execution: endings ===

impl Execution {
    /// Running, Stopping => Collecting.
    pub(super) fn exited(&mut self, exit: &Exit, now: Now) -> Vec<Effect> {
        let verdict = match &self.phase {
            // It ran into its timeout while the agent was away, and was removed then.
            Phase::Running { started_at, boot_id }
                if exit.is_removed
                    && !boot_id.differs_from(now.boot_id)
                    && self.deadline(*started_at).is_some_and(|deadline| deadline <= now.time) =>
            {
                Verdict::of_stop(&StopReason::ExecutionTimeout, exit, &self.work)
            }
            Phase::Running { boot_id, .. } => {
                Verdict::of_exit(exit, Outage::detect(exit, *boot_id, now.boot_id), &self.work)
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

    /// Running, Stopping => Collecting. How the process ended is unknown, but why it had to is
    /// known.
    fn ended_unseen(&mut self, reason: &StopReason) -> Vec<Effect> {
        let exit = Exit { code: NO_EXIT_CODE, ..Exit::default() };
        self.ended_with(Verdict::of_stop(reason, &exit, &self.work))
    }

    fn ended_with(&mut self, verdict: Verdict) -> Vec<Effect> {
        let exit_code = verdict.exit_code;
        self.phase = Phase::Collecting { verdict };
        let collect = Effect::Collect { exit_code };
        // Otherwise the end follows immediately.
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
        // A run that was stopped or removed has already reported it.
        let spoilt = collected.spoilt.filter(|it| !is_told(&verdict.message, &it.message));
        if let Some(failure) = spoilt {
            notes.insert(0, verdict.spoilt(failure));
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
        let outcome = Outcome {
            cause: verdict.cause,
            confirmed: verdict.confirmed,
            exit_code: Some(verdict.exit_code),
            published,
            ..Outcome::default()
        };
        self.phase = Phase::Done {
            state: verdict.state,
            message: message.clone(),
            finished_at: now,
            unpublished,
            kept_bytes: collected.kept_bytes,
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
            curve: collected.curve,
            ..outcome.add_to(self.next_report(verdict.state, &message))
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
                if matches!(failure.cause, FailureCause::Node | FailureCause::Refused)
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
        let Failure { cause, definite, message, confirmed } = failure;
        let exit_code = Some(NO_EXIT_CODE);
        let outcome = Outcome { cause, confirmed, definite, exit_code, ..Outcome::default() };
        let mut report = self.finish(ComputeState::Failed, &message, now.time, Some(outcome));
        if let Some(output) = &mut report.run_output {
            output.runner_error = message;
        }
        vec![Effect::Report(Box::new(report)), Effect::Discard]
    }

    /// Any phase under way => Done: the agent ended while it handled this execution alone.
    pub(crate) fn give_up(&mut self, ends: usize, now: Timestamp) -> Vec<Effect> {
        let exit_code = match &self.phase {
            Phase::Withdrawing { message }
            | Phase::Overtaken { message }
            | Phase::Stopping { reason: StopReason::NoLongerWanted { message } } => {
                let message = message.clone();
                return self.cancelled(&message, now);
            }
            Phase::Accepted | Phase::Done { .. } => return Vec::new(),
            Phase::Collecting { verdict } => verdict.exit_code,
            Phase::Preparing
            | Phase::Starting { .. }
            | Phase::Running { .. }
            | Phase::Stopping { .. } => NO_EXIT_CODE,
        };
        let message = format!(
            "its node's agent ended {ends} times within ten minutes, the last time while it handled \
             nothing but this execution"
        );
        let outcome = Outcome {
            cause: FailureCause::Node,
            exit_code: Some(exit_code),
            ended_agent: true,
            ..Outcome::default()
        };
        let mut report = self.finish(ComputeState::Failed, &message, now, Some(outcome));
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
            kept_bytes: None,
            outcome: outcome.clone().map(Box::new),
        };
        let report = self.next_report(state, message);
        outcome.unwrap_or_default().add_to(report)
    }
}
