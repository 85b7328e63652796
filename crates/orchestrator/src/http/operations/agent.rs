//! The agent group: what the orchestrator reports about itself.

use std::sync::Arc;

use api_types::node::{Alive, Node};
use api_types::routes;
use api_types::version::VersionRecord;
use axum::extract::State;
use daemon::collect;
use daemon::http::Operations;

use super::nodes;
use crate::http::api::{Api, Handled};
use crate::http::openapi::{examples, refusals, refusals_of_process};
use crate::http::respond::json;

pub(super) fn router() -> Operations<Arc<Api>> {
    Operations::default().merge(collect!(alive)).merge(collect!(version)).merge(collect!(node))
}

/// Is Alive
///
/// `OK` when the addressed node is operational.
#[utoipa::path(
    get,
    path = routes::ALIVE,
    operation_id = "isAlive",
    tag = "Agent",
    responses((status = 200, description = "The process runs.", body = Alive, example = json!(examples::alive()))),
    extensions(("x-error-codes" = json!(refusals_of_process()))),
)]
async fn alive() -> Handled {
    json(&Alive { status: "OK".to_owned() })
}

/// Deployed Version
///
/// The build of the addressed node.
#[utoipa::path(
    get,
    path = routes::VERSION,
    operation_id = "describeVersion",
    tag = "Agent",
    responses((status = 200, description = "The version record.", body = VersionRecord, example = json!(examples::version()))),
    extensions(("x-error-codes" = json!(refusals_of_process()))),
)]
async fn version() -> Handled {
    json(&VersionRecord::current())
}

/// Node Info
///
/// The record of the addressed node, its fields at top level.
#[utoipa::path(
    get,
    path = routes::AGENT_NODE,
    operation_id = "describeOwnNode",
    tag = "Agent",
    responses((status = 200, description = "The node record.", body = Node, example = json!(examples::own_node()))),
    extensions(("x-error-codes" = json!(refusals(&[])))),
)]
async fn node(State(api): State<Arc<Api>>) -> Handled {
    json(&nodes::own(&api))
}
