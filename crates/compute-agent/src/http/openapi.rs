//! The OpenAPI document of a compute node, collected from the handlers of its routes.

use api_types::log::LogStream;
use api_types::openapi::{About, finish};
use api_types::{Code, routes};
use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use daemon::http::{Described, Document, JSON, Refusal};
use http::header::CONTENT_TYPE;
use utoipa::OpenApi;

use super::shared::Shared;

const ABOUT: About = About {
    title: "Compute node",
    description: "Reports what a node is and what it runs. Jobs are managed by the \
        orchestrator. Every response other than 2xx is an `ApiError`, whose `Code` is from the set \
        that each operation lists.\n\n`docs/api.md` documents the same API for people.",
    tags: &[
        ("Agent", "The node's own record."),
        ("Executions", "Running executions, and the retained data of finished ones."),
        ("Health", "For operators of the service."),
    ],
};

/// Items that the handlers refer to but do not register: the document itself, and a parameter's
/// enum.
#[derive(OpenApi)]
#[openapi(paths(document), components(schemas(LogStream)))]
struct Beside;

/// Adds the codes that every operation has: an internal error can end any request, and where the
/// orchestrator asks for credentials, so does its agent.
pub(super) fn refusals(codes: &[Code]) -> Vec<Code> {
    let any = [Code::Internal, Code::Unauthenticated, Code::Forbidden, Code::NodeUnavailable];
    codes.iter().copied().chain(any).collect()
}

/// The OpenAPI document of this node
///
/// Returns this document, generated from the operations that the agent serves.
#[utoipa::path(
    get,
    path = routes::OPENAPI,
    operation_id = "describeApi",
    tag = "Health",
    responses((status = 200, description = "OpenAPI 3.1.", body = Object)),
    extensions(("x-error-codes" = json!(refusals(&[])))),
)]
async fn document(document: Document) -> Response {
    match document.text().await {
        Ok(text) => ([(CONTENT_TYPE, JSON)], text).into_response(),
        Err(error) => {
            Refusal::internal(format!("make the OpenAPI document: {error}")).into_response()
        }
    }
}

/// Serves the document.
pub(super) fn router(described: Described) -> Router<Shared> {
    let make = move || finish(described.document(Beside::openapi()), &ABOUT).to_string();
    let made = Document::new(make);
    Router::new().route(routes::OPENAPI, get(move || document(made.clone())))
}
