//! The lifecycle of one execution on this node: events in, effects out; no I/O and no clock.
//!
//! ```text
//! offer ─▶ Accepted ─▶ Preparing ─▶ Starting ─▶ Running ─▶ Collecting ─▶ Done
//!   │          │           │            │           │           ▲          ▲
//!   ▼          │      Withdrawing   Overtaken ─▶ Stopping ──────┘          │
//! Done         └───────────┴───────────────────────────────────────────────┘
//! (declined)
//! ```
//!
//! Every step that an effect requests is idempotent. After a crash of the agent,
//! [`Execution::resume`] requests the interrupted step again; recovery needs nothing else, so each
//! phase holds everything its next step needs. An agent that crashed soon after the order to run
//! may find the execution only `Accepted` in its ledger; the orchestrator then repeats the order.

mod ending;
mod event;
mod phase;
mod report;
mod verdict;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use api_types::execution::{ComputeState, DesiredState};
use api_types::protocol::{FailureCause, Work};
use api_types::{ExecutionId, Timestamp};

use crate::boot::Now;

pub use event::{Collected, Effect, Event, Exit, Failure, Publishing};
pub use phase::{Outcome, Phase, Remains, StopReason};
pub use verdict::Verdict;

pub use api_types::execution::NO_EXIT_CODE;

/// One execution, as this node knows it.
#[derive(Debug, Clone)]
pub struct Execution {
    pub id: ExecutionId,
    pub work: Arc<Work>,
    /// Indexes of this node's GPUs that the execution holds until its process has ended.
    pub gpus: Vec<u32>,
    pub desired: DesiredState,
    pub phase: Phase,
    /// The sequence number of its latest report.
    pub reported: u64,
}

/// Why a node declines an offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decline {
    pub reason: String,
    pub cause: FailureCause,
}

// === impl Decline ===

impl Decline {
    /// The node does not run such a task.
    pub fn unfit(reason: String) -> Self {
        Self { reason, cause: FailureCause::default() }
    }

    /// Nothing is free for it now.
    pub fn no_room(reason: String) -> Self {
        Self { reason, cause: FailureCause::Room }
    }
}

// === impl Execution ===

impl Execution {
    /// The response to an offer: accepted with these GPUs, or declined with the reason.
    pub fn offered(
        id: ExecutionId,
        work: Arc<Work>,
        admission: Result<Vec<u32>, Decline>,
        now: Timestamp,
    ) -> (Self, Vec<Effect>) {
        let (desired, phase) = (DesiredState::Pending, Phase::Accepted);
        let mut execution = Self { id, work, gpus: Vec::new(), desired, phase, reported: 0 };
        let mut effects = Vec::new();
        match admission {
            Ok(gpus) => {
                execution.gpus = gpus;
                effects.push(execution.report(ComputeState::AskForBidAccepted, ""));
            }
            Err(Decline { reason, cause }) => {
                let outcome = Some(Outcome { cause, ..Outcome::default() });
                let declined = ComputeState::AskForBidRejected;
                let report = execution.finish(declined, &reason, now, outcome);
                effects.push(Effect::Report(Box::new(report)));
            }
        }
        (execution, effects)
    }

    /// Resumes the interrupted step after a restart of the agent.
    pub fn resume(&mut self, now: Now) -> Vec<Effect> {
        match &self.phase {
            Phase::Accepted | Phase::Done { .. } => Vec::new(),
            Phase::Preparing => vec![Effect::Prepare],
            Phase::Withdrawing { message } => {
                let message = message.clone();
                self.cancelled(&message, now.time)
            }
            // Its process may have run before the reboot, and must not run again.
            Phase::Starting { boot_id, .. } if boot_id.differs_from(now.boot_id) => {
                let message = "its machine restarted while it was being started";
                self.failed(Failure::node(message), now)
            }
            Phase::Starting { .. } => vec![Effect::Start],
            Phase::Overtaken { .. } => self.start_given_up(),
            // Its process ended with the machine, before any deadline that has passed since.
            Phase::Running { boot_id, .. } if boot_id.differs_from(now.boot_id) => {
                vec![Effect::Watch { deadline: None }]
            }
            Phase::Running { started_at, .. } => vec![self.watch(*started_at)],
            Phase::Stopping { .. } => vec![Effect::Stop, Effect::Watch { deadline: None }],
            Phase::Collecting { verdict } => {
                vec![Effect::Collect { exit_code: verdict.exit_code }]
            }
        }
    }

