//! What a process reports about itself on its status port, where no one is asked for credentials.

use std::sync::Arc;

use api_types::node::{Alive, Ready};
use api_types::version::VersionRecord;
use api_types::{ApiError, Code};
use axum::response::{IntoResponse, Response};
use daemon::http::Refusal;
use http::{HeaderMap, header};
use telemetry::metrics::Exposition;

use super::api::Api;
use super::error::{Absent, Busy, Failure};
use super::operations::{readiness, scraped};

pub(crate) fn alive() -> Response {
    daemon::http::json(&Alive { status: "OK".to_owned() })
}

pub(crate) fn version() -> Response {
    daemon::http::json(&VersionRecord::current())
}

pub(crate) fn no_such_path(path: &str) -> Response {
    Failure::from(Absent::Path { path: path.to_owned() }).into_response()
}

/// Of a process that leads: also whether it certainly still does.
pub(crate) async fn ready(api: Arc<Api>) -> Response {
    if !api.handle.lead().is_certain() {
        return Failure::from(Busy::LeadUncertain).into_response();
    }
    readiness(api).await.unwrap_or_else(IntoResponse::into_response)
}

/// Of a process that leads.
pub(crate) async fn metrics(api: Arc<Api>, headers: &HeaderMap) -> Response {
    scraped(api, headers).await.unwrap_or_else(IntoResponse::into_response)
}

/// Of a process that follows.
pub(crate) fn follows(readiness: Result<(), String>) -> Response {
    match readiness {
        Ok(()) => {
            let message = "it follows the leader".to_owned();
            daemon::http::json(&Ready { status: "OK".to_owned(), message })
        }
        Err(reason) => {
            let message = format!("this orchestrator is not ready: {reason}");
            Refusal::of_the_caller(ApiError::new(Code::StoreUnavailable, message)).into_response()
        }
    }
}

/// Metrics in the format that their scraper reads.
pub(crate) fn exposed(
    headers: &HeaderMap,
    render: impl FnOnce(Exposition) -> Result<String, std::fmt::Error>,
) -> Response {
    let form =
        Exposition::negotiate(headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()));
    match render(form) {
        Ok(text) => ([(header::CONTENT_TYPE, form.content_type())], text).into_response(),
        Err(error) => Refusal::internal(format!("render metrics: {error}")).into_response(),
    }
}
