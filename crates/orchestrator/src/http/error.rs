//! Every way a request can fail, grouped by what its sender does about it.
//!
//! Each group has a file with its reasons, their codes and their words: what is wrong, and what to
//! do. Internal causes go to the log and never into a response.

mod absent;
mod bad_request;
mod busy;
mod call;
mod conflict;
mod denied;
#[cfg(test)]
mod tests;

use api_types::{ApiError, Code};
use axum::response::{IntoResponse, Response};
use control_plane::store::StoreError;
use scheduler::input::Refusal;
use serde_json::Value;
use tracing::Level;

use crate::driver::CallError;
use crate::json::shorten;
use crate::reads::ReadError;
use crate::shares::Refused;

pub(crate) use absent::{Absent, Kind, NotFoundCause};
pub(crate) use bad_request::BadRequest;
pub(crate) use busy::Busy;
pub(crate) use conflict::Conflict;
pub(crate) use denied::Denied;

/// When a caller may retry: a full queue empties and a lead is renewed within a second, a full disk
/// takes longer.
const RETRY_BUSY_SECONDS: u64 = 1;
const RETRY_STORE_SECONDS: u64 = 5;

/// Longest echo of a caller's text in a message; the text may be as long as a body.
const MAX_MESSAGE_CHARS: usize = 2000;

/// Why a request failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The request is not what the operation takes: its sender corrects it.
    BadRequest(BadRequest),
    /// Nothing has the name in the request: its sender names something else.
    Absent(Absent),
    /// The sender may not do this: someone else does, or it uses other credentials.
    Denied(Denied),
    /// The state does not permit it: the sender changes that first.
    Conflict(Conflict),
    /// Something is used up or away: the sender tries again.
    Busy(Busy),
    /// The driver refused the input, or could not take it.
    Call(CallError),
    /// The store could not be read.
    Store(StoreError),
    /// Only a bug in this program causes this.
    Internal { cause: String },
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let code = self.code();
        let (level, retry_after_seconds) = match self {
            // Another process answers soon, and the metrics count it.
            Self::Busy(Busy::LeadUncertain) => (Level::WARN, Some(RETRY_BUSY_SECONDS)),
            _ => treatment(code),
        };
        let message = shorten(self.message(), MAX_MESSAGE_CHARS);
        let error = ApiError::new(code, message).with_hint(self.hint());
        daemon::http::Refusal {
            error: ApiError { details: self.details(), ..error },
            retry_after_seconds,
            level,
            cause: self.cause(),
        }
        .into_response()
    }
}

/// How loudly the log reports a failure, and when its sender may try again. A caller's mistake does
/// not concern the operator.
fn treatment(code: Code) -> (Level, Option<u64>) {
    match code {
        Code::Internal => (Level::ERROR, None),
        Code::StoreUnavailable => (Level::ERROR, Some(RETRY_STORE_SECONDS)),
        Code::TooManyRequests => (Level::WARN, Some(RETRY_BUSY_SECONDS)),
        Code::ShuttingDown | Code::NodeUnavailable | Code::IssuerUnavailable => {
            (Level::INFO, Some(RETRY_STORE_SECONDS))
        }
        Code::MalformedBody
        | Code::InvalidJob
        | Code::InvalidQuery
        | Code::InvalidNextToken
        | Code::NoResultsForType
        | Code::InvalidRequest
        | Code::Unauthenticated
        | Code::Forbidden
        | Code::JobNotFound
        | Code::ExecutionNotFound
        | Code::NodeNotFound
        | Code::TokenNotFound
        | Code::GraphNotFound
        | Code::SecretNotFound
        | Code::CredentialNotFound
        | Code::GroupNotFound
        | Code::ScheduleNotFound
        | Code::NamespaceNotFound
        | Code::StreamNotFound
        | Code::ResultNotFound
        | Code::PathNotFound
        | Code::MethodNotAllowed
        | Code::AmbiguousId
        | Code::JobFinished
        | Code::JobNotFinished
        | Code::JobExists
        | Code::IdempotencyConflict
        | Code::NodeConflict
        | Code::Conflict
        | Code::StaleSession
        | Code::Gone
        | Code::BodyTooLarge
        | Code::UnsupportedMediaType
        | Code::MisdirectedRequest
        // Retrying in some seconds would not help: executions have to be placed first.
        | Code::QuotaExceeded => (Level::DEBUG, None),
    }
}

// === impl Failure ===

