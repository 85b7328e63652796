//! Everything a request can end with that is not 2xx: its status, its code, its words, its log level.

use std::sync::Arc;
use std::time::Duration;

use api_types::engine::UnknownWord;
use api_types::error::FieldError;
use api_types::job::{JobStateType, JobType};
use api_types::{ApiError, Code, JobId, NodeId};
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde_json::Value;
use tracing::Level;

use super::body::{BODY_TIMEOUT, MAX_BODY_BYTES};
use crate::driver::CallError;
use crate::engine::input::Refusal;
use crate::store::StoreError;

/// When a caller may come again: a full queue empties within a second, a full disk does not.
const RETRY_BUSY_SECONDS: u64 = 1;
const RETRY_STORE_SECONDS: u64 = 5;

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
    /// All readers of the store were busy for too long.
    ReadersBusy {
        waited: Duration,
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
        let error = ApiError::new(self.code(), self.message()).with_hint(self.hint());
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
            Self::ReadersBusy { .. } => Code::TooManyRequests,
            Self::Internal { .. } => Code::Internal,
        }
    }

    fn message(&self) -> String {
        match self {
            Self::MalformedBody { reason } => reason.clone(),
            Self::BodyTooSlow => {
                format!("the body did not arrive within {} seconds", BODY_TIMEOUT.as_secs())
            }
            Self::BodyTooLarge => format!("the body is larger than {MAX_BODY_BYTES} bytes"),
            Self::UnsupportedMediaType { came: Some(came) } => {
                format!("the body's content type is '{came}', not JSON")
            }
            Self::UnsupportedMediaType { came: None } => "the body has no content type".to_owned(),
            Self::InvalidJob(problems) => format!("the job is invalid: {}", told(problems)),
            Self::InvalidBody(problems) => format!("the body is invalid: {}", told(problems)),
            Self::InvalidQuery { reason, .. } => reason.clone(),
            Self::InvalidNextToken { reason } => (*reason).to_owned(),
            Self::InvalidHeader { name, reason } => format!("header {name} {reason}"),
            Self::UnknownNodeAction(word) => word.to_string(),
            Self::NoResultsForType { job, job_type } => {
                format!("job {job} is a {job_type} job; only batch and ops jobs have results")
            }
            Self::NotFound { kind, text, .. } => format!("no {} matches '{text}'", kind.noun()),
            Self::PathNotFound { path } => format!("no operation has the path {path}"),
            Self::MethodNotAllowed { method, path } => {
                format!("{path} does not take the method {method}")
            }
            Self::Ambiguous { kind, text, .. } => {
                format!("more than one {} matches '{text}'", kind.noun())
            }
            Self::JobFinished { job, state } => {
                format!("job {job} is {state} already and cannot be stopped")
            }
            Self::OwnNode(node) => {
                format!("node {node} is the orchestrator itself; no action applies to it")
            }
            Self::Gone { path, operation: Some(operation) } => {
                format!("{path} is gone; it is replaced by {operation}")
            }
            Self::Gone { path, operation: None } => {
                format!("{path} is gone; the requester group is replaced by /api/v1/orchestrator/")
            }
            Self::Call(error) => message_of_call(error),
            Self::Store(error) => match code_of_store(error) {
                Code::StoreUnavailable => "the state database is not available".to_owned(),
                _ => "the service failed on this request".to_owned(),
            },
            Self::ReadersBusy { waited } => {
                format!("the state database was busy for {} seconds", waited.as_secs())
            }
            Self::Internal { .. } => "the service failed on this request".to_owned(),
        }
    }

    fn hint(&self) -> String {
        match self {
            Self::UnsupportedMediaType { .. } => {
                "send the body with 'Content-Type: application/json'".to_owned()
            }
            Self::InvalidNextToken { .. } => {
                "send a NextToken with the operation, order_by and reverse that it came from, or \
                 none to begin anew"
                    .to_owned()
            }
            Self::NotFound { kind, cause, .. } => kind.hint(*cause),
            Self::PathNotFound { .. } => "the operations are listed in docs/api.md".to_owned(),
            Self::Ambiguous { .. } => "give more characters of the ID".to_owned(),
            Self::JobFinished { .. } => "nothing is left to be stopped".to_owned(),
            Self::Call(error) => hint_of_call(error).to_owned(),
            Self::Store(_) | Self::ReadersBusy { .. } => "try again".to_owned(),
            Self::Internal { .. } => "the log has the cause under the request id".to_owned(),
            Self::MalformedBody { .. }
            | Self::BodyTooSlow
            | Self::BodyTooLarge
            | Self::InvalidJob(_)
            | Self::InvalidBody(_)
            | Self::InvalidQuery { .. }
            | Self::InvalidHeader { .. }
            | Self::UnknownNodeAction(_)
            | Self::NoResultsForType { .. }
            | Self::MethodNotAllowed { .. }
            | Self::OwnNode(_)
            | Self::Gone { .. } => String::new(),
        }
    }

    fn details(&self) -> Vec<Value> {
        match self {
            Self::InvalidJob(problems) | Self::InvalidBody(problems) => problems
                .iter()
                .map(|FieldError { path, reason }| {
                    serde_json::json!({ "Path": path, "Reason": reason })
                })
                .collect(),
            Self::InvalidQuery { permitted, .. } => {
                permitted.iter().map(|word| Value::from(*word)).collect()
            }
            Self::Ambiguous { candidates, .. } => {
                candidates.iter().map(|id| Value::from(id.as_str())).collect()
            }
            _ => Vec::new(),
        }
    }

    fn retry_after_seconds(&self) -> Option<u64> {
        match self.code() {
            Code::TooManyRequests => Some(RETRY_BUSY_SECONDS),
            Code::StoreUnavailable | Code::ShuttingDown => Some(RETRY_STORE_SECONDS),
            _ => None,
        }
    }

    /// What a caller did wrong is of no interest to who runs the service.
    fn level(&self) -> Level {
        match self.code() {
            Code::Internal | Code::StoreUnavailable => Level::ERROR,
            Code::TooManyRequests => Level::WARN,
            Code::ShuttingDown => Level::INFO,
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
    pub(super) fn log(&self, request_id: &str, method: &http::Method, path: &str) {
        let message = self.message();
        let cause = match self {
            Self::Store(error) => chain(error),
            Self::Internal { cause } => cause.clone(),
            _ => String::new(),
        };
        let level = self.level();
        if level == Level::ERROR {
            tracing::error!(%request_id, %method, %path, %cause, "{message}");
        } else if level == Level::WARN {
            tracing::warn!(%request_id, %method, %path, %cause, "{message}");
        } else if level == Level::INFO {
            tracing::info!(%request_id, %method, %path, "{message}");
        } else {
            tracing::debug!(%request_id, %method, %path, "{message}");
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

fn message_of_call(error: &CallError) -> String {
    match error {
        CallError::StoreUnavailable => "the state database is not available".to_owned(),
        CallError::Refused(_)
        | CallError::IdempotencyConflict
        | CallError::QueueFull
        | CallError::Stopping => error.to_string(),
    }
}

fn hint_of_call(error: &CallError) -> &'static str {
    match error {
        CallError::Refused(refusal) => match refusal {
            Refusal::JobNotLive(_) => Kind::JOB_HINT,
            Refusal::NoSuchNode(_) => Kind::NODE_HINT,
            Refusal::StaleSession { .. } | Refusal::LeaseExpired(_) => {
                "join again with PUT /api/v1/orchestrator/nodes/:nodeID/session"
            }
            Refusal::JobExists(_) => "choose another ID, or stop and watch the job that has it",
            Refusal::JobFinished { .. } | Refusal::NodeRejected(_) | Refusal::NodeConnected(_) => {
                ""
            }
        },
        CallError::IdempotencyConflict => "use a new key for a new job",
        CallError::QueueFull | CallError::StoreUnavailable | CallError::Stopping => "try again",
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

/// The first problem, and how many there are.
fn told(problems: &[FieldError]) -> String {
    let Some(FieldError { path, reason }) = problems.first() else { return String::new() };
    let place = if path.is_empty() { "the body" } else { path };
    match problems.len() {
        1 => format!("{place}: {reason}"),
        count => format!("{place}: {reason} ({count} problems in all, see Details)"),
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

// === impl Kind ===

impl Kind {
    const JOB_HINT: &str = "list jobs with GET /api/v1/orchestrator/jobs";
    const NODE_HINT: &str = "list nodes with GET /api/v1/orchestrator/nodes";

    const fn noun(self) -> &'static str {
        match self {
            Self::Job => "job",
            Self::Execution => "execution",
            Self::Node => "node",
        }
    }

    fn hint(self, cause: NotFoundCause) -> String {
        let (letter, list) = match self {
            Self::Job => ('j', Self::JOB_HINT),
            Self::Execution => {
                ('e', "list executions with GET /api/v1/orchestrator/jobs/:jobID/executions")
            }
            Self::Node => ('n', Self::NODE_HINT),
        };
        match cause {
            NotFoundCause::Absent => list.to_owned(),
            NotFoundCause::Malformed => format!(
                "an ID is '{letter}-' followed by a UUID, or by at least its first 8 characters; \
                 {list}"
            ),
        }
    }
}

/// The header that carries the request id, in and out.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
