//! The agent's own HTTP API, for operators on the node.

mod executions;
mod failure;
pub(crate) mod guard;
mod identity;
mod metrics;
mod openapi;
mod render;
mod results;
pub(crate) mod shared;

use axum::Router;
use daemon::http::Listening;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes as collect;

use shared::Shared;

/// Concurrent connections, enough for some people and the metrics scrapers.
const MAX_CONNECTIONS: usize = 256;

/// Serves until shutdown, then lets requests in progress finish.
pub(crate) async fn serve(listener: TcpListener, router: Router, stopping: CancellationToken) {
    let connections = daemon::http::connections_within(MAX_CONNECTIONS);
    let listening = Listening { listener, connections, tls: None };
    daemon::http::serve(listening, stopping, move |request| {
        daemon::http::answer(router.clone(), request)
    })
    .await;
}

pub(crate) fn router(shared: Shared) -> Router {
    routes()
        .fallback(failure::unknown_path)
        .method_not_allowed_fallback(failure::wrong_method)
        .layer(axum::middleware::from_fn_with_state(shared.clone(), guard::check))
        .layer(axum::middleware::from_fn_with_state(shared.clone(), metrics::count))
        .with_state(shared)
}

/// All operations, and their OpenAPI document.
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
