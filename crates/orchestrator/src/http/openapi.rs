//! The OpenAPI document: collected from the handlers, completed, and served.
//!
//! An attribute of each handler declares its parameters and responses, and the same attribute
//! routes it: no second list of operations can fall behind. Rejected: a handwritten document, which
//! nothing checks against the handlers.

pub(super) mod examples;
pub(super) mod params;

use std::sync::Arc;

use api_types::Code::{self, *};
use api_types::cluster::ChangeNotice;
use api_types::history::{HistoryEvent, HistoryGap};
use api_types::log::{LogFrame, LogLine};
use api_types::openapi::{About, finish};
use api_types::protocol::AssignmentLine;
use api_types::routes;
use axum::Router;
use axum::response::IntoResponse;
use axum::routing::get;
use daemon::http::{Described, Document, JSON};
use http::header;
use serde_json::{Value, json};
use utoipa::OpenApi;

use super::authenticate::COOKIE;
use super::error::Failure;
use super::{Api, Handled, requester};

const ABOUT: About = About {
    title: "Job orchestration service",
    description: "Submits jobs to a cluster, watches them, and describes its nodes.\n\n\
        Keys of JSON bodies and enumerated words match regardless of case; this document has \
        their usual spelling. Unknown fields and unknown query parameters are ignored; `null` \
        and empty parameters mean absent. Every response other than 2xx is an `ApiError`, whose \
        `Code` is from the set that each operation lists.\n\n`docs/api.md` is the version for \
        people.",
    tags: &[
        ("Jobs", "Submit, watch, read and stop jobs."),
        ("Executions", "Executions of any job."),
        ("Events", "All events, as they happen."),
        ("Cluster", "All nodes and jobs together."),
        ("Nodes", "The nodes of the cluster."),
        ("Access", "Who may do what: tokens, namespaces, signing in."),
        ("Secrets", "Values that jobs name and do not contain."),
        ("Credentials", "What jobs sign in with at registries, buckets, repositories and servers."),
        ("Agent", "What the addressed node reports about itself."),
        ("Health", "For operators and load balancers."),
        ("Agent protocol", "For compute nodes; no user needs it."),
        ("Requester", "The group that the orchestrator group replaced."),
    ],
};

/// What the document needs beyond the attributes of handlers: the group that accepts every method,
/// and the items of streams.
#[derive(OpenApi)]
#[openapi(
    paths(requester::gone, document),
    components(schemas(
        AssignmentLine,
        ChangeNotice,
        HistoryEvent,
        HistoryGap,
        LogFrame,
        LogLine
    ))
)]
struct Beside;

// === Codes that operations may be refused with ===

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
/// Requests that go through the driver.
pub(super) const CALL: &[Code] = &[TooManyRequests, StoreUnavailable, ShuttingDown];
/// Requests that need a session.
pub(super) const SESSION: &[Code] = &[StaleSession, Forbidden];

/// What any request may be refused with: a bug can end it, [`guard`](super::guard) and
/// [`authenticate`](super::authenticate) check it.
const ANY: &[Code] = &[Internal, Unauthenticated, Forbidden, MisdirectedRequest];

/// All of these, and what any request may be refused with.
pub(super) fn refusals(sets: &[&[Code]]) -> Vec<Code> {
    sets.iter().copied().chain([ANY]).flatten().copied().collect()
}

/// The OpenAPI document of this service
///
/// This document, generated from the operations that the service serves.
#[utoipa::path(
    get,
    path = routes::OPENAPI,
    operation_id = "describeApi",
    tag = "Health",
    responses((status = 200, description = "OpenAPI 3.1.", body = Object)),
    extensions(("x-error-codes" = json!(refusals(&[])))),
)]
async fn document(document: Document) -> Handled {
    let text = document.text().await.map_err(|error| Failure::Internal {
        cause: format!("make the OpenAPI document: {error}"),
    })?;
    Ok(([(header::CONTENT_TYPE, JSON)], text).into_response())
}

/// Serves the document.
pub(super) fn router(described: Described) -> Router<Arc<Api>> {
    let make = move || {
        let document = finish(described.document(Beside::openapi()), &ABOUT);
        with_credentials(document).to_string()
    };
    let made = Document::new(make);
    Router::new().route(routes::OPENAPI, get(move || document(made.clone())))
}

/// How callers prove who they are.
fn with_credentials(mut document: Value) -> Value {
    document["components"]["securitySchemes"] = json!({
        "token": {
            "type": "http",
            "scheme": "bearer",
            "description": "A token, as Create Token returns it.",
        },
        "session": {
            "type": "apiKey",
            "in": "cookie",
            "name": COOKIE,
            "description": "The session of a browser, as Sign In sets it.",
        },
    });
    // An open listener on loopback takes requests without either.
    document["security"] = json!([{}, { "token": [] }, { "session": [] }]);
    document
}
