//! `GET /metrics`: counters and gauges, for Prometheus.

use std::sync::Arc;
use std::time::Duration;

use api_types::routes;
use axum::extract::State;
use axum::response::IntoResponse;
use daemon::collect;
use daemon::http::Operations;
use http::{HeaderMap, header};
use telemetry::metrics::Exposition;

use crate::http::api::{Api, Handled};
use crate::http::error::Failure;
use crate::http::openapi::refusals;
use crate::metrics::scrape::{MOST_NAMESPACES, Scrape};

/// How long the driver and the store may take: a scrape that waits for a stuck disk would report
/// nothing, just when it is needed.
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) fn router() -> Operations<Arc<Api>> {
    Operations::default().merge(collect!(metrics))
}

/// Metrics
///
/// Counters and gauges for Prometheus, or `OpenMetrics` for scrapers that request it.
#[utoipa::path(
    get,
    path = routes::METRICS,
    operation_id = "scrapeMetrics",
    tag = "Health",
    responses((status = 200, description = "The text format of Prometheus.", content_type = "text/plain", body = String)),
    extensions(("x-error-codes" = json!(refusals(&[])))),
)]
async fn metrics(State(api): State<Arc<Api>>, headers: HeaderMap) -> Handled {
    scraped(api, &headers).await
}

/// The metrics of a process that leads.
pub(in crate::http) async fn scraped(api: Arc<Api>, headers: &HeaderMap) -> Handled {
    let is_certain = api.handle.lead().is_certain();
    api.observer.metrics.standing.stands(is_certain, None);
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let form = Exposition::negotiate(accept);
    let inputs = api.handle.waiting_inputs();
    let seen = tokio::time::timeout(
        SCRAPE_TIMEOUT,
        api.handle.inspect(|scheduler, now| {
            let entitled = scheduler.entitled(MOST_NAMESPACES);
            ((scheduler.waiting(now), entitled), scheduler.is_mass_silence())
        }),
    );
    let size = api.read(|reads| Ok(reads.size()?));
    let (seen, size) = tokio::join!(seen, tokio::time::timeout(SCRAPE_TIMEOUT, size));
    let (read, is_mass_silence) = seen.ok().and_then(Result::ok).unzip();
    let (waiting, entitled) = read.unzip();
    let scrape = Scrape {
        waiting,
        entitled: entitled.unwrap_or_default(),
        is_mass_silence,
        nodes: api.view.nodes(),
        store: size.ok().and_then(Result::ok),
        inputs,
        members: api.members.known().counts(),
        pools: api.pools.usage(api.handle.places()),
    };
    let text = api
        .observer
        .metrics
        .render(form, &scrape)
        .map_err(|error| Failure::Internal { cause: format!("render metrics: {error}") })?;
    Ok(([(header::CONTENT_TYPE, form.content_type())], text).into_response())
}
