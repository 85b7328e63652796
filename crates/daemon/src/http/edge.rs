//! What every request passes through: request id, error envelope, indentation, panic handling.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::BoxError;
use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use serde::Serialize;
use tracing::{Instrument, Level, field};
use uuid::Uuid;

use super::context::{RequestContext, RequestId};
use super::indent::indent;
use super::refusal::{JSON, Refusal};

pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// A longer body is indented on a blocking thread: at a gigabyte a second, 10 MB would delay other
/// connections by 10 ms.
const INDENTED_ON_THE_SPOT_BYTES: usize = 64 * 1024;

/// The longest accepted request id; logs repeat it.
const MAX_REQUEST_ID_CHARS: usize = 128;

/// The span of a request. It has fields for the records that the request names.
macro_rules! span {
    ($level:expr, $id:expr, $method:expr, $path:expr) => {
        tracing::span!(
            $level,
            "request",
            request_id = &*$id,
            method = %$method,
            path = $path,
            job = field::Empty,
            execution = field::Empty,
            node = field::Empty
        )
    };
}

/// Has a request handled, within a span that names it in the log.
///
/// The span of a routine request is one for debugging: a thousand agents send twenty thousand
/// heartbeats a minute, and no one looks up one that went well.
pub async fn answer<B, F>(
    request: Request<B>,
    is_routine: bool,
    handle: impl FnOnce(Request<Body>) -> F,
) -> Response
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    F: Future<Output = Response>,
{
    let id = request_id(request.headers());
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let pretty = wants_pretty(uri.query()) && method != Method::HEAD;
    let span = match is_routine {
        true => span!(Level::DEBUG, id, method, uri.path()),
        false => span!(Level::INFO, id, method, uri.path()),
    };
    let is_named = !span.is_disabled();

    let mut request = request.map(Body::new);
    let context = RequestContext::from_extensions_mut(request.extensions_mut());
    context.id = Some(RequestId(Arc::clone(&id)));
    let flaw = context.flaw;
    let answering = async {
        let started = Instant::now();
        // Whatever handling does is within the span, also before it first waits.
        let handling = AssertUnwindSafe(async move {
            match flaw {
                Some(flaw) => flaw.refusal().into_response(),
                None => handle(request).await,
            }
        });
        let mut response = handling.catch_unwind().await.unwrap_or_else(|panic| {
            Refusal::internal(format!("panic: {}", panic_message(&*panic))).into_response()
        });
        if let Some(refusal) = Refusal::take_from(&mut response) {
            match is_named {
                true => log(&refusal),
                false => span!(Level::ERROR, id, method, uri.path()).in_scope(|| log(&refusal)),
            }
            refusal.write(&id, &mut response);
        }
        if pretty {
            response = Box::pin(indented(response)).await;
        }
        let (status, took) = (response.status().as_u16(), started.elapsed());
        tracing::debug!(status, elapsed_us = took.as_micros(), "answered");
        response
    };
    let mut response = answering.instrument(span).await;
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

/// Whether `pretty` occurs in the query string, even in an invalid one.
pub fn wants_pretty(query: Option<&str>) -> bool {
    query.unwrap_or_default().split('&').any(|pair| {
        let key = pair.split_once('=').map_or(pair, |(key, _)| key);
        key.eq_ignore_ascii_case("pretty")
    })
}

/// A complete response; [`answer`] indents it on request.
pub fn json<T: Serialize>(value: &T) -> Response {
    match serde_json::to_vec(value) {
        Ok(body) => ([(header::CONTENT_TYPE, JSON)], body).into_response(),
        Err(error) => Refusal::internal(format!("render an answer: {error}")).into_response(),
    }
}

/// The caller's request id, if valid, or a new one.
fn request_id(headers: &HeaderMap) -> Arc<str> {
    let sane = |id: &&str| {
        !id.is_empty()
            && id.len() <= MAX_REQUEST_ID_CHARS
            && id.bytes().all(|byte| byte.is_ascii_graphic())
    };
    let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok()).filter(sane);
    given.map_or_else(mint, Arc::from)
}

fn mint() -> Arc<str> {
    #[expect(clippy::disallowed_methods, reason = "request ids are minted here and nowhere else")]
    let uuid = Uuid::new_v4();
    Arc::from(&*uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()))
}

