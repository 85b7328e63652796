//! The group of operations that this API replaced: each answers 410.

use std::sync::Arc;

use api_types::{Code, routes};
use axum::response::{IntoResponse, Response};
use daemon::http::Operations;
use http::Uri;

use super::Api;
use super::error::Failure;
use super::openapi::params;
use crate::access::policy;

/// What replaces each of the old paths.
const REPLACEMENTS: &[(&str, &str)] = &[
    ("list", "GET /api/v1/orchestrator/jobs"),
    ("nodes", "GET /api/v1/orchestrator/nodes"),
    ("states", "GET /api/v1/orchestrator/jobs/:jobID"),
    ("results", "GET /api/v1/orchestrator/jobs/:jobID"),
    ("events", "GET /api/v1/orchestrator/jobs/:jobID/history"),
    ("submit", "PUT /api/v1/orchestrator/jobs"),
    ("cancel", "DELETE /api/v1/orchestrator/jobs/:jobID"),
    ("debug", "GET /api/v1/orchestrator/nodes/:nodeID"),
    ("websocket/events", "GET /api/v1/orchestrator/jobs/:jobID/history"),
];

pub(super) fn router() -> Operations<Arc<Api>> {
    let none = Operations::default();
    policy::REPLACED.iter().fold(none, |operations, path| operations.any(path, gone))
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
    params(params::OldPath),
    responses(),
    extensions(("x-error-codes" = json!([Code::Gone]))),
)]
pub(super) async fn gone(uri: Uri) -> Response {
    let path = uri.path();
    let old = path.strip_prefix(routes::REQUESTER).unwrap_or_default().trim_end_matches('/');
    let operation =
        REPLACEMENTS.iter().find(|(name, _)| *name == old).map(|(_, operation)| *operation);
    Failure::Gone { path: path.to_owned(), operation }.into_response()
}
