//! What every request of this daemon passes through: the edge shared by both daemons, and metrics.

mod arriving;
pub(super) mod authenticate;
pub(super) mod body;
pub(super) mod guard;
mod lead_gate;
pub(super) mod pools;

use std::sync::Arc;
use std::time::Instant;

use axum::BoxError;
use axum::body::{Body, Bytes, HttpBody};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Request, header};
use telemetry::metrics::RouteMetrics;
use web::Pages;

use self::lead_gate::LeadGate;
use super::api::{Api, Handled, RouteMatch, Routes};
use super::error::{Absent, Failure};

/// Headers of every response that sets none: the bytes of a job are never a document of
/// this origin, and no other origin embeds or learns anything.
const INERT: [(HeaderName, HeaderValue); 4] = [
    (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'")),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
];

/// The API, as every connection serves it.
#[derive(Clone)]
pub(super) struct Service {
    api: Arc<Api>,
    routes: Arc<Routes>,
    /// Of requests for no operation.
    unmatched: Arc<RouteMetrics>,
}

// === impl Service ===

impl Service {
    pub(super) fn new(api: Arc<Api>, routes: Routes) -> Self {
        let unmatched = Arc::new(api.observer.metrics.http.of_route(None));
        Self { routes: Arc::new(routes), unmatched, api }
    }

    pub(super) async fn answer<B>(self, request: Request<B>) -> Response
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let started = Instant::now();
        let method = request.method().clone();
        let found = self.routes.find(request.uri().path());
        let metrics = found.as_ref().map_or(&*self.unmatched, |found| &found.meta().metrics);
        let is_routine = found.as_ref().is_some_and(RouteMatch::is_routine);
        let admitted = |request| async {
            let gate = LeadGate::of(&self.api, found.as_ref(), &request);
            gate.let_out(&self.api, self.admit(found, request)).await
        };
        let mut response = daemon::http::answer(request, is_routine, admitted).await;
        for (name, value) in INERT {
            response.headers_mut().entry(name).or_insert(value);
        }
        let (status, took) = (response.status().as_u16(), started.elapsed());
        metrics.answered(&method, status, took);
        response
    }

    /// Lets a request through to its operation, if it is for this service and its caller may send
    /// it.
    async fn admit(&self, found: Option<RouteMatch<'_>>, request: Request<Body>) -> Response {
        let api = &self.api;
        if let Err(failure) = api.guard.check(request.method(), request.uri(), request.headers()) {
            return failure.into_response();
        }
        match found {
            Some(found) => authenticate::check(api, &found, request).await,
            None => elsewhere(api, request.into_parts().0)
                .await
                .unwrap_or_else(IntoResponse::into_response),
        }
    }
}

/// No operation has the path: it may be that of a page or of one of its files, which are open.
///
/// The first such request loads the pages, on a thread that may take its time: where no one opens
/// them, they cost neither memory nor time at the start.
async fn elsewhere(api: &Api, request: Parts) -> Handled {
    let path = request.uri.path();
    let not_found = || Absent::Path { path: path.to_owned() };
    let pages = api.pages.as_ref().ok_or_else(not_found)?;
    let load = || tokio::task::spawn_blocking(Pages::load);
    let pages = pages
        .get_or_try_init(load)
        .await
        .map_err(|error| Failure::Internal { cause: format!("load the pages: {error}") })?;
    let page = pages.answer(&request.method, path, &request.headers);
    Ok(page.ok_or_else(not_found)?.map(Body::from))
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use control_plane::store::StoreError;
    use http::header;
    use serde_json::{Value, json};

    use super::*;
    use crate::driver::CallError;

    async fn asked(handler: fn() -> Response, path: &str) -> (Response, Value) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = daemon::http::answer(request, false, |_| async move { handler() }).await;
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(body, usize::MAX).await.unwrap();
        let value = serde_json::from_slice(&bytes).unwrap();
        (Response::from_parts(parts, Body::from(bytes)), value)
    }

    #[tokio::test]
    async fn a_full_queue_and_a_lost_store_say_when_to_retry() {
        let full = || Failure::Call(CallError::QueueFull).into_response();
        let (response, body) = asked(full, "/?pretty").await;
        assert_eq!((response.status().as_u16(), &body["Code"]), (429, &json!("TooManyRequests")));
        assert_eq!(response.headers()[header::RETRY_AFTER], "1");

        let unwritable = || Failure::Call(CallError::StoreUnavailable).into_response();
        let unreadable = || {
            let source = std::io::Error::other("secret");
            Failure::Store(StoreError::Io { path: "/secret".into(), source }).into_response()
        };
        for lost in [unwritable, unreadable] {
            let (response, body) = asked(lost, "/").await;
            let refusal = (response.status().as_u16(), &body["Code"]);
            assert_eq!(refusal, (503, &json!("StoreUnavailable")));
            assert_eq!(body["Message"], "the state database is not available");
            assert_eq!(response.headers()[header::RETRY_AFTER], "5");
        }
        let stopping = || Failure::Call(CallError::Stopping).into_response();
        let (response, body) = asked(stopping, "/").await;
        assert_eq!((response.status().as_u16(), &body["Code"]), (503, &json!("ShuttingDown")));
    }
}
