//! The error envelope: the body of every response that is not 2xx.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Error codes; `docs/api.md`, "Errors", says what a caller does about each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Code {
    /// 400: the body is not JSON, or nested too deeply.
    MalformedBody,
    /// 400: the job is invalid; `Details` lists paths and reasons.
    InvalidJob,
    /// 400: a query parameter is invalid; `Details` may list the permitted values.
    InvalidQuery,
    /// 400: the `next_token` does not come from this operation with this order.
    InvalidNextToken,
    /// 400: only batch and ops jobs have results.
    NoResultsForType,
    /// 400: any other invalid request (a header, a node action).
    InvalidRequest,
    /// 401: the request needs credentials, or its own are not valid (any more).
    Unauthenticated,
    /// 403: the caller may not do this.
    Forbidden,
    /// 404.
    JobNotFound,
    /// 404.
    ExecutionNotFound,
    /// 404.
    NodeNotFound,
    /// 404.
    TokenNotFound,
    /// 404: no such secret in the namespace.
    GraphNotFound,
    SecretNotFound,
    /// 404: no such credentials in the namespace.
    CredentialNotFound,
    /// 404: no such concurrency group in the namespace.
    GroupNotFound,
    /// 404: no such schedule in the namespace.
    ScheduleNotFound,
    /// 404: no such namespace, or none that the caller may see.
    NamespaceNotFound,
    /// 404: no reader waits (any more) for the output that an agent sends.
    StreamNotFound,
    /// 404: the execution has published no archive, or none that its node still has, or no such
    /// file is in it.
    ResultNotFound,
    /// 404: no operation has this path.
    PathNotFound,
    /// 405: `Allow` lists the methods of the path.
    MethodNotAllowed,
    /// 409: `Details` lists up to five candidates.
    AmbiguousId,
    /// 409: the job has already completed or failed.
    JobFinished,
    /// 409: the job has not ended, so that nothing of it can run again.
    JobNotFinished,
    /// 409: another job has this ID.
    JobExists,
    /// 409: the idempotency key was used with a different body.
    IdempotencyConflict,
    /// 409: the node's state does not allow this action.
    NodeConflict,
    /// 409: another request has changed the record, or it is in use.
    Conflict,
    /// 409: a newer session of the same node took over; join again.
    StaleSession,
    /// 410: the operation moved; `Message` names its new path.
    Gone,
    /// 413.
    BodyTooLarge,
    /// 415.
    UnsupportedMediaType,
    /// 421: the `Host` header names another server.
    MisdirectedRequest,
    /// 429: `Retry-After` says when to retry.
    TooManyRequests,
    /// 429: the namespace would queue more executions than its quota allows; submit again when fewer
    /// wait.
    QuotaExceeded,
    /// 500: a fault of the service, logged with the request id.
    Internal,
    /// 503: the node that has the data is not connected; `Retry-After` says when to retry.
    NodeUnavailable,
    /// 503: the store or its disk failed; `Retry-After` says when to retry.
    StoreUnavailable,
    /// 503: the issuer of ID tokens does not answer; `Retry-After` says when to retry.
    IssuerUnavailable,
    /// 503: the service is starting or stopping.
    ShuttingDown,
}

/// The error envelope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ApiError {
    #[serde(rename = "Status")]
    pub status: u16,
    #[serde(rename = "Code")]
    pub code: Code,
    #[serde(rename = "Message")]
    pub message: String,
    #[serde(rename = "Hint", default, skip_serializing_if = "String::is_empty")]
    pub hint: String,
    #[serde(rename = "Details", default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<Value>,
    #[serde(rename = "RequestID", default)]
    pub request_id: String,
}

/// One mistake of a refused submission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FieldError {
    /// JSON path, as in `Tasks[0].Engine.Type`; empty for the body as a whole.
    #[serde(rename = "Path")]
    pub path: String,
    #[serde(rename = "Reason")]
    pub reason: String,
}

impl Code {
    pub const fn status(self) -> u16 {
        match self {
            Self::MalformedBody
            | Self::InvalidJob
            | Self::InvalidQuery
            | Self::InvalidNextToken
            | Self::NoResultsForType
            | Self::InvalidRequest => 400,
            Self::Unauthenticated => 401,
            Self::Forbidden => 403,
            Self::JobNotFound
            | Self::ExecutionNotFound
            | Self::NodeNotFound
            | Self::TokenNotFound
            | Self::GraphNotFound
            | Self::SecretNotFound
            | Self::CredentialNotFound
            | Self::GroupNotFound
            | Self::ScheduleNotFound
            | Self::NamespaceNotFound
            | Self::StreamNotFound
            | Self::ResultNotFound
            | Self::PathNotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::AmbiguousId
            | Self::JobFinished
            | Self::JobNotFinished
            | Self::JobExists
            | Self::IdempotencyConflict
            | Self::NodeConflict
            | Self::Conflict
            | Self::StaleSession => 409,
            Self::Gone => 410,
            Self::BodyTooLarge => 413,
            Self::UnsupportedMediaType => 415,
            Self::MisdirectedRequest => 421,
            Self::TooManyRequests | Self::QuotaExceeded => 429,
            Self::Internal => 500,
            Self::NodeUnavailable
            | Self::StoreUnavailable
            | Self::IssuerUnavailable
            | Self::ShuttingDown => 503,
        }
    }
}

impl ApiError {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            status: code.status(),
            code,
            message: message.into(),
            hint: String::new(),
            details: Vec::new(),
            request_id: String::new(),
        }
    }

    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    pub fn with_details<T: Serialize>(mut self, details: impl IntoIterator<Item = T>) -> Self {
        self.details = details
            .into_iter()
            .map(|detail| serde_json::to_value(detail).unwrap_or(Value::Null))
            .collect();
        self
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?}, {})", self.message, self.code, self.status)?;
        if !self.hint.is_empty() {
            write!(f, "; {}", self.hint)?;
        }
        Ok(())
    }
}

impl std::error::Error for ApiError {}
