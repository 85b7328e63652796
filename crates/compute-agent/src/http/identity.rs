//! Liveness, readiness, version and node record.

use agent_core::session::SessionState;
use api_types::node::{Alive, Node};
use api_types::version::VersionRecord;
use api_types::{Code, routes};
use axum::extract::State;

use super::failure::Failure;
use super::openapi::refusals;
use super::render::Json;
use super::shared::Shared;
use crate::host::clock;

/// Is Alive
///
/// `OK` when this node is operational.
#[utoipa::path(
    get,
    path = routes::ALIVE,
    operation_id = "isAlive",
    tag = "Agent",
    responses((status = 200, description = "It lives.", body = Alive)),
    extensions(("x-error-codes" = json!(refusals(&[])))),
)]
pub(super) async fn alive() -> Json<Alive> {
    Json(Alive { status: "OK".to_owned() })
}

/// Deployed Version
///
/// The build of this agent.
#[utoipa::path(
    get,
    path = routes::VERSION,
    operation_id = "describeVersion",
    tag = "Agent",
    responses((status = 200, description = "The version record.", body = VersionRecord)),
    extensions(("x-error-codes" = json!(refusals(&[])))),
)]
pub(super) async fn version() -> Json<VersionRecord> {
    Json(VersionRecord::current())
}

/// Node Info
///
/// The record of this node, its fields at top level.
#[utoipa::path(
    get,
    path = routes::AGENT_NODE,
    operation_id = "describeOwnNode",
    tag = "Agent",
    responses((status = 200, description = "The node record.", body = Node)),
    extensions(("x-error-codes" = json!(refusals(&[Code::ShuttingDown])))),
)]
pub(super) async fn node(State(shared): State<Shared>) -> Result<Json<Node>, Failure> {
    let usage = shared.mailbox.usage().await?;
    let engines = shared.engines.available().borrow().clone();
    Ok(Json(shared.record.node(&engines, usage, shared.session.state())))
}

/// Liveness
///
/// Responds while the process runs.
#[utoipa::path(
    get,
    path = routes::LIVEZ,
    operation_id = "isLive",
    tag = "Health",
    responses((status = 200, description = "It lives.", body = Alive)),
    extensions(("x-error-codes" = json!(refusals(&[])))),
)]
pub(super) async fn livez() -> Json<Alive> {
    alive().await
}

/// Readiness
///
/// Ready when the ledger works and the orchestrator has accepted this node.
#[utoipa::path(
    get,
    path = routes::READYZ,
    operation_id = "isReady",
    tag = "Health",
    responses((status = 200, description = "The node can accept work.", body = Alive)),
    extensions(("x-error-codes" = json!(refusals(&[Code::ShuttingDown])))),
)]
pub(super) async fn readyz(State(shared): State<Shared>) -> Result<Json<Alive>, Failure> {
    shared.mailbox.usage().await?;
    let state = shared.session.state();
    if state.has_lease(clock::steady()) {
        return Ok(alive().await);
    }
    let message = match state {
        SessionState::Joined { .. } => "the orchestrator has not answered for longer than a lease",
        SessionState::Joining { .. } => "the agent has not joined its orchestrator",
    };
    Err(Failure::new(Code::ShuttingDown, message))
}
