//! What every request goes through: a request id, the envelope, indentation, no panic.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::extract::MatchedPath;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::{BoxError, Router};
use futures_util::FutureExt;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use tower::ServiceExt;
use tracing::{Instrument, field};
use uuid::Uuid;

use super::error::{Failed, Failure, REQUEST_ID};
use super::query::wants_pretty;
use crate::json;
use crate::metrics::Metrics;

/// The longest request id that is kept; logs repeat it.
const MAX_REQUEST_ID_CHARS: usize = 128;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The route of the request that an answer is to.
#[derive(Clone)]
struct Route(Option<MatchedPath>);

/// Has the answer carry its route to the edge.
pub(super) async fn note_route(
    route: Option<MatchedPath>,
    request: Request<Body>,
    next: Next,
) -> Response {
    let mut response = next.run(request).await;
    response.extensions_mut().insert(Route(route));
    response
}

pub(super) async fn answer<B>(
    router: Router,
    metrics: Arc<Metrics>,
    request: Request<B>,
) -> Result<Response, Infallible>
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let started = Instant::now();
    let request_id = request_id(request.headers());
    let pretty = wants_pretty(request.uri().query());
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let span = tracing::info_span!(
        "request",
        request_id,
        %method,
        path,
        job = field::Empty,
        execution = field::Empty,
        node = field::Empty
    );

    let handling = router.oneshot(request.map(Body::new)).instrument(span.clone());
    let outcome = AssertUnwindSafe(handling).catch_unwind().await;
    let mut response = outcome.unwrap_or_else(|panic| {
        Ok(Failure::Internal { cause: format!("panic: {}", said(&*panic)) }.into_response())
    })?;

    if let Some(Failed(failure)) = response.extensions_mut().remove::<Failed>() {
        span.in_scope(|| failure.log());
        let body = serde_json::to_vec(&failure.envelope(&request_id)).unwrap_or_default();
        *response.body_mut() = Body::from(body);
        // The framework counted the bytes of the empty body that stood here.
        response.headers_mut().remove(header::CONTENT_LENGTH);
        response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    }
    if pretty && method != Method::HEAD {
        response = indented(response).await;
    }
    if let Ok(value) = HeaderValue::from_str(&request_id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    let (status, took) = (response.status().as_u16(), started.elapsed());
    let route = response.extensions_mut().remove::<Route>().and_then(|Route(route)| route);
    metrics.http.answered(&method, route.as_ref().map(MatchedPath::as_str), status, took);
    span.in_scope(|| tracing::debug!(status, elapsed_us = took.as_micros(), "answered"));
    Ok(response)
}

/// The id that came, if it is sane, or a new one.
fn request_id(headers: &HeaderMap) -> String {
    let sane = |id: &&str| {
        !id.is_empty()
            && id.len() <= MAX_REQUEST_ID_CHARS
            && id.bytes().all(|byte| byte.is_ascii_graphic())
    };
    let came = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok()).filter(sane);
    came.map_or_else(mint, str::to_owned)
}

fn mint() -> String {
    #[expect(clippy::disallowed_methods, reason = "request ids are minted here and nowhere else")]
    let uuid = Uuid::new_v4();
    uuid.to_string()
}

/// Indents JSON; streams and other content pass unchanged.
async fn indented(response: Response) -> Response {
    if response.headers().get(header::CONTENT_TYPE) != Some(&JSON) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // Only whole answers have this content type, and they are in memory already.
    match to_bytes(body, usize::MAX).await {
        Ok(bytes) => {
            parts.headers.remove(header::CONTENT_LENGTH);
            Response::from_parts(parts, Body::from(json::indent(&bytes)))
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

fn said(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(no text)")
}

/// A whole answer.
pub(super) fn json<T: serde::Serialize>(value: &T) -> Result<Response, Failure> {
    let body = serde_json::to_vec(value)
        .map_err(|error| Failure::Internal { cause: format!("render an answer: {error}") })?;
    Ok(([(header::CONTENT_TYPE, JSON)], body).into_response())
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use serde_json::{Value, json};

    use super::*;
    use crate::driver::CallError;
    use crate::store::StoreError;

    async fn asked(handler: fn() -> Response, path: &str) -> (Response, Value) {
        let router = Router::new().route("/", get(move || async move { handler() }));
        let request = Request::get(path).header("X-Request-Id", "r-1").body(Body::empty()).unwrap();
        let response = answer(router, Arc::new(Metrics::new()), request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(body, usize::MAX).await.unwrap();
        let value = serde_json::from_slice(&bytes).unwrap();
        (Response::from_parts(parts, Body::from(bytes)), value)
    }

    #[tokio::test]
    async fn a_panic_is_an_internal_error_that_tells_nothing() {
        let (response, body) = asked(|| panic!("secret"), "/").await;
        assert_eq!(response.status(), 500);
        let expected = json!({
            "Status": 500, "Code": "Internal", "Message": "the service failed on this request",
            "Hint": "the log has the cause under the request id", "RequestID": "r-1",
        });
        assert_eq!(body, expected);
    }

    #[tokio::test]
    async fn a_full_queue_and_a_lost_store_say_when_to_come_again() {
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
            let came = (response.status().as_u16(), &body["Code"]);
            assert_eq!(came, (503, &json!("StoreUnavailable")));
            assert_eq!(body["Message"], "the state database is not available");
            assert_eq!(response.headers()[header::RETRY_AFTER], "5");
        }
        let stopping = || Failure::Call(CallError::Stopping).into_response();
        let (response, body) = asked(stopping, "/").await;
        assert_eq!((response.status().as_u16(), &body["Code"]), (503, &json!("ShuttingDown")));
    }

    #[tokio::test]
    async fn a_request_id_that_is_not_sane_is_replaced() {
        for id in ["", "a b", &"x".repeat(129)] {
            let mut headers = HeaderMap::new();
            headers.insert(REQUEST_ID, HeaderValue::from_str(id).unwrap());
            assert_eq!(request_id(&headers).len(), 36, "{id}");
        }
        let mut headers = HeaderMap::new();
        headers.insert(REQUEST_ID, HeaderValue::from_bytes(b"\xff").unwrap());
        assert_eq!(request_id(&headers).len(), 36);
        headers.insert(REQUEST_ID, HeaderValue::from_static("mine-1"));
        assert_eq!(request_id(&headers), "mine-1");
    }
}
