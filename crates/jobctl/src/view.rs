//! Records for people: columns, words and colours.

mod access;
mod describe;
mod dry_run;
mod event;
mod execution;
mod history;
mod job;
mod node;
mod usage;

pub(crate) use access::{credential_fields, namespace_fields, secret_fields};
pub(crate) use describe::{execution_fields, job_fields, node_fields};
pub(crate) use dry_run::DryRunRow;
pub(crate) use event::NumberedEvent;
pub(crate) use execution::state_word;
pub(crate) use history::NodeEvent;
pub(crate) use usage::Consumer;

use api_types::execution::ComputeState;
use api_types::job::JobStateType;

use crate::output::Tone;

pub(crate) const fn job_tone(state: JobStateType) -> Tone {
    match state {
        JobStateType::Pending | JobStateType::Queued => Tone::Waiting,
        JobStateType::Running => Tone::Active,
        JobStateType::Completed => Tone::Good,
        JobStateType::Failed => Tone::Bad,
        JobStateType::Stopped => Tone::Faint,
    }
}

const fn compute_tone(state: ComputeState) -> Tone {
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
