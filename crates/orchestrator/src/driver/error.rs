//! Why a call is not carried out, and why the driver ends.

use std::time::Duration;

use control_plane::records::RecordRefusal;
use control_plane::step::Failure;
use scheduler::input::Refusal;

/// Why a call was not carried out. Nothing was stored, unless the error says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("the idempotency key came with another body before")]
    IdempotencyConflict,
    #[error(transparent)]
    Record(#[from] RecordRefusal),
    #[error("too many requests wait already")]
    QueueFull,
    /// The caller's share of the queue is in use.
    #[error("{reason}")]
    QueueShare { reason: String, hint: &'static str },
    #[error("the store cannot be written to")]
    StoreUnavailable,
    #[error("whether the request was stored is unknown: the state database did not answer")]
    OutcomeUnknown,
    #[error("the orchestrator is stopping")]
    Stopping,
}

/// Why the driver cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    #[error(transparent)]
    Step(#[from] Failure),
    /// Another process may succeed.
    #[error(
        "loading the state hangs: nothing was read for {} s; check the state database",
        .for_as_long_as.as_secs()
    )]
    LoadHangs { for_as_long_as: Duration },
    /// Two machines have the same identity.
    #[error("{0}")]
    Identity(String),
    #[error("start the driver's thread")]
    Thread(#[source] std::io::Error),
    #[error("the driver's thread ended without reporting an error")]
    Vanished,
}
