//! What the driver says about an input, in the words of the API.

use api_types::Code;
use control_plane::records::RecordRefusal;
use scheduler::input::Refusal;

use super::absent::Kind;
use crate::driver::CallError;

/// What to do before a group can be deleted.
const GROUP_IN_USE: &str = "stop them or wait until they have ended; Limit 0 pauses the group";

pub(super) fn code(error: &CallError) -> Code {
    match error {
        CallError::Refused(refusal) => refusal.code(),
        CallError::IdempotencyConflict => Code::IdempotencyConflict,
        CallError::Record(refusal) => match refusal {
            RecordRefusal::Changed(_) | RecordRefusal::TooMany(_) | RecordRefusal::InUse { .. } => {
                Code::Conflict
            }
            RecordRefusal::TooLarge(_) | RecordRefusal::NoRoom { .. } => Code::InvalidRequest,
        },
        CallError::QueueFull | CallError::QueueShare { .. } => Code::TooManyRequests,
        CallError::StoreUnavailable | CallError::OutcomeUnknown => Code::StoreUnavailable,
        CallError::Stopping => Code::ShuttingDown,
    }
}

pub(super) fn message(error: &CallError) -> String {
    match error {
        CallError::StoreUnavailable => "the state database is not available".to_owned(),
        CallError::Refused(_)
        | CallError::Record(_)
        | CallError::IdempotencyConflict
        | CallError::QueueFull
        | CallError::QueueShare { .. }
        | CallError::OutcomeUnknown
        | CallError::Stopping => error.to_string(),
    }
}

pub(super) fn hint(error: &CallError) -> &'static str {
    match error {
        CallError::Refused(refusal) => match refusal {
            Refusal::JobNotLive(_) => Kind::JOB_HINT,
            Refusal::NoSuchNode(_) => Kind::NODE_HINT,
            Refusal::StaleSession { .. } | Refusal::LeaseExpired(_) => {
                "join again with PUT /api/v1/orchestrator/nodes/:nodeID/session"
            }
            Refusal::NoSuchGroup(_) => "create it with PUT /api/v1/orchestrator/groups/:name",
            Refusal::GroupShared { .. } => "use Queue, or a group with Limit 1",
            Refusal::GroupInUse { .. } => GROUP_IN_USE,
            Refusal::QuotaExceeded { .. } => "submit it again when fewer executions wait",
            Refusal::TooManySlots { .. } => {
                "split the job, or ask an admin to raise QueuedExecutions of the namespace"
            }
            Refusal::JobExists(_) => "choose another ID",
            Refusal::DependencyMissing { .. } => "name jobs that are still listed",
            Refusal::SecondAgent { .. } => {
                "stop one of the two; to make this one a separate node, remove ledger.sqlite* and \
                 identity.json from its data directory, and start it again"
            }
            Refusal::AgentOnTrial(_) => "try again",
            Refusal::NodeBusy { .. } => {
                "wait until they are given up, or add now=true to give them up immediately"
            }
            Refusal::JobFinished { .. }
            | Refusal::NodeRejected(_)
            | Refusal::NodeConnected(_)
            | Refusal::SlotWithoutNode { .. }
            | Refusal::TooScattered { .. } => "",
        },
        CallError::IdempotencyConflict => "use a new key for a new job",
        CallError::Record(RecordRefusal::Changed(_)) => "read it again and repeat the change",
        CallError::Record(RecordRefusal::TooMany(_)) => "remove what is no longer used",
        CallError::Record(RecordRefusal::TooLarge(_)) => "make it smaller",
        CallError::Record(RecordRefusal::InUse { .. }) => GROUP_IN_USE,
        CallError::Record(RecordRefusal::NoRoom { .. }) => "",
        CallError::OutcomeUnknown => "try again with the same idempotency key",
        CallError::QueueShare { hint, .. } => hint,
        CallError::QueueFull | CallError::StoreUnavailable | CallError::Stopping => "try again",
    }
}
