//! Responses with an error status.

use api_types::{ApiError, Code};
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use daemon::http::Refusal;
use http::{Request, StatusCode};

use crate::node::mailbox::Stopping;

/// Seconds after which a stopping agent may be back, and a reader gone.
const RETRY_AFTER_SECONDS: u64 = 5;

/// An error response; [`daemon::http::answer`] completes the envelope and writes it.
#[derive(Debug, Clone)]
pub(super) struct Failure(pub(super) ApiError);

// === impl Failure ===

impl Failure {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self(ApiError::new(code, message))
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self(error)
    }
}

impl From<Stopping> for Failure {
    fn from(stopping: Stopping) -> Self {
        Self::new(Code::ShuttingDown, stopping.to_string())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let Self(error) = self;
        let passes = [StatusCode::SERVICE_UNAVAILABLE, StatusCode::TOO_MANY_REQUESTS];
        let passes = passes.iter().any(|status| status.as_u16() == error.status);
        let retry_after_seconds = passes.then_some(RETRY_AFTER_SECONDS);
        Refusal { retry_after_seconds, ..Refusal::of_the_caller(error) }.into_response()
    }
}

pub(super) fn unknown_path(request: &Request<Body>) -> Response {
    let message = format!("no operation has the path '{}'", request.uri().path());
    let error = ApiError::new(Code::PathNotFound, message)
        .with_hint("an agent serves /api/v1/agent/…; jobs are with the orchestrator");
    Failure(error).into_response()
}

pub(super) fn wrong_method(request: &Request<Body>) -> Response {
    let message = format!("'{}' accepts GET, not {}", request.uri().path(), request.method());
    Failure::new(Code::MethodNotAllowed, message).into_response()
}
