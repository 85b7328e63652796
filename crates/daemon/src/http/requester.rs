//! The group of operations that the API replaced: each answers 410.

use api_types::Code;
use api_types::requester::{self, PATTERNS};
use axum::response::{IntoResponse, Response};
use http::Uri;

use super::operations::Operations;
use super::refusal::Refusal;

/// The operations of the group.
pub fn router<S: Clone + Send + Sync + 'static>() -> Operations<S> {
    PATTERNS.iter().fold(Operations::default(), |operations, path| operations.any(path, gone))
}

/// The old group
///
/// Every path of the group that the orchestrator group replaced, whatever the method; `Message`
/// names the operation to use.
#[utoipa::path(
    method(get, put, post, delete, options, head, patch, trace),
    path = "/api/v1/requester/{rest}",
    operation_id = "requester__",
    tag = "Requester",
    params(("rest" = String, Path, description = "Any path of the old group.", min_length = 1)),
    responses(),
    extensions(("x-error-codes" = json!([Code::Gone]))),
)]
pub async fn gone(uri: Uri) -> Response {
    Refusal::of_the_caller(requester::gone(uri.path())).into_response()
}
