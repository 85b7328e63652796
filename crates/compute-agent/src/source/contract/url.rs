//! Inputs from a URL, against a server that redirects, serves ranges and fails as it is told.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, StreamExt};
use http::StatusCode;
use http::header::{ETAG, IF_RANGE, LAST_MODIFIED, LOCATION, RANGE};
use reqwest::dns::{Name, Resolve, Resolving};
use serde_json::json;

use super::*;
use crate::web::addresses::judged;

/// What is served at a path.
#[derive(Clone, Default)]
struct Page {
    bytes: Bytes,
    etag: Option<&'static str>,
    last_modified: Option<&'static str>,
    location: Option<String>,
    /// How many of the next answers break off after a quarter of what they should bring.
    cuts: usize,
    /// What the next answers are instead.
    statuses: Vec<u16>,
    no_ranges: bool,
    requests: usize,
    ranges: Vec<String>,
}

pub(super) struct Server {
    address: SocketAddr,
    pages: Arc<Mutex<BTreeMap<String, Page>>>,
    runtime: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.runtime.abort();
    }
}

impl Server {
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let pages = Arc::new(Mutex::new(BTreeMap::new()));
        let router = Router::new().fallback(serve).with_state(Arc::clone(&pages));
        let stopping = tokio_util::sync::CancellationToken::new();
        let runtime = tokio::spawn(crate::http::serve(listener, router, stopping));
        Self { address, pages, runtime }
    }

    fn put(&self, path: &str, page: Page) -> InputSource {
        self.pages.lock().unwrap().insert(path.to_owned(), page);
        let url = format!("http://{}{path}", self.address);
        input(SourceType::UrlDownload, json!({ "URL": url }), "/in/it")
    }

    fn page(&self, path: &str) -> Page {
        self.pages.lock().unwrap()[path].clone()
    }

    fn node(&self) -> Node {
        Node::new(|cache| self.sources(cache))
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
    if page.cuts == 0 {
        return response.body(Body::from(rest)).unwrap();
    }
    page.cuts -= 1;
    let part = rest.slice(..rest.len() / 4);
    let broken = stream::iter([Ok(part), Err(std::io::Error::other("cut"))]);
    // The first piece has to leave before the connection goes.
    let paced = broken.then(|piece| async {
        if piece.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        piece
    });
    response.body(Body::from_stream(paced)).unwrap()
}

impl Origin for Server {
    fn sources(&self, cache: &Path) -> Sources {
        let settings = Settings { allow_private_addresses: true, ..Settings::default() };
        let url_download = UrlDownload::new(Web::new(Reach::Anywhere), QUICK);
        Sources { url_download, ..Sources::new(&settings, cache.to_owned()) }
    }

    fn file(&self, bytes: &[u8]) -> InputSource {
        let bytes = Bytes::copy_from_slice(bytes);
        self.put("/file", Page { bytes, etag: Some("\"1\""), ..Page::default() })
    }

    fn missing(&self) -> (InputSource, &'static str) {
        let input = self.put("/file", Page::default());
        self.pages.lock().unwrap().clear();
        (input, "/file' does not exist (404 Not Found); check the URL")
    }
}

fn content() -> Page {
    Page { bytes: noise(400_000).into(), etag: Some("\"1\""), ..Page::default() }
}

async fn comes_whole(node: &Node, number: u128, input: &InputSource) {
    let mounted = node.fetch(number, input).await.unwrap();
    assert!(fs::read(mounted.source).unwrap() == noise(400_000), "the bytes are others");
}

#[tokio::test]
async fn the_contract_holds() {
    holds(&Server::start().await).await;
}

#[tokio::test]
async fn a_download_that_breaks_off_is_resumed_where_it_stopped() {
    let server = Server::start().await;
    for page in [
        Page { cuts: 5, ..content() },
        Page {
            cuts: 5,
            etag: None,
            last_modified: Some("Sat, 21 Nov 2026 08:00:00 GMT"),
            ..content()
        },
    ] {
        let input = server.put("/cut", page);
        comes_whole(&server.node(), 1, &input).await;
        let page = server.page("/cut");
        assert_eq!((page.requests, page.ranges.len()), (6, 5));
        assert_eq!(page.ranges[0], "bytes=100000-");
    }
}

#[tokio::test]
async fn a_download_begins_anew_where_it_cannot_be_resumed() {
    let server = Server::start().await;
    for page in [
        Page { cuts: 2, no_ranges: true, ..content() },
        Page { cuts: 2, etag: None, ..content() },
        Page { cuts: 2, etag: Some("W/\"weak\""), ..content() },
    ] {
        let resumable = page.no_ranges;
        let input = server.put("/cut", page);
        comes_whole(&server.node(), 1, &input).await;
        let page = server.page("/cut");
        assert_eq!((page.requests, page.ranges.is_empty()), (3, !resumable));
    }
}

#[tokio::test]
async fn a_download_that_never_gets_on_is_given_up_with_the_reason() {
    let server = Server::start().await;
    let page = Page { cuts: usize::MAX, etag: None, bytes: noise(3).into(), ..content() };
    let told = server.node().refusal(1, &server.put("/cut", page)).await;
    assert!(told.contains("the connection broke off after 0 bytes: "), "{told}");
    assert!(told.ends_with("(tried 3 times)"), "{told}");
}

