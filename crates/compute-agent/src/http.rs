//! The agent's own HTTP operations, for whoever stands at the node.

mod executions;
mod failure;
mod identity;
mod metrics;
mod render;
mod results;
mod server;

use std::sync::Arc;

use axum::Router;
use axum::routing::{MethodRouter, get};
use tokio_util::sync::CancellationToken;

use crate::executor::Engines;
use crate::node_record::NodeRecord;
use crate::observer::Observer;
use crate::outbox::Outbox;
use crate::output::Outputs;
use crate::publisher::PublishedDir;
use crate::session::SessionWatch;
use crate::supervisor::Mailbox;

pub(crate) use server::serve;

/// What the operations read from.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) record: Arc<NodeRecord>,
    pub(crate) engines: Arc<Engines>,
    pub(crate) session: Arc<SessionWatch>,
    pub(crate) mailbox: Mailbox,
    pub(crate) outputs: Arc<Outputs>,
    /// Cancelled when the agent is to stop: what is followed breaks off.
    pub(crate) stopping: CancellationToken,
    pub(crate) published: PublishedDir,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) observer: Arc<Observer>,
}

pub(crate) fn router(shared: Shared) -> Router {
    use api_types::routes as path;
    let only = |route: MethodRouter<Shared>| route.fallback(failure::wrong_method);
    Router::new()
        .route(path::ALIVE, only(get(identity::alive)))
        .route(path::VERSION, only(get(identity::version)))
        .route(path::AGENT_NODE, only(get(identity::node)))
        .route(path::AGENT_EXECUTIONS, only(get(executions::list)))
        .route(path::AGENT_EXECUTION, only(get(executions::describe)))
        .route(path::AGENT_EXECUTION_LOGS, only(get(executions::logs)))
        .route(path::AGENT_RESULT, only(get(results::archive)))
        .route(path::LIVEZ, only(get(identity::livez)))
        .route(path::READYZ, only(get(identity::readyz)))
        .route(path::METRICS, only(get(metrics::metrics)))
        .fallback(failure::unknown_path)
        .layer(axum::middleware::from_fn(render::envelope))
        .layer(axum::middleware::from_fn_with_state(shared.clone(), metrics::count))
        .with_state(shared)
}
