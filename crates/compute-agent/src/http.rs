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
use daemon::collect;
use daemon::http::Listening;
use daemon::http::Operations;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use shared::Shared;

/// Concurrent connections, enough for some people and the metrics scrapers.
const MAX_CONNECTIONS: usize = 256;

/// Serves until shutdown, then lets requests in progress finish.
pub(crate) async fn serve(listener: TcpListener, router: Router, stopping: CancellationToken) {
    let connections = daemon::http::connections_within(MAX_CONNECTIONS);
    let listening = Listening { listener, connections, tls: None };
    daemon::http::serve(listening, stopping, move |request| {
        let router = router.clone();
        daemon::http::answer(request, |request| daemon::http::route(router, request))
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
    operations().router().merge(openapi::router())
}

fn operations() -> Operations<Shared> {
    Operations::default()
        .merge(collect!(identity::alive))
        .merge(collect!(identity::version))
        .merge(collect!(identity::node))
        .merge(collect!(executions::list))
        .merge(collect!(executions::describe))
        .merge(collect!(executions::logs))
        .merge(collect!(results::archive))
        .merge(collect!(identity::livez))
        .merge(collect!(identity::readyz))
        .merge(collect!(metrics::metrics))
}