impl Failure {
    fn code(&self) -> Code {
        match self {
            Self::BadRequest(reason) => reason.code(),
            Self::Absent(reason) => reason.code(),
            Self::Denied(reason) => reason.code(),
            Self::Conflict(reason) => reason.code(),
            Self::Busy(reason) => reason.code(),
            Self::Call(error) => call::code(error),
            Self::Store(error) => code_of_store(error),
            Self::Internal { .. } => Code::Internal,
        }
    }

    fn message(&self) -> String {
        match self {
            Self::BadRequest(reason) => reason.message(),
            Self::Absent(reason) => reason.message(),
            Self::Denied(reason) => reason.message(),
            Self::Conflict(reason) => reason.message(),
            Self::Busy(reason) => reason.message(),
            Self::Call(error) => call::message(error),
            Self::Store(error) => match code_of_store(error) {
                Code::StoreUnavailable => "the state database is not available".to_owned(),
                _ => "an internal error occurred".to_owned(),
            },
            Self::Internal { .. } => "an internal error occurred".to_owned(),
        }
    }

    fn hint(&self) -> String {
        match self {
            Self::BadRequest(reason) => reason.hint().to_owned(),
            Self::Absent(reason) => reason.hint(),
            Self::Denied(reason) => reason.hint(),
            Self::Conflict(reason) => reason.hint().to_owned(),
            Self::Busy(reason) => reason.hint().to_owned(),
            Self::Call(error) => call::hint(error).to_owned(),
            Self::Store(_) => "try again".to_owned(),
            Self::Internal { .. } => {
                "the service log has the cause under this request ID".to_owned()
            }
        }
    }

    fn details(&self) -> Vec<Value> {
        match self {
            Self::BadRequest(reason) => reason.details(),
            Self::Absent(reason) => reason.details(),
            Self::Denied(_)
            | Self::Conflict(_)
            | Self::Busy(_)
            | Self::Call(_)
            | Self::Store(_)
            | Self::Internal { .. } => Vec::new(),
        }
    }

    /// For the log alone.
    fn cause(&self) -> String {
        match self {
            Self::Store(error) => chain(error),
            Self::Internal { cause } => cause.clone(),
            Self::BadRequest(_)
            | Self::Absent(_)
            | Self::Denied(_)
            | Self::Conflict(_)
            | Self::Busy(_)
            | Self::Call(_) => String::new(),
        }
    }
}

fn code_of_store(error: &StoreError) -> Code {
    match error {
        StoreError::Record { .. } | StoreError::CommitGap { .. } => Code::Internal,
        StoreError::LongSearch { .. } => Code::InvalidQuery,
        StoreError::Full { .. }
        | StoreError::Foreign { .. }
        | StoreError::Damaged { .. }
        | StoreError::Newer { .. }
        | StoreError::Backup { .. }
        | StoreError::InUse { .. }
        | StoreError::Fenced
        | StoreError::WentBack { .. }
        | StoreError::Unavailable
        | StoreError::Unusable { .. }
        | StoreError::Postgres(_)
        | StoreError::Sqlite(_)
        | StoreError::Io { .. } => Code::StoreUnavailable,
    }
}

pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

impl From<BadRequest> for Failure {
    fn from(reason: BadRequest) -> Self {
        Self::BadRequest(reason)
    }
}

impl From<Absent> for Failure {
    fn from(reason: Absent) -> Self {
        Self::Absent(reason)
    }
}

impl From<Denied> for Failure {
    fn from(reason: Denied) -> Self {
        Self::Denied(reason)
    }
}

impl From<Conflict> for Failure {
    fn from(reason: Conflict) -> Self {
        Self::Conflict(reason)
    }
}

impl From<Busy> for Failure {
    fn from(reason: Busy) -> Self {
        Self::Busy(reason)
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        Busy::LimitReached(refused).into()
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(Refusal::JobFinished { job, state }) => {
                Conflict::JobFinished { job, state }.into()
            }
            error => Self::Call(error),
        }
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::TooMany(refused) => refused.into(),
            ReadError::Store(error) => error.into(),
            ReadError::Busy { waited } => Busy::Readers { waited }.into(),
            ReadError::Failed { cause } => Self::Internal { cause },
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::LongSearch { .. } => BadRequest::Query {
                reason: format!("{error}: add a filter that fewer jobs pass"),
                permitted: Vec::new(),
            }
            .into(),
            error => Self::Store(error),
        }
    }
}
