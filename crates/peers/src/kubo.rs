//! A simulated IPFS node: the two calls of Kubo's RPC API that the agent makes.
//!
//! Content ids are hashes of the content, but not IPFS hashes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures_util::StreamExt;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use ring::digest::{SHA256, digest};

use crate::Serving;

type Tree = Vec<(String, Vec<u8>)>;

#[derive(Debug, Default)]
struct Content {
    /// By content id: a single file with an empty path, or the files of a directory.
    trees: Mutex<BTreeMap<String, Tree>>,
    /// Number of next responses that fail.
    failures: AtomicUsize,
    /// Number of next responses to `get` that break off.
    cuts: AtomicUsize,
}

#[derive(Debug)]
pub struct KuboServer {
    content: Arc<Content>,
    serving: Serving,
}

// === impl KuboServer ===

impl KuboServer {
    pub async fn start() -> Self {
        let content = Arc::new(Content::default());
        // Kubo accepts POST only.
        let router = Router::new()
            .route("/api/v0/get", post(get))
            .route("/api/v0/add", post(add).layer(axum::extract::DefaultBodyLimit::disable()))
            .with_state(Arc::clone(&content));
        Self { content, serving: Serving::start(router).await }
    }

    /// The value for the agent's setting `ipfs.api`.
    pub fn api(&self) -> String {
        self.serving.url.clone()
    }

    /// Adds a directory of files, or a single file with an empty path; returns its content id.
    pub fn put(&self, files: &[(&str, &[u8])]) -> String {
        let tree: Tree =
            files.iter().map(|(path, bytes)| ((*path).to_owned(), bytes.to_vec())).collect();
        self.content.put(tree)
    }

    /// The content of an added file.
    pub fn file(&self, cid: &str) -> Vec<u8> {
        self.content.trees.lock().unwrap()[cid][0].1.clone()
    }

    /// Makes the next `count` requests fail with a transient error.
    pub fn fail(&self, count: usize) {
        self.content.failures.store(count, Ordering::SeqCst);
    }

    /// Makes the next `count` downloads break off.
    pub fn cut(&self, count: usize) {
        self.content.cuts.store(count, Ordering::SeqCst);
    }
}

// === impl Content ===

impl Content {
    fn put(&self, tree: Tree) -> String {
        let all: Vec<u8> = tree
            .iter()
            .flat_map(|(path, bytes)| path.bytes().chain(*b"\0").chain(bytes.iter().copied()))
            .collect();
        let hash = digest(&SHA256, &all);
        let hex: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let cid = format!("bafy{hex}");
        self.trees.lock().unwrap().insert(cid.clone(), tree);
        cid
    }

    fn take_one(counter: &AtomicUsize) -> bool {
        let less = |left: usize| left.checked_sub(1);
        counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
    }
}

fn failed(message: &str) -> Response {
    let body = serde_json::json!({ "Message": message, "Code": 0, "Type": "error" });
    (StatusCode::INTERNAL_SERVER_ERROR, body.to_string()).into_response()
}

async fn get(State(content): State<Arc<Content>>, RawQuery(query): RawQuery) -> Response {
    if Content::take_one(&content.failures) {
        return failed("the daemon is busy");
    }
    let query = query.unwrap_or_default();
    let pairs: BTreeMap<_, _> = query.split('&').filter_map(|pair| pair.split_once('=')).collect();
    assert_eq!((pairs["archive"], pairs["timeout"]), ("true", "60s"));
    let path = pairs["arg"].replace("%2F", "/");
    let (cid, below) = path.split_once('/').unwrap_or((&path, ""));
    let tree = content.trees.lock().unwrap().get(cid).cloned();
    let Some(tree) = tree else { return failed("context deadline exceeded") };
    let top = path.rsplit('/').next().unwrap();
    let mut tar = tar::Builder::new(Vec::new());
    for (name, bytes) in &tree {
        let Some(rest) = name.strip_prefix(below) else { continue };
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(bytes.len() as u64);
        let path = format!("{top}/{}", rest.trim_start_matches('/'));
        tar.append_data(&mut header, path.trim_end_matches('/'), &bytes[..]).unwrap();
    }
    let mut bytes = tar.into_inner().unwrap();
    if bytes.len() <= 1024 {
        return failed("no link named \"absent\" under it");
    }
    if Content::take_one(&content.cuts) {
        bytes.truncate(700);
        let pieces = [Ok(bytes), Err(std::io::Error::other("cut"))];
        // The first piece must be sent before the connection closes.
        let paced = futures_util::stream::iter(pieces).then(|piece| async {
            if piece.is_err() {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
            piece
        });
        return Body::from_stream(paced).into_response();
    }
    ([(CONTENT_TYPE, "application/x-tar")], bytes).into_response()
}

async fn add(
    State(content): State<Arc<Content>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    assert_eq!(query.as_deref(), Some("cid-version=1&pin=true"));
    if Content::take_one(&content.failures) {
        return failed("the daemon is busy");
    }
    let kind = headers[CONTENT_TYPE].to_str().unwrap();
    let boundary = kind.strip_prefix("multipart/form-data; boundary=").unwrap();
    let start = body.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    assert!(body.starts_with(format!("--{boundary}\r\n").as_bytes()));
    let tail = format!("\r\n--{boundary}--\r\n");
    assert!(body.ends_with(tail.as_bytes()));
    let file = body[start..body.len() - tail.len()].to_vec();
    let size = file.len().to_string();
    let cid = content.put(vec![(String::new(), file)]);
    let progress = serde_json::json!({ "Name": "x", "Bytes": 1 });
    let added = serde_json::json!({ "Name": "x", "Hash": cid, "Size": size });
    format!("{progress}\n{added}\n").into_response()
}
