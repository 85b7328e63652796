//! A web server with scripted redirects, ranges and faults.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, StreamExt};
use http::StatusCode;
use http::header::{AUTHORIZATION, ETAG, IF_RANGE, LAST_MODIFIED, LOCATION, RANGE};

use crate::Serving;

/// The content and behaviour of a path.
#[derive(Debug, Clone, Default)]
pub struct Page {
    pub bytes: Bytes,
    pub etag: Option<&'static str>,
    pub last_modified: Option<&'static str>,
    /// Redirect target, if any.
    pub location: Option<String>,
    /// Number of next responses that break off after a quarter of their body.
    pub cuts: usize,
    /// Number of next responses that stall after a quarter of their body.
    pub stalls: usize,
    /// Status codes of the next responses, last first.
    pub statuses: Vec<u16>,
    /// Whether the server ignores range requests.
    pub no_ranges: bool,
    /// The `Authorization` without which a request is refused.
    pub login: Option<String>,
    /// The `Authorization` of each request received, empty without one.
    pub logins: Vec<String>,
    /// Number of requests received.
    pub requests: usize,
    /// The `Range` headers received.
    pub ranges: Vec<String>,
}

/// A web server of pages by path.
#[derive(Debug)]
pub struct Pages {
    pages: Arc<Mutex<BTreeMap<String, Page>>>,
    serving: Serving,
}

// === impl Pages ===

impl Pages {
    pub async fn start() -> Self {
        let pages = Arc::new(Mutex::new(BTreeMap::new()));
        let router = Router::new().fallback(serve).with_state(Arc::clone(&pages));
        Self { pages, serving: Serving::start(router).await }
    }

    pub fn address(&self) -> SocketAddr {
        self.serving.address
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.serving.url)
    }

    /// Adds or replaces a page; returns its URL.
    pub fn put(&self, path: &str, page: Page) -> String {
        self.pages.lock().unwrap().insert(path.to_owned(), page);
        self.url(path)
    }

    pub fn page(&self, path: &str) -> Page {
        self.pages.lock().unwrap()[path].clone()
    }

    pub fn clear(&self) {
        self.pages.lock().unwrap().clear();
    }
}

async fn serve(
    State(pages): State<Arc<Mutex<BTreeMap<String, Page>>>>,
    request: Request,
) -> Response {
    let mut pages = pages.lock().unwrap();
    let Some(page) = pages.get_mut(request.uri().path()) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    page.requests += 1;
    let login = request.headers().get(AUTHORIZATION).map(|value| value.to_str().unwrap());
    page.logins.push(login.unwrap_or_default().to_owned());
    if page.login.as_deref().is_some_and(|wanted| Some(wanted) != login) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    if let Some(status) = page.statuses.pop() {
        return StatusCode::from_u16(status).unwrap().into_response();
    }
    if let Some(location) = &page.location {
        return (StatusCode::FOUND, [(LOCATION, location.clone())]).into_response();
    }
    let header = |name| request.headers().get(name).map(|value| value.to_str().unwrap());
    let mut start = 0;
    let mut response = Response::builder();
    if let Some(range) = header(RANGE) {
        page.ranges.push(range.to_owned());
        let same = header(IF_RANGE)
            .is_some_and(|value| Some(value) == page.etag || Some(value) == page.last_modified);
        if same && !page.no_ranges {
            start = range["bytes=".len()..].trim_end_matches('-').parse().unwrap();
            let (last, all) = (page.bytes.len() - 1, page.bytes.len());
            response = response
                .status(StatusCode::PARTIAL_CONTENT)
                .header("content-range", format!("bytes {start}-{last}/{all}"));
        }
    }
    for (name, value) in [(ETAG, page.etag), (LAST_MODIFIED, page.last_modified)] {
        if let Some(value) = value {
            response = response.header(name, value);
        }
    }
    let rest = page.bytes.slice(start..);
    response = response.header("content-length", rest.len());
    if page.stalls > 0 {
        page.stalls -= 1;
        let part = stream::iter([Ok::<_, std::io::Error>(rest.slice(..rest.len() / 4))]);
        return response.body(Body::from_stream(part.chain(stream::pending()))).unwrap();
    }
    if page.cuts == 0 {
        return response.body(Body::from(rest)).unwrap();
    }
    page.cuts -= 1;
    let part = rest.slice(..rest.len() / 4);
    let broken = stream::iter([Ok(part), Err(std::io::Error::other("cut"))]);
    // The first piece must be sent before the connection closes.
    let paced = broken.then(|piece| async {
        if piece.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        piece
    });
    response.body(Body::from_stream(paced)).unwrap()
}
