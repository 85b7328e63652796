//! `GET /metrics`: counters and gauges for Prometheus.

use agent_core::session::SessionState;
use api_types::{Code, routes};
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, header};
use telemetry::metrics::Exposition;

use super::failure::Failure;
use super::openapi::refusals;
use super::shared::Shared;
use crate::observer::Scrape;

/// Metrics
///
/// Returns counters and gauges for Prometheus, or `OpenMetrics` for scrapers that request it.
#[utoipa::path(
    get,
    path = routes::METRICS,
    operation_id = "scrapeMetrics",
    tag = "Health",
    responses((status = 200, description = "The text format of Prometheus.", content_type = "text/plain", body = String)),
    extensions(("x-error-codes" = json!(refusals(&[Code::ShuttingDown])))),
)]
pub(super) async fn metrics(
    State(shared): State<Shared>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let form = Exposition::negotiate(accept);
    let available = shared.engines.available().borrow().clone();
    let scrape = Scrape {
        usage: shared.mailbox.usage().await?,
        capacity: shared.record.capacity,
        joined: matches!(shared.session.state(), SessionState::Joined { .. }),
        reports_waiting: shared.outbox.len(),
        engines: shared
            .engines
            .named()
            .map(|engine| (engine, available.contains(&engine)))
            .collect(),
    };
    match shared.observer.metrics.render(form, &scrape) {
        Ok(text) => Ok(([(header::CONTENT_TYPE, form.content_type())], text).into_response()),
        Err(error) => {
            tracing::error!(%error, "cannot encode the metrics");
            Err(Failure::new(Code::Internal, "cannot encode the metrics"))
        }
    }
}

/// Counts every response by its route.
pub(super) async fn count(
    State(shared): State<Shared>,
    route: Option<MatchedPath>,
    request: Request,
    next: Next,
) -> Response {
    let (method, began) = (request.method().clone(), tokio::time::Instant::now());
    let response = next.run(request).await;
    let (status, took) = (response.status().as_u16(), began.elapsed());
    let route = route.as_ref().map(MatchedPath::as_str);
    shared.observer.metrics.http.answered(&method, route, status, took);
    response
}
