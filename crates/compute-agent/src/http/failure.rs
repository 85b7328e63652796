//! Answers that are not 2xx.

use api_types::{ApiError, Code};
use axum::extract::OriginalUri;
use axum::response::{IntoResponse, Response};
use http::header::{ALLOW, RETRY_AFTER};
use http::{HeaderValue, Method, StatusCode};

use crate::supervisor::mailbox::Stopping;

/// Seconds after which an agent that is stopping may be there again.
const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("5");

/// An error on its way out; the envelope is completed and written in one place.
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
    /// The body is written by [`super::render::envelope`], which knows the request.
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = status.into_response();
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(RETRY_AFTER, RETRY_AFTER_SECONDS);
        }
        response.extensions_mut().insert(self);
        response
    }
}

pub(super) async fn unknown_path(OriginalUri(uri): OriginalUri) -> Failure {
    let message = format!("no operation has the path '{}'", uri.path());
    ApiError::new(Code::PathNotFound, message)
        .with_hint("an agent serves /api/v1/agent/…; jobs are with the orchestrator")
        .into()
}

pub(super) async fn wrong_method(method: Method, OriginalUri(uri): OriginalUri) -> Response {
    let message = format!("'{}' takes GET, {method} came", uri.path());
    let mut response = Failure::new(Code::MethodNotAllowed, message).into_response();
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    response
}
