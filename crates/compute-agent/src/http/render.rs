//! How responses are written.

use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// A JSON response.
pub(super) struct Json<T>(pub(super) T);

// === impl Json ===

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        daemon::http::json(&self.0)
    }
}
