//! A small image registry for the real Engine, which accepts any registry at 127.0.0.0/8 without
//! TLS.
//!
//! It speaks the documented Registry HTTP API v2 over real sockets.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::{StreamExt, stream};
use http::{HeaderMap, Method, StatusCode, Uri, header};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::image::root_file_system;

const MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
const CONFIG: &str = "application/vnd.docker.container.image.v1+json";
const LAYER: &str = "application/vnd.docker.image.rootfs.diff.tar.gzip";

/// The part of a held blob that is sent before its release.
const FIRST_BYTES: usize = 1 << 20;

/// Pieces of a body, so that the Engine sees it coming.
const PIECE_BYTES: usize = 64 << 10;

pub(crate) struct Registry {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: tokio::task::JoinHandle<()>,
}

struct Shared {
    state: Mutex<Contents>,
    /// Whether blobs go out whole.
    open: watch::Sender<bool>,
}

#[derive(Default)]
struct Contents {
    /// By `name:tag` and by `name@digest`.
    manifests: HashMap<String, Bytes>,
    /// By digest.
    blobs: HashMap<String, Bytes>,
    /// Digests of the blobs that are slow, and of those that break off in the middle next time.
    held: HashSet<String>,
    cut: HashSet<String>,
    /// The required `Authorization`.
    login: Option<String>,
    /// What every request is answered with instead, if anything: a status and a header.
    instead: Option<(StatusCode, header::HeaderName, String)>,
    /// Every request: its method, path and credentials.
    asked: Vec<(String, Option<String>)>,
}

/// An image that was pushed here.
pub(crate) struct Pushed {
    /// As a task names it.
    pub(crate) image: String,
    /// Digest of the larger one of its two layers.
    pub(crate) layer: String,
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Registry {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listen");
        let address = listener.local_addr().expect("an address");
        let (state, open) = (Mutex::default(), watch::Sender::new(false));
        let shared = Arc::new(Shared { state, open });
        let router = Router::new().fallback(any(answer)).with_state(Arc::clone(&shared));
        let accepting = tokio::spawn(async move {
            // Dropped with this future, and every connection with it.
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let service = TowerToHyperService::new(router.clone());
                connections.spawn(async move {
                    let served = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service);
                    drop(served.await);
                });
            }
        });
        Self { address, shared, accepting }
    }

    pub(crate) fn host(&self) -> String {
        self.address.to_string()
    }

    /// Puts an image here whose task is that of these tests; `mark` makes its layers differ from
    /// those of every other.
    pub(crate) fn push(&self, name: &str, mark: &str) -> Pushed {
        let mark = format!("{mark} {}", crate::orchestrator::new_id());
        let mut first = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_ustar();
        header.set_size(mark.len() as u64);
        header.set_mode(0o644);
        first.append_data(&mut header, "mark", mark.as_bytes()).expect("a file");
        let tars = [first.into_inner().expect("a tar"), root_file_system()];
        let config = json!({
            "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
            "os": "linux",
            "config": { "Entrypoint": ["/task"] },
            "rootfs": { "type": "layers", "diff_ids": tars.each_ref().map(|tar| digest(tar)) },
        });
        let mut state = self.state();
        let mut put = |bytes: Vec<u8>, media_type: &str| {
            let (digest, size) = (digest(&bytes), bytes.len());
            state.blobs.insert(digest.clone(), bytes.into());
            json!({ "mediaType": media_type, "digest": digest, "size": size })
        };
        let config = put(config.to_string().into_bytes(), CONFIG);
        let layers = tars.map(|tar| put(packed(&tar), LAYER));
        let layer = layers[1]["digest"].as_str().expect("a digest").to_owned();
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers,
        });
        let manifest = Bytes::from(manifest.to_string());
        let repository = name.split(':').next().expect("a name");
        state.manifests.insert(format!("{repository}@{}", digest(&manifest)), manifest.clone());
        state.manifests.insert(name.to_owned(), manifest);
        Pushed { image: format!("{}/{name}", self.address), layer }
    }

    /// Asks for these credentials from now on.
    pub(crate) fn require(&self, username: &str, password: &str) {
        let pair = BASE64_STANDARD.encode(format!("{username}:{password}"));
        self.state().login = Some(format!("Basic {pair}"));
    }

    /// Answers every request with this status and header from now on.
    pub(crate) fn lead_away(&self, status: StatusCode, name: header::HeaderName, value: &str) {
        self.state().instead = Some((status, name, value.to_owned()));
    }

    /// Sends the blob in part, and the rest once [`Self::let_go`] is called.
    pub(crate) fn hold(&self, digest: &str) {
        self.state().held.insert(digest.to_owned());
    }

    pub(crate) fn let_go(&self) {
        self.shared.open.send_replace(true);
    }

    /// The next connection that carries the blob breaks off in the middle.
    pub(crate) fn cut_once(&self, digest: &str) {
        self.state().cut.insert(digest.to_owned());
    }

    /// Makes the blob differ from its digest.
    pub(crate) fn spoil(&self, digest: &str) {
        let mut state = self.state();
        let blob = state.blobs.get_mut(digest).expect("it was pushed");
        let mut bytes = blob.to_vec();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        *blob = bytes.into();
    }

    /// Requests so far whose method and path contain this.
    pub(crate) fn count(&self, part: &str) -> usize {
        self.state().asked.iter().filter(|(asked, _)| asked.contains(part)).count()
    }

    fn state(&self) -> MutexGuard<'_, Contents> {
        self.shared.state.lock().expect("no handler panicked inside")
    }
}

