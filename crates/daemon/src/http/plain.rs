//! Answers to plain HTTP on a port that speaks TLS. No handler sees such a request.

use std::sync::Arc;

use api_types::{ApiError, Code};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};

use super::edge::answer;
use super::refusal::Refusal;
use super::tls::Tls;
use super::unread::RequestBody;

const CLOSE: HeaderValue = HeaderValue::from_static("close");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// Sends a browser that asks for a page to `https://`, and refuses everything else.
pub(super) async fn refuse(tls: Arc<Tls>, request: Request<RequestBody>) -> Response {
    let mut response = answer(request, false, |request| async move {
        page_over_tls(&tls, &request).unwrap_or_else(|| refusal(request.headers()).into_response())
    })
    .await;
    response.headers_mut().insert(header::CONNECTION, CLOSE);
    response
}

/// A redirect that no cache keeps; only to a host that this service answers for, so that it leads
/// nowhere else.
fn page_over_tls<B>(tls: &Tls, request: &Request<B>) -> Option<Response> {
    let headers = request.headers();
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    if !is_read || !accepts_html(headers) || !tls.answers_for(request.uri(), headers) {
        return None;
    }
    let host = headers.get(header::HOST)?.to_str().ok()?;
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
    let location = HeaderValue::try_from(format!("https://{host}{target}")).ok()?;
    let headers = [(header::LOCATION, location), (header::CACHE_CONTROL, NO_STORE)];
    Some((StatusCode::TEMPORARY_REDIRECT, headers).into_response())
}

fn accepts_html(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|part| {
        let media_type = part.split(';').next().unwrap_or_default();
        media_type.trim().eq_ignore_ascii_case("text/html")
    })
}

fn refusal(headers: &HeaderMap) -> Refusal {
    let has_credentials =
        headers.contains_key(header::AUTHORIZATION) || headers.contains_key(header::COOKIE);
    let hint = match has_credentials {
        true => {
            "use https:// instead of http://, and revoke the credentials of this request: others on \
             the way could read them"
        }
        false => "use https:// instead of http://",
    };
    let message = "this port speaks HTTPS, and the request came as plain HTTP";
    Refusal::of_the_caller(ApiError::new(Code::InvalidRequest, message).with_hint(hint))
}
