//! Everything a request can end with that is not 2xx: its status, its code, its log level.
//!
//! [`words`] has what the caller is told.

mod words;

use std::sync::Arc;
use std::time::Duration;

use api_types::engine::UnknownWord;
use api_types::error::FieldError;
use api_types::job::{JobStateType, JobType};
use api_types::{ApiError, Code, JobId, NodeId};
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode, header};
use tracing::Level;

use crate::driver::CallError;
use crate::engine::input::Refusal;
use crate::json::shorten;
use crate::store::StoreError;

/// When a caller may come again: a full queue empties within a second, a full disk does not.
const RETRY_BUSY_SECONDS: u64 = 1;
const RETRY_STORE_SECONDS: u64 = 5;

/// Messages repeat what came, and that may be as long as a body.
const MAX_MESSAGE_CHARS: usize = 2000;

/// Why a request was not carried out.
#[derive(Debug)]
pub(crate) enum Failure {
    MalformedBody {
        reason: String,
    },
    BodyTooSlow,
    BodyTooLarge,
    /// The body has a content type that is not JSON, or none.
    UnsupportedMediaType {
        came: Option<String>,
    },
    InvalidJob(Vec<FieldError>),
    /// Another body than a job is wrong.
    InvalidBody(Vec<FieldError>),
    InvalidQuery {
        reason: String,
        permitted: Vec<&'static str>,
    },
    InvalidNextToken {
        reason: &'static str,
    },
    InvalidHeader {
        name: &'static str,
        reason: String,
    },
    UnknownNodeAction(UnknownWord),
    NoResultsForType {
        job: JobId,
        job_type: JobType,
    },
    NotFound {
        kind: Kind,
        text: String,
        cause: NotFoundCause,
    },
    PathNotFound {
        path: String,
    },
    MethodNotAllowed {
        method: String,
        path: String,
    },
    Ambiguous {
        kind: Kind,
        text: String,
        candidates: Vec<String>,
    },
    JobFinished {
        job: JobId,
        state: JobStateType,
    },
    /// The orchestrator's own node record was to be changed.
    OwnNode(NodeId),
    Gone {
        path: String,
        operation: Option<&'static str>,
    },
    Call(CallError),
    Store(StoreError),
    /// Nobody waits for what an agent sends.
    StreamNotFound {
        stream: String,
    },
    /// What is asked for is only to be had from a node that is away.
    NodeUnavailable(NodeId),
    /// All readers of the store were busy for too long.
    ReadersBusy {
        waited: Duration,
    },
    /// As many requests stay open as may.
    NoPlace {
        what: &'static str,
        count: usize,
    },
    /// Only a fault of this program ends here; the text goes to the log, never to the caller.
    Internal {
        cause: String,
    },
}

/// What an identifier in a path or a query names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Job,
    Execution,
    Node,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotFoundCause {
    /// There is none with this ID.
    Absent,
    /// The text is neither an ID nor the beginning of one.
    Malformed,
}

/// What the edge finds in a response that a failure made.
#[derive(Clone)]
pub(super) struct Failed(pub(super) Arc<Failure>);