    /// Applies one event. An event that does not belong to the phase is late or repeated, and
    /// changes nothing.
    pub fn handle(&mut self, event: Event, now: Now) -> Vec<Effect> {
        match event {
            Event::Desired { state: DesiredState::Pending, .. } => Vec::new(),
            Event::Desired { state: DesiredState::Running, .. } => self.run(),
            Event::Desired { state: DesiredState::Stopped, message } => {
                self.stop(message, now.time)
            }
            Event::Progress { message } => self.progressed(&message),
            Event::Prepared => self.prepared(now),
            Event::Started { at, remark } => {
                self.started(at, remark.as_deref().unwrap_or_default(), now)
            }
            Event::StartGivenUp => self.start_given_up(),
            Event::TimedOut => self.made_to_end(StopReason::ExecutionTimeout),
            Event::Overfull(failure) => self.made_to_end(StopReason::Overfull(failure)),
            Event::Exited(exit) => self.exited(&exit, now),
            Event::Collected(collected) => self.collected(*collected, now.time),
            Event::Failed(failure) => self.failed(failure, now),
        }
    }

    /// Accepted => Preparing.
    fn run(&mut self) -> Vec<Effect> {
        match self.phase {
            Phase::Accepted => {
                self.desired = DesiredState::Running;
                self.phase = Phase::Preparing;
                vec![Effect::Prepare]
            }
            Phase::Preparing
            | Phase::Withdrawing { .. }
            | Phase::Starting { .. }
            | Phase::Overtaken { .. }
            | Phase::Running { .. }
            | Phase::Stopping { .. }
            | Phase::Collecting { .. }
            | Phase::Done { .. } => Vec::new(),
        }
    }

    /// Accepted => Done; Preparing => Withdrawing; Starting => Overtaken; Running => Stopping.
    ///
    /// A run whose process has ended keeps its outcome.
    fn stop(&mut self, message: String, now: Timestamp) -> Vec<Effect> {
        self.desired = DesiredState::Stopped;
        match self.phase {
            Phase::Accepted => {
                // Before a crash the orchestrator may already have ordered the run, and the agent
                // may have made something.
                self.cancelled(&message, now)
            }
            Phase::Preparing => {
                self.phase = Phase::Withdrawing { message };
                vec![Effect::Cancel]
            }
            Phase::Starting { .. } => {
                self.phase = Phase::Overtaken { message };
                vec![Effect::Cancel]
            }
            Phase::Running { .. } => {
                self.phase = Phase::Stopping { reason: StopReason::NoLongerWanted { message } };
                vec![Effect::Stop]
            }
            Phase::Withdrawing { .. }
            | Phase::Overtaken { .. }
            | Phase::Stopping { .. }
            | Phase::Collecting { .. }
            | Phase::Done { .. } => Vec::new(),
        }
    }

    /// Preparing => Preparing; progress in any other phase is late.
    fn progressed(&mut self, message: &str) -> Vec<Effect> {
        match self.phase {
            Phase::Preparing => vec![self.report(ComputeState::AskForBidAccepted, message)],
            Phase::Accepted
            | Phase::Withdrawing { .. }
            | Phase::Starting { .. }
            | Phase::Overtaken { .. }
            | Phase::Running { .. }
            | Phase::Stopping { .. }
            | Phase::Collecting { .. }
            | Phase::Done { .. } => Vec::new(),
        }
    }

    /// Preparing => Starting; Withdrawing => Done.
    fn prepared(&mut self, now: Now) -> Vec<Effect> {
        match &self.phase {
            Phase::Preparing => {
                self.phase = Phase::Starting { boot_id: now.boot_id, since: now.time };
                vec![Effect::Start]
            }
            Phase::Withdrawing { message } => {
                let message = message.clone();
                self.cancelled(&message, now.time)
            }
            Phase::Accepted
            | Phase::Starting { .. }
            | Phase::Overtaken { .. }
            | Phase::Running { .. }
            | Phase::Stopping { .. }
            | Phase::Collecting { .. }
            | Phase::Done { .. } => Vec::new(),
        }
    }

