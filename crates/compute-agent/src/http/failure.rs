//! Responses with an error status.

use api_types::{ApiError, Code};
use axum::response::{IntoResponse, Response};
use daemon::http::Refusal;
use http::header::ALLOW;
use http::{HeaderValue, Method, StatusCode, Uri};

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

pub(super) async fn unknown_path(uri: Uri) -> Failure {
    let message = format!("no operation has the path '{}'", uri.path());
    ApiError::new(Code::PathNotFound, message)
        .with_hint("an agent serves /api/v1/agent/…; jobs are with the orchestrator")
        .into()
}

pub(super) async fn wrong_method(method: Method, uri: Uri) -> Response {
    let message = format!("'{}' accepts GET, not {method}", uri.path());
    let mut response = Failure::new(Code::MethodNotAllowed, message).into_response();
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    response
}
