//! The agent's own HTTP API, for operators on the node.

mod executions;
mod failure;
pub(crate) mod guard;
mod identity;
pub(crate) mod local_token;
mod metrics;
mod openapi;
mod paging;
mod parameter;
mod render;
mod results;
pub(crate) mod shared;

use std::sync::Arc;

use api_types::requester::PATTERNS;
use api_types::routes;
use axum::BoxError;
use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use daemon::collect;
use daemon::http::{Listening, Operations, Routes};
use http::{Method, Request};
use telemetry::metrics::RouteMetrics;
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use guard::OpenTo;
use shared::Shared;

/// Concurrent connections, enough for some people and the metrics scrapers.
const MAX_CONNECTIONS: usize = 256;

/// Operations that tell nothing about what runs, in addition to the old group.
const OPEN: [&str; 4] = [routes::ALIVE, routes::VERSION, routes::LIVEZ, routes::READYZ];

/// Who may use the operations of a path.
fn open_to(pattern: &str) -> OpenTo {
    match pattern {
        _ if OPEN.contains(&pattern) || PATTERNS.contains(&pattern) => OpenTo::Everyone,
        routes::METRICS => OpenTo::Monitors,
        _ => OpenTo::ThisNode,
    }
}

/// The API, as every connection serves it.
#[derive(Clone)]
pub(crate) struct Service {
    shared: Shared,
    routes: Arc<Routes<Shared, RouteMeta>>,
    /// Of requests for no operation.
    unmatched: Arc<RouteMetrics>,
}

/// What is said of the operations of a path.
struct RouteMeta {
    open_to: OpenTo,
    metrics: RouteMetrics,
}

// === impl Service ===

impl Service {
    pub(crate) fn new(shared: Shared) -> Self {
        let metrics = shared.observer.metrics.http.clone();
        let about = |pattern: &'static str, _: &[&Method]| RouteMeta {
            open_to: open_to(pattern),
            metrics: metrics.of_route(Some(pattern)),
        };
        let routes = operations().routes(shared.clone(), failure::wrong_method, about);
        Self { shared, routes: Arc::new(routes), unmatched: Arc::new(metrics.of_route(None)) }
    }

    /// Serves until shutdown, then lets requests in progress finish.
    pub(crate) async fn serve(self, listener: TcpListener, stopping: CancellationToken) {
        let connections = daemon::http::connections_within(MAX_CONNECTIONS);
        let listening = Listening::new(listener, connections, None);
        daemon::http::serve(listening, stopping, move |request| self.clone().answer(request)).await;
    }

    async fn answer<B>(self, request: Request<B>) -> Response
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let (method, began) = (request.method().clone(), Instant::now());
        let found = self.routes.find(request.uri().path());
        let metrics = found.as_ref().map_or(&*self.unmatched, |found| &found.meta().metrics);
        let is_routine = found.as_ref().is_some_and(|found| found.is_routine());
        let admitted = async |request: Request<Body>| {
            let Some(found) = found else { return failure::unknown_path(&request) };
            match self.shared.guard.admit(found.meta().open_to, request.headers()).await {
                Ok(()) => found.answer(request).await,
                Err(response) => response,
            }
        };
        let response = daemon::http::answer(request, is_routine, admitted).await;
        let (status, took) = (response.status().as_u16(), began.elapsed());
        metrics.answered(&method, status, took);
        response
    }
}

/// All operations, and their OpenAPI document.
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
        .merge(daemon::http::requester::router())
        .merge(openapi::router())
}
