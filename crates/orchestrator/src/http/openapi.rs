//! The OpenAPI document: collected from the handlers as they are routed, finished, and served.
//!
//! A handler says in an attribute what it takes and what it answers, and is routed by that very
//! attribute: there is no second list of operations that could fall behind. What was rejected is a
//! document written by hand, which nothing holds against the handlers.

pub(super) mod examples;
pub(super) mod params;

use std::sync::Arc;

use api_types::Code::{self, *};
use api_types::history::{HistoryEvent, HistoryGap};
use api_types::log::{LogFrame, LogLine};
use api_types::openapi::{About, finish};
use api_types::protocol::AssignmentLine;
use api_types::routes;
use axum::Router;
use axum::body::Bytes;
use axum::response::IntoResponse;
use axum::routing::get;
use http::header;
use utoipa::OpenApi;

use super::{Api, Handled, requester};

const ABOUT: About = About {
    title: "Job orchestration service",
    description: "Submits jobs to a cluster, watches them, and tells about its nodes.\n\n\
        Keys of JSON bodies and words of closed sets are matched without regard to case; this \
        document has their usual spelling. Fields that are not known are ignored, and `null` \
        means absent. Query parameters that an operation does not have are passed over, and \
        empty ones are absent. Every answer that is not 2xx is an `ApiError`, whose `Code` is \
        from the set that each operation lists.\n\n`docs/api.md` is the same for people.",
    tags: &[
        ("Jobs", "Submit, watch, read and stop jobs."),
        ("Events", "Everything that happens, as it happens."),
        ("Nodes", "The nodes of the cluster."),
        ("Agent", "What the addressed node says of itself."),
        ("Health", "For whoever runs the service."),
        ("Agent protocol", "What compute nodes say; no user needs it."),
        ("Requester", "The group that the orchestrator group replaced."),
    ],
};

/// What is in the document and not in the signature of a handler that is routed by its attribute:
/// the group that takes every method, and the items of streams.
#[derive(OpenApi)]
#[openapi(
    paths(requester::gone, document),
    components(schemas(AssignmentLine, HistoryEvent, HistoryGap, LogFrame, LogLine))
)]
struct Beside;

// === What operations may be refused with ===

pub(super) const QUERY: &[Code] = &[InvalidQuery];
pub(super) const PAGE: &[Code] = &[InvalidQuery, InvalidNextToken];
pub(super) const BODY: &[Code] =
    &[MalformedBody, InvalidRequest, BodyTooLarge, UnsupportedMediaType, TooManyRequests];
/// A path that cannot be decoded names nothing.
pub(super) const JOB: &[Code] = &[JobNotFound, AmbiguousId, PathNotFound];
pub(super) const EXECUTION: &[Code] = &[ExecutionNotFound, AmbiguousId];
pub(super) const NODE: &[Code] = &[NodeNotFound, AmbiguousId, PathNotFound];
pub(super) const OWN_NODE_ID: &[Code] = &[NodeNotFound, PathNotFound];
/// Reads of the store.
pub(super) const READ: &[Code] = &[TooManyRequests, StoreUnavailable];
/// What goes through the driver.
pub(super) const CALL: &[Code] = &[TooManyRequests, StoreUnavailable, ShuttingDown];
/// What only the holder of a session may say.
pub(super) const SESSION: &[Code] = &[StaleSession, Forbidden];

/// All of them; a fault of the service can end any request.
pub(super) fn refusals(sets: &[&[Code]]) -> Vec<Code> {
    sets.iter().copied().flatten().copied().chain([Internal]).collect()
}

/// The OpenAPI document of this service
///
/// This document. It is made when the service starts, from the operations that it serves.
#[utoipa::path(
    get,
    path = routes::OPENAPI,
    operation_id = "describeApi",
    tag = "Health",
    responses((status = 200, description = "OpenAPI 3.1.", body = Object)),
    extensions(("x-error-codes" = json!(refusals(&[])))),
)]
async fn document(body: Bytes) -> Handled {
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// Serves the document of all that was collected.
pub(super) fn router(collected: utoipa::openapi::OpenApi) -> Router<Arc<Api>> {
    let mut all = Beside::openapi();
    all.merge(collected);
    let text = Bytes::from(finish(all, &ABOUT).to_string());
    Router::new().route(routes::OPENAPI, get(move || document(text.clone())))
}
