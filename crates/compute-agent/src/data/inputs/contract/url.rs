//! Inputs from a URL, against a server with programmable redirects, ranges and failures.

use std::net::SocketAddr;
use std::sync::Arc;

use api_types::credential::{CredentialType, Login};
use peers::pages::{Page, Pages};
use reqwest::dns::{Name, Resolve, Resolving};
use serde_json::json;

use super::*;
use crate::data::egress::addresses::filtered;
use crate::testing::credential;

pub(super) struct Server {
    pages: Pages,
    address: SocketAddr,
}

impl Server {
    async fn start() -> Self {
        let pages = Pages::start().await;
        Self { address: pages.address(), pages }
    }

    fn put(&self, path: &str, page: Page) -> InputSource {
        let url = self.pages.put(path, page);
        input(SourceType::UrlDownload, json!({ "URL": url }), "/in/it")
    }

    fn page(&self, path: &str) -> Page {
        self.pages.page(path)
    }

    fn node(&self) -> Node {
        Node::new(|cache| self.sources(cache))
    }
}

impl Origin for Server {
    fn sources(&self, cache: &Path) -> Sources {
        let settings = Settings { allow_private_addresses: true, ..Settings::default() };
        let url_download = UrlDownload::new(EgressClient::new(EgressPolicy::Anywhere), QUICK);
        Sources { url_download, ..Sources::new(&settings, cache.to_owned()) }
    }

    fn file(&self, bytes: &[u8]) -> InputSource {
        let bytes = bytes.to_vec().into();
        self.put("/file", Page { bytes, etag: Some("\"1\""), ..Page::default() })
    }