/// Indents JSON; streams and other content pass unchanged.
async fn indented(response: Response) -> Response {
    if response.headers().get(header::CONTENT_TYPE) != Some(&JSON) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // Only complete responses have this content type, and they are already in memory.
    let indented = match to_bytes(body, usize::MAX).await {
        Ok(bytes) if bytes.len() <= INDENTED_ON_THE_SPOT_BYTES => Some(indent(&bytes)),
        Ok(bytes) => tokio::task::spawn_blocking(move || indent(&bytes)).await.ok(),
        Err(_) => None,
    };
    match indented {
        Some(bytes) => {
            parts.headers.remove(header::CONTENT_LENGTH);
            Response::from_parts(parts, Body::from(bytes))
        }
        None => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(no text)")
}

fn log(refusal: &Refusal) {
    let (message, cause) = (&refusal.error.message, &refusal.cause);
    // tracing fixes the level of an event at compile time.
    if refusal.level == Level::ERROR {
        tracing::error!(%cause, "{message}");
    } else if refusal.level == Level::WARN {
        tracing::warn!(%cause, "{message}");
    } else if refusal.level == Level::INFO {
        tracing::info!("{message}");
    } else {
        tracing::debug!("{message}");
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use serde_json::{Value, json};

    use super::*;

    async fn asked(handler: fn() -> Response, path: &str) -> (Response, Value) {
        let request = Request::get(path).header("X-Request-Id", "r-1").body(Body::empty()).unwrap();
        let response = answer(request, false, |_| async move { handler() }).await;
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(body, usize::MAX).await.unwrap();
        let value = serde_json::from_slice(&bytes).unwrap();
        (Response::from_parts(parts, Body::from(bytes)), value)
    }

    #[tokio::test]
    async fn a_panic_before_anything_is_awaited_is_caught_too() {
        let request = Request::get("/").body(Body::empty()).unwrap();
        let handle = |_| -> std::future::Ready<Response> { panic!("secret") };
        assert_eq!(answer(request, false, handle).await.status(), 500);
    }

    #[tokio::test]
    async fn a_panic_is_an_internal_error_without_details() {
        let (response, body) = asked(|| panic!("secret"), "/").await;
        assert_eq!(response.status(), 500);
        let expected = json!({
            "Status": 500, "Code": "Internal", "Message": "an internal error occurred",
            "Hint": "the service log has the cause under this request ID", "RequestID": "r-1",
        });
        assert_eq!(body, expected);
    }

    /// Has a request refused by a handler that also logs, and returns what the log says at this level.
    async fn logged(is_routine: bool, level: Level) -> String {
        let (mut log, writer) = std::io::pipe().unwrap();
        let writer = move || writer.try_clone().unwrap();
        let subscriber = tracing_subscriber::fmt().with_max_level(level).with_ansi(false);
        let subscriber = subscriber.without_time().with_writer(writer).finish();
        let logging = tracing::subscriber::set_default(subscriber);
        let request = Request::get("/x").header(REQUEST_ID, "r-1").body(Body::empty()).unwrap();
        let handle = |_| async {
            tracing::info!("handled");
            Refusal::internal("lost".to_owned()).into_response()
        };
        answer(request, is_routine, handle).await;
        drop(logging);
        let mut text = String::new();
        log.read_to_string(&mut text).unwrap();
        text
    }

    #[tokio::test]
    async fn the_log_says_of_which_request_a_refusal_is() {
        let named = r#"request{request_id="r-1" method=GET path="/x"}: daemon::http::edge"#;
        for (is_routine, level, lines) in [
            (false, Level::INFO, 2),
            (true, Level::DEBUG, 3),
            // The line of the handler names no request, that of the refusal does.
            (true, Level::INFO, 1),
            (false, Level::ERROR, 1),
        ] {
            let text = logged(is_routine, level).await;
            assert_eq!(text.matches(named).count(), lines, "{is_routine} {level}: {text}");
            assert!(text.contains("cause=lost"), "{text}");
        }
    }

    #[tokio::test]
    async fn refusals_by_the_framework_have_the_envelope_too() {
        let (response, body) = asked(|| StatusCode::BAD_REQUEST.into_response(), "/?pretty").await;
        assert_eq!((response.status().as_u16(), &body["Code"]), (400, &json!("InvalidRequest")));
        assert_eq!(body["RequestID"], "r-1");
        assert_eq!(response.headers()[header::CONTENT_TYPE], JSON);
    }

    #[test]
    fn pretty_is_found_anywhere() {
        for text in ["pretty", "a=b&pretty", "pretty=&x", "%zz&pretty=false"] {
            assert!(wants_pretty(Some(text)), "{text}");
        }
        assert!(!wants_pretty(Some("prettyish=1")));
        assert!(!wants_pretty(None));
    }

    #[tokio::test]
    async fn an_invalid_request_id_is_replaced() {
        for id in ["", "a b", &"x".repeat(129)] {
            let mut headers = HeaderMap::new();
            headers.insert(REQUEST_ID, HeaderValue::from_str(id).unwrap());
            assert_eq!(request_id(&headers).len(), 36, "{id}");
        }
        let mut headers = HeaderMap::new();
        headers.insert(REQUEST_ID, HeaderValue::from_bytes(b"\xff").unwrap());
        assert_eq!(request_id(&headers).len(), 36);
        headers.insert(REQUEST_ID, HeaderValue::from_static("mine-1"));
        assert_eq!(&*request_id(&headers), "mine-1");
    }
}
