//! The agent's own HTTP operations, for whoever stands at the node.

mod executions;
mod failure;
mod identity;
mod metrics;
mod openapi;
mod render;
mod results;
mod server;

use std::sync::Arc;

use axum::Router;
use tokio_util::sync::CancellationToken;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes as collect;

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
    routes()
        .fallback(failure::unknown_path)
        .method_not_allowed_fallback(failure::wrong_method)
        .layer(axum::middleware::from_fn(render::envelope))
        .layer(axum::middleware::from_fn_with_state(shared.clone(), metrics::count))
        .with_state(shared)
}

/// All operations, and the document of them.
fn routes() -> Router<Shared> {
    let (router, collected) = OpenApiRouter::default()
        .routes(collect!(identity::alive))
        .routes(collect!(identity::version))
        .routes(collect!(identity::node))
        .routes(collect!(executions::list))
        .routes(collect!(executions::describe))
        .routes(collect!(executions::logs))
        .routes(collect!(results::archive))
        .routes(collect!(identity::livez))
        .routes(collect!(identity::readyz))
        .routes(collect!(metrics::metrics))
        .split_for_parts();
    router.merge(openapi::router(collected))
}
