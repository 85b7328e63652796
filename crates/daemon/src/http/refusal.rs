//! Responses other than 2xx.

use api_types::{ApiError, Code};
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use tracing::Level;

pub const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A response other than 2xx, as a handler returns it. [`answer`](super::answer) logs it once, fills in the
/// request id and writes the body.
#[derive(Debug, Clone)]
pub struct Refusal {
    pub error: ApiError,
    pub retry_after_seconds: Option<u64>,
    pub level: Level,
    /// For the log; the caller never sees it.
    pub cause: String,
}

// === impl Refusal ===

impl Refusal {
    /// A caller's mistake does not concern the operator.
    pub fn of_the_caller(error: ApiError) -> Self {
        Self { error, retry_after_seconds: None, level: Level::DEBUG, cause: String::new() }
    }

    /// A bug in this program; the caller learns no details.
    pub fn internal(cause: String) -> Self {
        let error = ApiError::new(Code::Internal, "an internal error occurred")
            .with_hint("the service log has the cause under this request ID");
        Self { error, retry_after_seconds: None, level: Level::ERROR, cause }
    }

    /// A refusal by the framework, such as of a path that is not UTF-8.
    fn of_the_framework(status: StatusCode) -> Self {
        let code = if status.is_server_error() { Code::Internal } else { Code::InvalidRequest };
        let error = ApiError::new(code, "the request is invalid");
        Self::of_the_caller(ApiError { status: status.as_u16(), ..error })
    }

    /// Why this request was refused, if it was.
    pub(super) fn take_from(response: &mut Response) -> Option<Self> {
        let status = response.status();
        if !status.is_client_error() && !status.is_server_error() {
            return None;
        }
        let refusal = response.extensions_mut().remove();
        Some(refusal.unwrap_or_else(|| Self::of_the_framework(status)))
    }

    /// Writes the body that tells the caller.
    pub(super) fn write(mut self, id: &str, response: &mut Response) {
        id.clone_into(&mut self.error.request_id);
        let body = serde_json::to_vec(&self.error).unwrap_or_default();
        *response.body_mut() = Body::from(body);
        // The framework counted the bytes of the empty body that this one replaces.
        response.headers_mut().remove(header::CONTENT_LENGTH);
        response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.error.status);
        let mut response = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR).into_response();
        if let Some(seconds) = self.retry_after_seconds {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response.extensions_mut().insert(self);
        response
    }
}
