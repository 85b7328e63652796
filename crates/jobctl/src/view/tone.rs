//! Colours of states.

use api_types::execution::ComputeState;
use api_types::job::JobStateType;

use crate::output::Tone;

/// The colour of a job's state.
pub(crate) const fn job_tone(state: JobStateType) -> Tone {
    match state {
        JobStateType::Pending | JobStateType::Queued => Tone::Waiting,
        JobStateType::Running => Tone::Active,
        JobStateType::Completed => Tone::Good,
        JobStateType::Failed => Tone::Bad,
        JobStateType::Stopped => Tone::Faint,
    }
}

/// The colour of an execution's state.
pub(super) const fn compute_tone(state: ComputeState) -> Tone {
    match state {
        ComputeState::Undefined
        | ComputeState::New
        | ComputeState::AskForBid
        | ComputeState::AskForBidAccepted => Tone::Waiting,
        ComputeState::BidAccepted => Tone::Active,
        ComputeState::Completed => Tone::Good,
        ComputeState::Failed => Tone::Bad,
        ComputeState::AskForBidRejected | ComputeState::BidRejected | ComputeState::Cancelled => {
            Tone::Faint
        }
    }
}
