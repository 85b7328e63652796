//! The document, as the attributes of the handlers describe it.

use api_types::cluster::ChangeNotice;
use api_types::history::{HistoryEvent, HistoryGap};
use api_types::log::{LogFrame, LogLine};
use api_types::openapi::{ApiInfo, finish};
use api_types::protocol::AssignmentLine;
use serde_json::{Value, json};
use utoipa::OpenApi;

use crate::http::edge::authenticate::COOKIE;
use crate::http::operations::{openapi, operations};

const INFO: ApiInfo = ApiInfo {
    title: "Job orchestration service",
    description: "Submits jobs to a cluster, watches them, and describes its nodes.\n\n\
        Keys of JSON bodies and enumerated words match regardless of case; this document has \
        their usual spelling. Unknown fields and unknown query parameters are ignored; `null` \
        and empty parameters mean absent. Every response other than 2xx is an `ApiError`, whose \
        `Code` is from the set that each operation lists.\n\n`docs/api.md` is the version for \
        people.",
    tags: &[
        ("Jobs", "Submit, watch, read and stop jobs."),
        ("Graphs", "Jobs that are submitted together and depend on each other."),
        ("Executions", "Executions of any job."),
        ("Events", "All events, as they happen."),
        ("Cluster", "All nodes and jobs together."),
        ("Nodes", "The nodes of the cluster."),
        ("Access", "Who may do what: tokens, namespaces, signing in."),
        ("Groups", "Limits that the jobs of a namespace share."),
        ("Secrets", "Values that jobs name and do not contain."),
        ("Credentials", "What jobs sign in with at registries, buckets, repositories and servers."),
        ("Schedules", "Jobs that start at the times of a cron expression."),
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
    paths(daemon::http::requester::gone, openapi::document),
    components(schemas(
        AssignmentLine,
        ChangeNotice,
        HistoryEvent,
        HistoryGap,
        LogFrame,
        LogLine
    ))
)]
struct Additions;

/// What the file should say.
pub(in crate::http) fn document() -> Value {
    let described = operations().described();
    with_credentials(finish(described.document(Additions::openapi()), &INFO))
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
