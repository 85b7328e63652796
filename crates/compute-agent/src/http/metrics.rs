//! `GET /metrics`: counters and gauges for Prometheus.

use agent_core::session::SessionState;
use api_types::{Code, routes};
use axum::extract::State;
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
