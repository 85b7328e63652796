//! Liveness, readiness, version and node record.

use api_types::Code;
use api_types::node::{Alive, Node};
use api_types::version::VersionRecord;
use axum::extract::State;

use super::Shared;
use super::failure::Failure;
use super::render::{Json, Pretty};
use crate::session::SessionState;

pub(super) async fn alive(pretty: Pretty) -> Json<Alive> {
    Json(pretty, Alive { status: "OK".to_owned() })
}

pub(super) async fn version(pretty: Pretty) -> Json<VersionRecord> {
    Json(pretty, VersionRecord::current())
}

pub(super) async fn node(
    State(shared): State<Shared>,
    pretty: Pretty,
) -> Result<Json<Node>, Failure> {
    let usage = shared.mailbox.usage().await?;
    let engines = shared.engines.available().borrow().clone();
    Ok(Json(pretty, shared.record.node(&engines, usage, shared.session.state())))
}

pub(super) async fn livez(pretty: Pretty) -> Json<Alive> {
    alive(pretty).await
}

/// Ready when the ledger answers and the orchestrator has this node.
pub(super) async fn readyz(
    State(shared): State<Shared>,
    pretty: Pretty,
) -> Result<Json<Alive>, Failure> {
    shared.mailbox.usage().await?;
    match shared.session.state() {
        SessionState::Joined { .. } => Ok(alive(pretty).await),
        SessionState::Joining { .. } => {
            let message = "the agent has not joined its orchestrator";
            Err(Failure::new(Code::ShuttingDown, message))
        }
    }
}
