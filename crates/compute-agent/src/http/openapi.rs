//! The OpenAPI document of a compute node: collected from the handlers as they are routed.

use api_types::log::LogStream;
use api_types::openapi::{About, finish};
use api_types::{Code, routes};
use axum::Router;
use axum::body::Bytes;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::CONTENT_TYPE;
use utoipa::OpenApi;

use super::Shared;

const ABOUT: About = About {
    title: "Compute node",
    description: "Tells whoever stands at a node what it is and what it runs; jobs are with the \
        orchestrator. Every answer that is not 2xx is an `ApiError`, whose `Code` is from the set \
        that each operation lists.\n\n`docs/api.md` is the same for people.",
    tags: &[
        ("Agent", "What the node says of itself."),
        ("Executions", "What the node runs, and what it keeps of what it ran."),
        ("Health", "For whoever runs the service."),
    ],
};

/// What the handlers refer to and do not bring along: itself, and a word of a parameter.
#[derive(OpenApi)]
#[openapi(paths(document), components(schemas(LogStream)))]
struct Beside;

/// All of them; a fault of the agent can end any request.
pub(super) fn refusals(codes: &[Code]) -> Vec<Code> {
    codes.iter().copied().chain([Code::Internal]).collect()
}

/// The OpenAPI document of this node
///
/// This document. It is made when the agent starts, from the operations that it serves.
#[utoipa::path(
    get,
    path = routes::OPENAPI,
    operation_id = "describeApi",
    tag = "Health",
    responses((status = 200, description = "OpenAPI 3.1.", body = Object)),
    extensions(("x-error-codes" = json!(refusals(&[])))),
)]
async fn document(body: Bytes) -> Response {
    ([(CONTENT_TYPE, "application/json")], body).into_response()
}

/// Serves the document of all that was collected.
pub(super) fn router(collected: utoipa::openapi::OpenApi) -> Router<Shared> {
    let mut all = Beside::openapi();
    all.merge(collected);
    let text = Bytes::from(finish(all, &ABOUT).to_string());
    Router::new().route(routes::OPENAPI, get(move || document(text.clone())))
}
