//! Every way a request can fail: its status, its code, its log level.
//!
//! [`words`] holds the messages for the caller.

mod words;

use std::time::Duration;

use api_types::access::Role;
use api_types::engine::UnknownWord;
use api_types::error::FieldError;
use api_types::job::{JobStateType, JobType};
use api_types::{ApiError, Code, ExecutionId, JobId, NodeId};
use axum::response::{IntoResponse, Response};
use control_plane::records::RecordRefusal;
use control_plane::store::StoreError;

use scheduler::input::Refusal;
use tracing::Level;

use crate::access::Needs;
use crate::access::exchange::ExchangeRefusal;
use crate::access::node::NodeRefusal;
use crate::access::token::Invalid;
use crate::driver::CallError;
use crate::json::shorten;
use crate::reads::ReadError;
use crate::rotation::RotationRefusal;

/// When a caller may retry: a full queue empties within a second, a full disk does not.
const RETRY_BUSY_SECONDS: u64 = 1;
const RETRY_STORE_SECONDS: u64 = 5;

/// Longest echo of a caller's text in a message; the text may be as long as a body.
const MAX_MESSAGE_CHARS: usize = 2000;

/// Why a request failed.
#[derive(Debug)]
pub(crate) enum Failure {
    MalformedBody {
        reason: String,
    },
    BodyTooSlow,
    BodyTooLarge,
    /// The body has no content type, or one that is not JSON.
    UnsupportedMediaType {
        found: Option<String>,
    },
    InvalidJob(Vec<FieldError>),
    /// A body other than a job is invalid.
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
    /// Or none that the caller has a role in.
    NoSuchNamespace {
        name: String,
        /// Those that the caller has a role in, unless it sees all.
        own: Vec<String>,
    },
    PathNotFound {
        path: String,
    },
    MethodNotAllowed {
        method: String,
        path: String,
    },
    /// The request names a host that is not this service.
    OtherHost {
        host: String,
    },
    /// A browser sent the request for a page of another origin.
    ForeignOrigin {
        header: &'static str,
        value: String,
    },
    /// The operation needs credentials, and the request has none.
    NoCredentials,
    InvalidCredentials(Invalid),
    /// The caller's role is too low, in the namespace where there is one.
    NotPermitted {
        needs: Needs,
        namespace: Option<String>,
    },
    /// A node, or a join token, is refused.
    Node(NodeRefusal),
    /// An ID token is refused, or nobody can say whether it is good.
    Exchange(ExchangeRefusal),
    /// A key of the cluster is not replaced.
    Rotation(RotationRefusal),
    /// An owner cannot give away more than it has.
    RoleBeyondOwn {
        role: Role,
    },
    NamespaceInUse {
        namespace: String,
        reason: String,
    },
    /// A task names a secret that its namespace does not have.
    MissingSecret {
        name: String,
        namespace: String,
    },
    /// A task names credentials that its namespace does not have.
    MissingCredential {
        name: String,
        namespace: String,
    },
    /// The value of a secret would go over plain HTTP to or from another machine.
    UnprotectedSecret,
    /// A proxy in front of a listener that trusts every caller.
    Proxied {
        header: &'static str,
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
    /// The request would change the orchestrator's own node record.
    OwnNode(NodeId),
    Gone {
        path: String,
        operation: Option<&'static str>,
    },
    Call(CallError),
    Store(StoreError),
    /// No reader waits for the output that an agent sends.
    StreamNotFound {
        stream: String,
    },
    /// There is no such archive, or no such file in it.
    NoArchive {
        execution: ExecutionId,
        reason: String,
    },
    /// Only a disconnected node has what was requested.
    NodeUnavailable(NodeId),
    /// All readers of the store stayed busy too long.
    ReadersBusy {
        waited: Duration,
    },
    /// The limit of open requests of this kind is reached.
    LimitReached {
        what: &'static str,
        count: usize,
    },
    /// Only a bug in this program causes this; the text goes to the log, never to the caller.
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
    Token,
    Secret,
    Credential,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotFoundCause {
    /// No record has this ID.
    Absent,
    /// The text is neither an ID nor the prefix of one.
    Malformed,
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let message = shorten(self.message(), MAX_MESSAGE_CHARS);
        let error = ApiError::new(self.code(), message).with_hint(self.hint());
        let cause = match &self {
            Self::Store(error) => chain(error),
            Self::Internal { cause } => cause.clone(),
            _ => String::new(),
        };
        daemon::http::Refusal {
            error: ApiError { details: self.details(), ..error },
            retry_after_seconds: self.retry_after_seconds(),
            level: self.level(),
            cause,
        }
        .into_response()
    }
}

// === impl Failure ===

impl Failure {
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
                Kind::Token => Code::TokenNotFound,
                Kind::Secret => Code::SecretNotFound,
                Kind::Credential => Code::CredentialNotFound,
            },
            Self::NoSuchNamespace { .. } => Code::NamespaceNotFound,
            Self::PathNotFound { .. } => Code::PathNotFound,
            Self::MethodNotAllowed { .. } => Code::MethodNotAllowed,
            Self::OtherHost { .. } => Code::MisdirectedRequest,
            Self::NoCredentials | Self::InvalidCredentials(_) => Code::Unauthenticated,
            Self::ForeignOrigin { .. }
            | Self::Proxied { .. }
            | Self::NotPermitted { .. }
            | Self::UnprotectedSecret
            | Self::RoleBeyondOwn { .. } => Code::Forbidden,
            Self::Node(refusal) => refusal.code(),
            Self::Exchange(refusal) => refusal.code(),
            Self::NamespaceInUse { .. } | Self::Rotation(_) => Code::Conflict,
            Self::MissingSecret { .. } => Code::SecretNotFound,
            Self::MissingCredential { .. } => Code::CredentialNotFound,
            Self::Ambiguous { .. } => Code::AmbiguousId,
            Self::JobFinished { .. } => Code::JobFinished,
            Self::OwnNode(_) => Code::NodeConflict,
            Self::Gone { .. } => Code::Gone,
            Self::Call(error) => code_of_call(error),
            Self::Store(error) => code_of_store(error),
            Self::ReadersBusy { .. } | Self::LimitReached { .. } => Code::TooManyRequests,
            Self::StreamNotFound { .. } => Code::StreamNotFound,
            Self::NodeUnavailable(_) => Code::NodeUnavailable,
            Self::NoArchive { .. } => Code::ResultNotFound,
            Self::Internal { .. } => Code::Internal,
        }
    }

    fn retry_after_seconds(&self) -> Option<u64> {
        match self.code() {
            Code::TooManyRequests => Some(RETRY_BUSY_SECONDS),
            Code::NodeUnavailable
            | Code::StoreUnavailable
            | Code::IssuerUnavailable
            | Code::ShuttingDown => Some(RETRY_STORE_SECONDS),
            _ => None,
        }
    }

    /// A caller's mistake does not concern the operator.
    fn level(&self) -> Level {
        match self.code() {
            Code::Internal | Code::StoreUnavailable => Level::ERROR,
            Code::TooManyRequests => Level::WARN,
            Code::ShuttingDown | Code::NodeUnavailable | Code::IssuerUnavailable => Level::INFO,
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
            | Code::SecretNotFound
            | Code::CredentialNotFound
            | Code::NamespaceNotFound
            | Code::StreamNotFound
            | Code::ResultNotFound
            | Code::PathNotFound
            | Code::MethodNotAllowed
            | Code::AmbiguousId
            | Code::JobFinished
            | Code::JobExists
            | Code::IdempotencyConflict
            | Code::NodeConflict
            | Code::Conflict
            | Code::StaleSession
            | Code::Gone
            | Code::BodyTooLarge
            | Code::UnsupportedMediaType
            | Code::MisdirectedRequest => Level::DEBUG,
        }
    }
}

fn code_of_call(error: &CallError) -> Code {
    match error {
        CallError::Refused(refusal) => refusal.code(),
        CallError::IdempotencyConflict => Code::IdempotencyConflict,
        CallError::Record(refusal) => match refusal {
            RecordRefusal::Changed(_) | RecordRefusal::TooMany(_) => Code::Conflict,
            RecordRefusal::TooLarge(_) => Code::InvalidRequest,
        },
        CallError::QueueFull => Code::TooManyRequests,
        CallError::StoreUnavailable | CallError::OutcomeUnknown => Code::StoreUnavailable,
        CallError::Stopping => Code::ShuttingDown,
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
        | StoreError::Unavailable
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

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Store(error) => error.into(),
            ReadError::Busy { waited } => Self::ReadersBusy { waited },
            ReadError::Failed { cause } => Self::Internal { cause },
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::LongSearch { .. } => Self::InvalidQuery {
                reason: format!("{error}: add a filter that fewer jobs pass"),
                permitted: Vec::new(),
            },
            error => Self::Store(error),
        }
    }
}
