//! Where an execution stands; each phase owns what is true only then.

use api_types::Timestamp;
use api_types::execution::ComputeState;
use serde::{Deserialize, Serialize};

use super::{Failure, Verdict};

/// What the ledger keeps of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Phase {
    /// Taken on; waits to be told to run.
    Accepted,
    /// Its image and inputs are being fetched and its container made.
    Preparing,
    /// As `Preparing`, but no longer wanted.
    Withdrawing {
        message: String,
    },
    Starting,
    /// As `Starting`, but no longer wanted.
    Overtaken {
        message: String,
    },
    Running {
        started_at: Timestamp,
    },
    /// Told to end; its process may still run.
    Stopping {
        reason: StopReason,
    },
    /// Its process has ended; output and results are being taken in and published.
    Collecting {
        verdict: Verdict,
    },
    Done {
        state: ComputeState,
        message: String,
        finished_at: Timestamp,
    },
}

/// Why a running task is made to end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopReason {
    NoLongerWanted {
        message: String,
    },
    ExecutionTimeout,
    /// There is no more room for what it writes.
    Overfull(Failure),
}

// === impl Phase ===

impl Phase {
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done { .. })
    }

    /// Whether the ledger may get it after it was acted upon: what `Preparing` makes is taken as
    /// it is by whoever prepares once more, and discarded with an execution that is accepted.
    pub fn can_be_written_later(&self) -> bool {
        matches!(self, Self::Preparing)
    }

    /// The phase in one word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Accepted => "Accepted",
            Self::Preparing => "Preparing",
            Self::Withdrawing { .. } => "Withdrawing",
            Self::Starting | Self::Overtaken { .. } => "Starting",
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
            Self::Accepted | Self::Preparing | Self::Starting | Self::Running { .. } => "",
        }
    }
}
