//! Answers for one file: encodings, conditional requests, and how long caches may keep it (RFC 9110, 9111).

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};

use crate::file::File;

/// For how long a cache may keep an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cached {
    /// Its URL names its content.
    ForEver,
    /// The cache asks each time whether it is still current.
    Revalidated,
}

// === impl Cached ===

impl Cached {
    const fn control(self) -> &'static str {
        match self {
            Self::ForEver => "public, max-age=31536000, immutable",
            Self::Revalidated => "no-cache",
        }
    }
}

pub(crate) fn answer(
    file: &File,
    cached: Cached,
    method: &Method,
    headers: &HeaderMap,
) -> Response<Bytes> {
    let gzip =
        file.gzip.as_ref().filter(|_| quality(headers, header::ACCEPT_ENCODING, "gzip", "*"));
    // Each encoding is a separate representation.
    let tag = match gzip {
        Some(_) => format!("\"{}-gzip\"", file.digest),
        None => format!("\"{}\"", file.digest),
    };
    let body = gzip.unwrap_or(&file.plain);
    let is_current = matches_any(headers, &tag);
    let mut response = Response::new(Bytes::new());
    let fields = response.headers_mut();
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static(cached.control()));
    fields.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        fields.insert(header::ETAG, tag);
    }
    if is_current {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return response;
    }
    fields.insert(header::CONTENT_TYPE, file.content_type.clone());
    fields.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    if gzip.is_some() {
        fields.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    if *method != Method::HEAD {
        *response.body_mut() = body.clone();
    }
    response
}

/// Whether the sender is a browser that opens a page. `*/*` alone is not: programs send that.
pub(crate) fn accepts_html(headers: &HeaderMap) -> bool {
    quality(headers, header::ACCEPT, "text/html", "text/html")
}

/// Whether a list such as `gzip;q=0.5, *;q=0` accepts the word: by itself, or else by the wildcard.
fn quality(headers: &HeaderMap, name: HeaderName, word: &str, wildcard: &str) -> bool {
    let mut by_wildcard = false;
    let texts = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    for entry in texts.flat_map(|text| text.split(',')) {
        let mut parts = entry.split(';').map(str::trim);
        let named = parts.next().unwrap_or_default();
        let is_refused = parts
            .filter_map(|part| part.split_once('='))
            .filter(|(key, _)| key.trim().eq_ignore_ascii_case("q"))
            .any(|(_, weight)| weight.trim().parse::<f32>().is_ok_and(|weight| weight <= 0.0));
        if named.eq_ignore_ascii_case(word) {
            return !is_refused;
        }
        by_wildcard |= named == wildcard && !is_refused;
    }
    by_wildcard
}

/// Whether `If-None-Match` lists the tag; weak tags compare like strong ones.
fn matches_any(headers: &HeaderMap, tag: &str) -> bool {
    let listed = headers.get_all(header::IF_NONE_MATCH).iter();
    listed
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','))
        .map(str::trim)
        .any(|listed| listed == "*" || listed.strip_prefix("W/").unwrap_or(listed) == tag)
}
