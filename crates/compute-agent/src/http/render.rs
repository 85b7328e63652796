//! How answers are written: JSON, `pretty` or not, the error envelope, the request id.

use api_types::{ApiError, Code};
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue, Uri};
use serde::Serialize;
use tracing::Instrument;

use super::failure::Failure;
use crate::mint;

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest request id that is kept; a longer one is replaced.
const MAX_REQUEST_ID_CHARS: usize = 128;

/// Whether the request asked for indented JSON.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pretty(bool);

/// A JSON answer.
pub(super) struct Json<T>(pub(super) Pretty, pub(super) T);

// === impl Pretty ===

impl Pretty {
    /// `pretty` anywhere in the query string, with or without a value.
    fn of(uri: &Uri) -> Self {
        let query = uri.query().unwrap_or_default();
        Self(query.split('&').any(|pair| pair.split('=').next() == Some("pretty")))
    }

    fn write<T: Serialize>(self, value: &T) -> serde_json::Result<Vec<u8>> {
        if !self.0 {
            return serde_json::to_vec(value);
        }
        let mut bytes = serde_json::to_vec_pretty(value)?;
        bytes.push(b'\n');
        Ok(bytes)
    }
}

impl<S: Sync> axum::extract::FromRequestParts<S> for Pretty {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(
        parts: &mut http::request::Parts,
        _: &S,
    ) -> Result<Self, Self::Rejection> {
        Ok(Self::of(&parts.uri))
    }
}

// === impl Json ===

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match self.0.write(&self.1) {
            Ok(bytes) => ([(CONTENT_TYPE, "application/json")], bytes).into_response(),
            Err(error) => {
                tracing::error!(%error, "an answer cannot be written as JSON");
                Failure::new(Code::Internal, "the answer cannot be written").into_response()
            }
        }
    }
}

/// Gives every answer its request id, and every answer that is not 2xx the envelope.
pub(super) async fn envelope(request: Request, next: Next) -> Response {
    let pretty = Pretty::of(request.uri());
    let request_id = request
        .headers()
        .get(X_REQUEST_ID)
        .filter(|id| is_sane(id.as_bytes()))
        .and_then(|id| id.to_str().ok())
        .map_or_else(mint::request_id, str::to_owned);
    let span = tracing::info_span!(
        "request",
        request_id,
        method = %request.method(),
        path = request.uri().path()
    );
    let mut response = next.run(request).instrument(span).await;
    let status = response.status();
    if !status.is_success() {
        let mut error = match response.extensions_mut().remove::<Failure>() {
            Some(Failure(error)) => error,
            // What the framework refused by itself, such as a path that is not UTF-8.
            None => {
                let code =
                    if status.is_server_error() { Code::Internal } else { Code::InvalidRequest };
                ApiError {
                    status: status.as_u16(),
                    ..ApiError::new(code, "the request is not valid")
                }
            }
        };
        error.request_id.clone_from(&request_id);
        let body = pretty.write(&error).unwrap_or_default();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.remove(http::header::CONTENT_LENGTH);
        *response.body_mut() = Body::from(body);
    }
    if let Ok(id) = HeaderValue::from_str(&request_id) {
        response.headers_mut().insert(X_REQUEST_ID, id);
    }
    response
}

fn is_sane(id: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(byte);
    !id.is_empty() && id.len() <= MAX_REQUEST_ID_CHARS && id.iter().all(plain)
}
