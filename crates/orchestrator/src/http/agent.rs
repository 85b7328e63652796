//! The agent group: what the orchestrator says of itself.

use std::sync::Arc;

use api_types::node::Alive;
use api_types::routes;
use api_types::version::VersionRecord;
use axum::Router;
use axum::extract::State;
use axum::routing::get;

use super::edge::json;
use super::{Api, Handled, nodes};

pub(super) fn router() -> Router<Arc<Api>> {
    Router::new()
        .route(routes::ALIVE, get(alive))
        .route(routes::VERSION, get(version))
        .route(routes::AGENT_NODE, get(node))
}

async fn alive() -> Handled {
    json(&Alive { status: "OK".to_owned() })
}

async fn version() -> Handled {
    json(&VersionRecord::current())
}

async fn node(State(api): State<Arc<Api>>) -> Handled {
    json(&nodes::own(&api))
}
