//! The phase of an execution; each phase owns what is true only then.

use alloc::boxed::Box;
use alloc::string::String;

use api_types::Timestamp;
use api_types::execution::{ComputeState, PublishedResult, RunOutput};
use api_types::protocol::{FailureCause, Report};
use serde::{Deserialize, Serialize};

use super::event::Failure;
use super::verdict::Verdict;
use crate::boot::BootId;

/// The part that the ledger keeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Phase {
    /// Accepted; waits for the order to run.
    Accepted,
    /// The agent fetches the image and inputs and creates the container.
    Preparing,
    /// As `Preparing`, but no longer wanted.
    Withdrawing { message: String },
    Starting {
        /// The boot in which its process starts.
        boot_id: BootId,
        /// Zero in ledgers of releases that did not note it.
        #[serde(default)]
        since: Timestamp,
    },
    /// As `Starting`, but no longer wanted.
    Overtaken { message: String },
    Running {
        started_at: Timestamp,
        /// Unknown in ledgers of releases that did not note it.
        #[serde(default)]
        boot_id: BootId,
    },
    /// The agent requested its end; its process may still run.
    Stopping { reason: StopReason },
    /// Its process has ended; the agent collects and publishes output and results.
    Collecting { verdict: Verdict },
    Done {
        state: ComputeState,
        message: String,
        finished_at: Timestamp,
        /// Whether its results are here alone, because they could not be published.
        #[serde(default)]
        unpublished: bool,
        /// Bytes of output and results that it keeps on the node. None if unknown, as in ledgers of
        /// releases that did not note them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kept_bytes: Option<u64>,
        /// For an orchestrator that has lost the report. None where the state says it all, and in
        /// ledgers of releases that did not keep it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        outcome: Option<Box<Outcome>>,
    },
}

/// What the last report says in addition to the state, its message and what the task printed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub cause: FailureCause,
    /// With the cause `Node`: a probe of this node failed as well.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub confirmed: bool,
    /// With the cause `Fetch`: another try will hear the same.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub definite: bool,
    /// None of an offer that was declined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<PublishedResult>,
    /// The agent ended while it handled this execution alone.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ended_agent: bool,
}

// === impl Outcome ===

impl Outcome {
    pub(super) fn add_to(self, report: Report) -> Report {
        let Self { cause, confirmed, definite, exit_code, published, ended_agent } = self;
        let run_output = exit_code.map(|exit_code| RunOutput { exit_code, ..RunOutput::default() });
        let published_result = published;
        Report { cause, confirmed, definite, ended_agent, run_output, published_result, ..report }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// Why the agent stops a running task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopReason {
    NoLongerWanted {
        message: String,
    },
    ExecutionTimeout,
    /// There is no more space for what it writes.
    Overfull(Failure),
}

/// What a finished execution still has on the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remains {
    pub finished_at: Timestamp,
    /// Whether its results are here alone, because they could not be published.
    pub unpublished: bool,
    /// Bytes of output and results; 0 if unknown.
    pub kept_bytes: u64,
}

// === impl Phase ===

impl Phase {
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done { .. })
    }

    /// What is left of a finished execution; `None` before its end.
    pub fn remains(&self) -> Option<Remains> {
        match *self {
            Self::Done { finished_at, unpublished, kept_bytes, .. } => Some(Remains {
                finished_at,
                unpublished,
                kept_bytes: kept_bytes.unwrap_or_default(),
            }),
            Self::Accepted
            | Self::Preparing
            | Self::Withdrawing { .. }
            | Self::Starting { .. }
            | Self::Overtaken { .. }
            | Self::Running { .. }
            | Self::Stopping { .. }
            | Self::Collecting { .. } => None,
        }
    }

    /// Whether its process runs, or may yet: it then holds CPU, memory and GPUs.
    pub fn may_run(&self) -> bool {
        match self {
            Self::Accepted
            | Self::Preparing
            | Self::Withdrawing { .. }
            | Self::Starting { .. }
            | Self::Overtaken { .. }
            | Self::Running { .. }
            | Self::Stopping { .. } => true,
            Self::Collecting { .. } | Self::Done { .. } => false,
        }
    }

    /// Whether the ledger may record the phase after the effect started: `Preparing` is
    /// idempotent, and an execution found `Accepted` after a crash discards whatever was prepared.
    pub fn can_be_written_later(&self) -> bool {
        matches!(self, Self::Preparing)
    }

    /// The phase in one word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Accepted => "Accepted",
            Self::Preparing => "Preparing",
            Self::Withdrawing { .. } => "Withdrawing",
            Self::Starting { .. } | Self::Overtaken { .. } => "Starting",
            Self::Running { .. } => "Running",
            Self::Stopping { .. } => "Stopping",
            Self::Collecting { .. } => "Collecting",
            Self::Done { state, .. } => match state {
                ComputeState::Completed => "Completed",
                ComputeState::Cancelled => "Cancelled",
                ComputeState::AskForBidRejected | ComputeState::BidRejected => "Declined",
                ComputeState::Failed
                | ComputeState::Undefined
                | ComputeState::New
                | ComputeState::AskForBid
                | ComputeState::AskForBidAccepted
                | ComputeState::BidAccepted => "Failed",
            },
        }
    }

    pub(super) fn message(&self) -> &str {
        match self {
            Self::Withdrawing { message }
            | Self::Overtaken { message }
            | Self::Done { message, .. }
            | Self::Stopping { reason: StopReason::NoLongerWanted { message } } => message,
            Self::Stopping { reason: StopReason::ExecutionTimeout } => "execution timeout",
            Self::Stopping { reason: StopReason::Overfull(failure) } => &failure.message,
            Self::Collecting { verdict } => &verdict.message,
            Self::Accepted | Self::Preparing | Self::Starting { .. } | Self::Running { .. } => "",
        }
    }
}
