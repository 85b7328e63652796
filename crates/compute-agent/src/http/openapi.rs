//! The OpenAPI document of a compute node: a file that the tests write and compare.
//!
//! It is collected from the attributes of the handlers, which also route them; see
//! [`daemon::collect`].

use api_types::{Code, routes};
use axum::response::{IntoResponse, Response};
use daemon::http::{Document, JSON, Operations};
use http::Method;
use http::header::CONTENT_TYPE;

use super::shared::Shared;

static DOCUMENT: Document = Document::new(include_str!("../../openapi.json"));

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
async fn document() -> Response {
    ([(CONTENT_TYPE, JSON)], DOCUMENT.text()).into_response()
}

/// Serves the document.
pub(super) fn router() -> Operations<Shared> {
    Operations::default().routed(routes::OPENAPI, [Method::GET], document)
}

#[cfg(test)]
mod tests {
    use api_types::log::LogStream;
    use api_types::openapi::{ApiInfo, check_golden, finish};
    use utoipa::OpenApi;

    use crate::http::operations;

    const INFO: ApiInfo = ApiInfo {
        title: "Compute node",
        description: "Reports what a node is and what it runs. Jobs are managed by the \
            orchestrator. Every response other than 2xx is an `ApiError`, whose `Code` is from the \
            set that each operation lists.\n\n`docs/api.md` documents the same API for people.",
        tags: &[
            ("Agent", "The node's own record."),
            ("Executions", "Running executions, and the retained data of finished ones."),
            ("Health", "For operators of the service."),
            ("Requester", "What older releases served here."),
        ],
    };

    /// Items that the handlers refer to but do not register: the document itself, and a parameter's
    /// enum.
    #[derive(OpenApi)]
    #[openapi(
        paths(super::document, daemon::http::requester::gone),
        components(schemas(LogStream))
    )]
    struct Unregistered;

    #[test]
    fn the_file_is_what_the_handlers_say() {
        let described = operations().described().document(Unregistered::openapi());
        check_golden(env!("CARGO_MANIFEST_DIR"), &finish(described, &INFO));
    }
}