    /// Starting => Running; Overtaken => Stopping.
    ///
    /// The engine reports start times by the wall clock, which may have been set since an earlier
    /// agent asked for the start.
    fn started(&mut self, at: Timestamp, remark: &str, now: Now) -> Vec<Effect> {
        match &self.phase {
            Phase::Starting { boot_id, since } => {
                let at = at.min(now.time).max(*since);
                self.phase = Phase::Running { started_at: at, boot_id: *boot_id };
                vec![self.report(ComputeState::BidAccepted, remark), self.watch(at)]
            }
            Phase::Overtaken { message } => {
                let reason = StopReason::NoLongerWanted { message: message.clone() };
                self.phase = Phase::Stopping { reason };
                vec![
                    self.report(ComputeState::BidAccepted, ""),
                    Effect::Stop,
                    Effect::Watch { deadline: None },
                ]
            }
            Phase::Accepted
            | Phase::Preparing
            | Phase::Withdrawing { .. }
            | Phase::Running { .. }
            | Phase::Stopping { .. }
            | Phase::Collecting { .. }
            | Phase::Done { .. } => Vec::new(),
        }
    }

    /// Overtaken => Stopping: it is unknown whether the process runs, and stopping and waiting
    /// covers both cases.
    fn start_given_up(&mut self) -> Vec<Effect> {
        match &self.phase {
            Phase::Overtaken { message } => {
                let reason = StopReason::NoLongerWanted { message: message.clone() };
                self.phase = Phase::Stopping { reason };
                vec![Effect::Stop, Effect::Watch { deadline: None }]
            }
            Phase::Accepted
            | Phase::Preparing
            | Phase::Withdrawing { .. }
            | Phase::Starting { .. }
            | Phase::Running { .. }
            | Phase::Stopping { .. }
            | Phase::Collecting { .. }
            | Phase::Done { .. } => Vec::new(),
        }
    }

    /// Running => Stopping.
    fn made_to_end(&mut self, reason: StopReason) -> Vec<Effect> {
        match self.phase {
            Phase::Running { .. } => {
                self.phase = Phase::Stopping { reason };
                vec![Effect::Stop]
            }
            Phase::Accepted
            | Phase::Preparing
            | Phase::Withdrawing { .. }
            | Phase::Starting { .. }
            | Phase::Overtaken { .. }
            | Phase::Stopping { .. }
            | Phase::Collecting { .. }
            | Phase::Done { .. } => Vec::new(),
        }
    }

    /// Repeats what an orchestrator acknowledged and no longer knows, since its state was restored from
    /// a backup. `known` is the last state that it knows. What the task printed went with the first
    /// report only.
    pub fn repeat(&mut self, known: ComputeState) -> Vec<Effect> {
        match &self.phase {
            Phase::Done { state, message, outcome, .. } => {
                let (state, message) = (*state, message.clone());
                let outcome = outcome.as_deref().cloned().unwrap_or_default();
                let report = outcome.add_to(self.next_report(state, &message));
                vec![Effect::Report(Box::new(report))]
            }
            Phase::Accepted
            | Phase::Preparing
            | Phase::Withdrawing { .. }
            | Phase::Starting { .. }
            | Phase::Overtaken { .. } => self.repeat_state(known, false),
            Phase::Running { .. } | Phase::Stopping { .. } => self.repeat_state(known, true),
            Phase::Collecting { .. } => {
                let mut effects = self.repeat_state(known, true);
                if !effects.is_empty() && self.leaves_results() {
                    effects.push(self.report_process_ended());
                }
                effects
            }
        }
    }

    /// The state of an execution that has not ended, unless it is known.
    fn repeat_state(&mut self, known: ComputeState, has_started: bool) -> Vec<Effect> {
        let state = match has_started {
            true => ComputeState::BidAccepted,
            false => ComputeState::AskForBidAccepted,
        };
        if known < state { vec![self.report(state, "")] } else { Vec::new() }
    }

    fn watch(&self, started_at: Timestamp) -> Effect {
        Effect::Watch { deadline: self.deadline(started_at) }
    }

    /// None for a task without a timeout.
    fn deadline(&self, started_at: Timestamp) -> Option<Timestamp> {
        let timeout = self.work.task.timeouts.execution_timeout;
        (timeout > 0).then(|| started_at + Duration::from_secs(timeout))
    }
}

#[cfg(test)]
mod tests;