impl IntoResponse for Failure {
    /// The edge fills in the body, with the request id and as pretty as was asked for.
    fn into_response(self) -> Response {
        let mut response = self.code().status_code().into_response();
        if let Some(seconds) = self.retry_after_seconds() {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response.extensions_mut().insert(Failed(Arc::new(self)));
        response
    }
}

trait StatusOf {
    fn status_code(self) -> StatusCode;
}

impl StatusOf for Code {
    fn status_code(self) -> StatusCode {
        StatusCode::from_u16(self.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

// === impl Failure ===

impl Failure {
    pub(super) fn envelope(&self, request_id: &str) -> ApiError {
        let message = shorten(self.message(), MAX_MESSAGE_CHARS);
        let error = ApiError::new(self.code(), message).with_hint(self.hint());
        ApiError { details: self.details(), request_id: request_id.to_owned(), ..error }
    }

    fn code(&self) -> Code {
        match self {
            Self::MalformedBody { .. } | Self::BodyTooSlow => Code::MalformedBody,
            Self::BodyTooLarge => Code::BodyTooLarge,
            Self::UnsupportedMediaType { .. } => Code::UnsupportedMediaType,
            Self::InvalidJob(_) => Code::InvalidJob,
            Self::InvalidBody(_) | Self::InvalidHeader { .. } | Self::UnknownNodeAction(_) => {
                Code::InvalidRequest
            }
            Self::InvalidQuery { .. } => Code::InvalidQuery,
            Self::InvalidNextToken { .. } => Code::InvalidNextToken,
            Self::NoResultsForType { .. } => Code::NoResultsForType,
            Self::NotFound { kind, .. } => match kind {
                Kind::Job => Code::JobNotFound,
                Kind::Execution => Code::ExecutionNotFound,
                Kind::Node => Code::NodeNotFound,
            },
            Self::PathNotFound { .. } => Code::PathNotFound,
            Self::MethodNotAllowed { .. } => Code::MethodNotAllowed,
            Self::Ambiguous { .. } => Code::AmbiguousId,
            Self::JobFinished { .. } => Code::JobFinished,
            Self::OwnNode(_) => Code::NodeConflict,
            Self::Gone { .. } => Code::Gone,
            Self::Call(error) => code_of_call(error),
            Self::Store(error) => code_of_store(error),
            Self::ReadersBusy { .. } | Self::NoPlace { .. } => Code::TooManyRequests,
            Self::StreamNotFound { .. } => Code::StreamNotFound,
            Self::NodeUnavailable(_) => Code::NodeUnavailable,
            Self::Internal { .. } => Code::Internal,
        }
    }

    fn retry_after_seconds(&self) -> Option<u64> {
        match self.code() {
            Code::TooManyRequests => Some(RETRY_BUSY_SECONDS),
            Code::NodeUnavailable | Code::StoreUnavailable | Code::ShuttingDown => {
                Some(RETRY_STORE_SECONDS)
            }
            _ => None,
        }
    }

    /// What a caller did wrong is of no interest to who runs the service.
    fn level(&self) -> Level {
        match self.code() {
            Code::Internal | Code::StoreUnavailable => Level::ERROR,
            Code::TooManyRequests => Level::WARN,
            Code::ShuttingDown | Code::NodeUnavailable => Level::INFO,
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
            | Code::StreamNotFound
            | Code::PathNotFound
            | Code::MethodNotAllowed
            | Code::AmbiguousId
            | Code::JobFinished
            | Code::JobExists
            | Code::IdempotencyConflict
            | Code::NodeConflict
            | Code::StaleSession
            | Code::Gone
            | Code::BodyTooLarge
            | Code::UnsupportedMediaType => Level::DEBUG,
        }
    }

    /// Writes the failure down once, with causes that the caller is not told.
    pub(super) fn log(&self) {
        let message = self.message();
        let cause = match self {
            Self::Store(error) => chain(error),
            Self::Internal { cause } => cause.clone(),
            _ => String::new(),
        };
        let level = self.level();
        if level == Level::ERROR {
            tracing::error!(%cause, "{message}");
        } else if level == Level::WARN {
            tracing::warn!(%cause, "{message}");
        } else if level == Level::INFO {
            tracing::info!("{message}");
        } else {
            tracing::debug!("{message}");
        }
    }
}

fn code_of_call(error: &CallError) -> Code {
    match error {
        CallError::Refused(refusal) => match refusal {
            Refusal::JobNotLive(_) => Code::JobNotFound,
            Refusal::JobFinished { .. } => Code::JobFinished,
            Refusal::JobExists(_) => Code::JobExists,
            Refusal::NoSuchNode(_) => Code::NodeNotFound,
            Refusal::StaleSession { .. } | Refusal::LeaseExpired(_) => Code::StaleSession,
            Refusal::NodeRejected(_) => Code::Forbidden,
            Refusal::NodeConnected(_) => Code::NodeConflict,
        },
        CallError::IdempotencyConflict => Code::IdempotencyConflict,
        CallError::QueueFull => Code::TooManyRequests,
        CallError::StoreUnavailable => Code::StoreUnavailable,
        CallError::Stopping => Code::ShuttingDown,
    }
}

fn code_of_store(error: &StoreError) -> Code {
    match error {
        StoreError::Record { .. } | StoreError::CommitGap { .. } => Code::Internal,
        StoreError::Full { .. }
        | StoreError::Foreign { .. }
        | StoreError::Damaged { .. }
        | StoreError::Newer { .. }
        | StoreError::InUse { .. }
        | StoreError::Sqlite(_)
        | StoreError::Io { .. } => Code::StoreUnavailable,
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(Refusal::JobFinished { job, state }) => {
                Self::JobFinished { job, state }
            }
            error => Self::Call(error),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// The header that carries the request id, in and out.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