#[tokio::test]
async fn an_answer_that_may_pass_is_asked_for_again() {
    let server = Server::start().await;
    let input = server.put("/busy", Page { statuses: vec![429, 503], ..content() });
    comes_whole(&server.node(), 1, &input).await;
    let down = server.put("/down", Page { statuses: vec![500; 9], ..content() });
    let told = server.node().refusal(1, &down).await;
    assert!(told.ends_with("/down' answered 500 Internal Server Error (tried 3 times)"), "{told}");
    assert_eq!(server.page("/down").requests, 3);
    let secret = server.put("/secret", Page { statuses: vec![403; 9], ..content() });
    let told = server.node().refusal(1, &secret).await;
    assert!(told.ends_with("may not be read (403 Forbidden); check its credentials"), "{told}");
    assert_eq!(server.page("/secret").requests, 1);
}

#[tokio::test]
async fn redirects_are_followed_to_their_end() {
    let server = Server::start().await;
    server.put("/data", content());
    server.put("/second", Page { location: Some("/data".to_owned()), ..Page::default() });
    let input =
        server.put("/first", Page { location: Some("second".to_owned()), ..Page::default() });
    comes_whole(&server.node(), 1, &input).await;
    let circle =
        server.put("/circle", Page { location: Some("/circle".to_owned()), ..Page::default() });
    let told = server.node().refusal(1, &circle).await;
    assert!(told.contains("was redirected more than 10 times"), "{told}");
    let file = Page { location: Some("file:///etc/passwd".to_owned()), ..Page::default() };
    let told = server.node().refusal(1, &server.put("/file", file)).await;
    assert!(told.contains("is neither http nor https"), "{told}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    let server = Server::start().await;
    let input = input(SourceType::UrlDownload, json!({ "URL": "http://127.0.0.1:9/x" }), "/x");
    let told = server.node().refusal(1, &input).await;
    assert!(told.contains("'http://127.0.0.1:9/x' cannot be reached: "), "{told}");
}

#[tokio::test]
async fn the_cache_answers_for_content_that_did_not_change() {
    let server = Server::start().await;
    let node = server.node();
    let input = server.put("/data", content());
    comes_whole(&node, 1, &input).await;
    let inode = |number| {
        let file = node.dir(number).input(0).join("directory/data");
        std::os::unix::fs::MetadataExt::ino(&fs::metadata(file).unwrap())
    };
    comes_whole(&node, 2, &input).await;
    assert_eq!(inode(1), inode(2));
    let changed =
        Page { bytes: Bytes::from_static(b"new"), etag: Some("\"2\""), ..Page::default() };
    server.put("/data", changed);
    let mounted = node.fetch(3, &input).await.unwrap();
    assert_eq!(fs::read(mounted.source).unwrap(), b"new");
}

/// Names as a public resolver might answer them: `public.example` leads to the test's own server,
/// as if that had a public address; every other name leads inwards.
struct Names(SocketAddr);

impl Resolve for Names {
    fn resolve(&self, name: Name) -> Resolving {
        let address = self.0;
        let outcome = match name.as_str() {
            "public.example" => Ok(Box::new([address].into_iter()) as reqwest::dns::Addrs),
            other => judged(Reach::PublicOnly, other, &[address.ip()]),
        };
        Box::pin(async { Ok(outcome?) })
    }
}

fn strict_node(server: &Server) -> Node {
    Node::new(|cache| {
        let web = Web::with_resolver(Reach::PublicOnly, Arc::new(Names(server.address)));
        Sources {
            url_download: UrlDownload::new(web, QUICK),
            ..Sources::new(&Settings::default(), cache.to_owned())
        }
    })
}

#[tokio::test]
async fn addresses_that_are_not_public_are_refused_wherever_they_come_from() {
    let server = Server::start().await;
    let port = server.address.port();
    server.put("/data", content());
    let node = strict_node(&server);
    for host in ["127.0.0.1", "2130706433", "0x7f.1", "[::1]", "[::ffff:7f00:1]", "name.example"] {
        let url = format!("http://{host}:{port}/data");
        let told =
            node.refusal(1, &input(SourceType::UrlDownload, json!({ "URL": url }), "/x")).await;
        assert!(
            told.contains("a loopback address, which this node's settings do not allow"),
            "{told}"
        );
    }
    assert_eq!(server.page("/data").requests, 0);
}

#[tokio::test]
async fn a_redirect_is_judged_like_the_first_url() {
    let server = Server::start().await;
    server.put("/data", content());
    let node = strict_node(&server);
    let port = server.address.port();
    for inwards in
        [format!("http://127.0.0.1:{port}/data"), format!("http://inner.example:{port}/data")]
    {
        server.put("/door", Page { location: Some(inwards), ..Page::default() });
        let url = format!("http://public.example:{port}/door");
        let told =
            node.refusal(1, &input(SourceType::UrlDownload, json!({ "URL": url }), "/x")).await;
        assert!(told.contains("a loopback address"), "{told}");
    }
    assert_eq!((server.page("/door").requests, server.page("/data").requests), (1, 0));
}