fn digest(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().iter().fold("sha256:".to_owned(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a String takes it");
        text
    })
}

fn packed(tar: &[u8]) -> Vec<u8> {
    use std::io::Write;
    // Stored rather than packed: how much has come is then how much was sent.
    let mut gzip = GzEncoder::new(Vec::new(), Compression::none());
    gzip.write_all(tar).expect("write to memory");
    gzip.finish().expect("write to memory")
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let shown = headers
        .get(header::AUTHORIZATION)
        .map(|value| value.to_str().expect("credentials are text").to_owned());
    let path = uri.path().trim_start_matches("/v2/");
    let (found, held, cut) = {
        let mut state = shared.state.lock().expect("no handler panicked inside");
        state.asked.push((format!("{method} {}", uri.path()), shown.clone()));
        if let Some((status, name, value)) = &state.instead {
            return (*status, [(name.clone(), value.clone())]).into_response();
        }
        if state.login.is_some() && state.login != shown {
            return unauthorized();
        }
        let (found, digest) = state.find(path);
        let cut = method == Method::GET && state.cut.remove(digest);
        (found, state.held.contains(digest), cut)
    };
    match found {
        None if path.is_empty() => (StatusCode::OK, "{}").into_response(),
        None => error(StatusCode::NOT_FOUND, "MANIFEST_UNKNOWN", "manifest unknown"),
        Some((media_type, bytes)) => {
            let headers = [
                (header::CONTENT_TYPE, media_type.to_owned()),
                (header::CONTENT_LENGTH, bytes.len().to_string()),
                (header::HeaderName::from_static("docker-content-digest"), digest(&bytes)),
            ];
            match method == Method::HEAD {
                true => (headers, Body::empty()).into_response(),
                false => (headers, body(bytes, held.then(|| shared.open.subscribe()), cut))
                    .into_response(),
            }
        }
    }
}

impl Contents {
    /// The content at a path, with its type and its digest.
    fn find<'a>(&self, path: &'a str) -> (Option<(&'static str, Bytes)>, &'a str) {
        if let Some((name, reference)) = path.split_once("/manifests/") {
            let separator = if reference.starts_with("sha256:") { '@' } else { ':' };
            let found = self.manifests.get(&format!("{name}{separator}{reference}"));
            return (found.map(|bytes| (MANIFEST, bytes.clone())), reference);
        }
        let digest = path.split_once("/blobs/").map_or("", |(_, digest)| digest);
        (self.blobs.get(digest).map(|bytes| ("application/octet-stream", bytes.clone())), digest)
    }
}

/// Sends the body in pieces: a held blob stops after the first ones until its release, a cut one
/// breaks off in the middle.
fn body(bytes: Bytes, held: Option<watch::Receiver<bool>>, cut: bool) -> Body {
    let first_bytes = if cut { bytes.len() / 2 } else { FIRST_BYTES.min(bytes.len()) };
    let pieces = |bytes: Bytes| {
        let pieces: Vec<_> = bytes.chunks(PIECE_BYTES).map(Bytes::copy_from_slice).collect();
        stream::iter(pieces.into_iter().map(Ok))
    };
    let (first, rest) = (bytes.slice(..first_bytes), bytes.slice(first_bytes..));
    let rest = stream::once(async move {
        if cut {
            return stream::iter(vec![Err(std::io::Error::other("cut"))]).left_stream();
        }
        if let Some(mut open) = held {
            drop(open.wait_for(|open| *open).await);
        }
        pieces(rest).right_stream()
    });
    Body::from_stream(pieces(first).chain(rest.flatten()))
}

fn unauthorized() -> Response {
    let mut answer = error(StatusCode::UNAUTHORIZED, "UNAUTHORIZED", "authentication required");
    let challenge = header::HeaderValue::from_static("Basic realm=\"test\"");
    answer.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    answer
}

fn error(status: StatusCode, code: &str, message: &str) -> Response {
    let body = json!({ "errors": [{ "code": code, "message": message }] }).to_string();
    let json = header::HeaderValue::from_static("application/json");
    let mut answer = (status, body).into_response();
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    answer
}