    fn missing(&self) -> (InputSource, &'static str) {
        let input = self.put("/file", Page::default());
        self.pages.clear();
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
async fn a_broken_download_resumes_where_it_stopped() {
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
async fn a_download_that_cannot_resume_starts_again() {
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
async fn a_download_without_progress_fails_with_the_reason() {
    let server = Server::start().await;
    let page = Page { cuts: usize::MAX, etag: None, bytes: noise(3).into(), ..content() };
    let message = server.node().refusal(1, &server.put("/cut", page)).await;
    assert!(message.contains("the connection broke off after 0 bytes: "), "{message}");
    assert!(message.ends_with("(tried 3 times)"), "{message}");
}

#[tokio::test]
async fn a_transient_error_status_is_retried() {
    let server = Server::start().await;
    let input = server.put("/busy", Page { statuses: vec![429, 503], ..content() });
    comes_whole(&server.node(), 1, &input).await;
    let down = server.put("/down", Page { statuses: vec![500; 9], ..content() });
    let message = server.node().refusal(1, &down).await;
    assert!(
        message.ends_with("/down' answered 500 Internal Server Error (tried 3 times)"),
        "{message}"
    );
    assert_eq!(server.page("/down").requests, 3);
    let secret = server.put("/secret", Page { statuses: vec![403; 9], ..content() });
    let message = server.node().refusal(1, &secret).await;
    assert!(
        message.ends_with("may not be read (403 Forbidden); check its credentials"),
        "{message}"
    );
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
    let message = server.node().refusal(1, &circle).await;
    assert!(message.contains("was redirected more than 10 times"), "{message}");
    let file = Page { location: Some("file:///etc/passwd".to_owned()), ..Page::default() };
    let message = server.node().refusal(1, &server.put("/file", file)).await;
    assert!(message.contains("is neither http nor https"), "{message}");
}

#[tokio::test]
async fn an_unreachable_server_is_named() {
    let server = Server::start().await;
    let input = input(SourceType::UrlDownload, json!({ "URL": "http://127.0.0.1:9/x" }), "/x");
    let message = server.node().refusal(1, &input).await;
    assert!(message.contains("cannot reach 'http://127.0.0.1:9/x': "), "{message}");
}

#[tokio::test]
async fn the_cache_serves_unchanged_content() {
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
    let changed = Page { bytes: b"new".to_vec().into(), etag: Some("\"2\""), ..Page::default() };
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
            other => filtered(EgressPolicy::PublicOnly, other, &[address.ip()]),
        };
        Box::pin(async { Ok(outcome?) })
    }
}

fn strict_node(server: &Server) -> Node {
    Node::new(|cache| {
        let client =
            EgressClient::with_resolver(EgressPolicy::PublicOnly, Arc::new(Names(server.address)));
        Sources {
            url_download: UrlDownload::new(client, QUICK),
            ..Sources::new(&Settings::default(), cache.to_owned())
        }
    })
}

#[tokio::test]
async fn non_public_addresses_are_refused_wherever_they_come_from() {
    let server = Server::start().await;
    let port = server.address.port();
    server.put("/data", content());
    let node = strict_node(&server);
    for host in ["127.0.0.1", "2130706433", "0x7f.1", "[::1]", "[::ffff:7f00:1]", "name.example"] {
        let url = format!("http://{host}:{port}/data");
        let message =
            node.refusal(1, &input(SourceType::UrlDownload, json!({ "URL": url }), "/x")).await;
        assert!(
            message.contains("a loopback address, which this node's settings do not allow"),
            "{message}"
        );
    }
    assert_eq!(server.page("/data").requests, 0);
}

#[tokio::test]
async fn the_egress_policy_applies_to_every_redirect() {
    let server = Server::start().await;
    server.put("/data", content());
    let node = strict_node(&server);
    let port = server.address.port();
    for inwards in
        [format!("http://127.0.0.1:{port}/data"), format!("http://inner.example:{port}/data")]
    {
        server.put("/door", Page { location: Some(inwards), ..Page::default() });
        let url = format!("http://public.example:{port}/door");
        let message =
            node.refusal(1, &input(SourceType::UrlDownload, json!({ "URL": url }), "/x")).await;
        assert!(message.contains("a loopback address"), "{message}");
    }
    assert_eq!((server.page("/door").requests, server.page("/data").requests), (1, 0));
}

#[tokio::test]
async fn a_login_goes_to_its_own_host_wherever_the_request_is_redirected() {
    let server = Server::start().await;
    let host = server.address.to_string();
    let login = Login { token: "hush".to_owned(), ..Login::default() };
    let bearer = Some("Bearer hush".to_owned());
    let mut node = server.node();
    node.granted = Granted::with(credential(CredentialType::Http, &[&host], login));
    let named = |mut input: InputSource| {
        input.source.params.insert("Credentials".to_owned(), json!("own"));
        input
    };
    // A page that asks for the login, behind a redirect of the same host.
    server.put("/private", Page { login: bearer.clone(), cuts: 1, ..content() });
    let location = Some(format!("http://{host}/private"));
    let input = named(server.put("/moved", Page { location, ..Page::default() }));
    comes_whole(&node, 1, &input).await;
    assert_eq!(server.page("/private").logins, ["Bearer hush", "Bearer hush"]);
    // To another name of the same machine it is not sent, and back again it is.
    let elsewhere = format!("http://localhost:{}", server.address.port());
    let back = Some(format!("http://{host}/private"));
    server.put("/elsewhere", Page { location: back, ..Page::default() });
    let away = Some(format!("{elsewhere}/elsewhere"));
    let input = named(server.put("/away", Page { location: away, ..Page::default() }));
    comes_whole(&node, 2, &input).await;
    assert_eq!(server.page("/away").logins, ["Bearer hush"]);
    assert_eq!(server.page("/elsewhere").logins, [""]);
    // Without naming them, a task does not have them.
    let input = server.put("/plain", Page { login: bearer, ..content() });
    let message = node.refusal(3, &input).await;
    assert!(
        message.ends_with("may not be read (401 Unauthorized); check its credentials"),
        "{message}"
    );
    assert_eq!(server.page("/plain").logins, [""]);
}
