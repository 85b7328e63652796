//! A real in-process S3 server whose buckets are directories.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::RawQuery;
use axum::response::IntoResponse;
use axum::routing::get;
use http::StatusCode;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use tokio::net::TcpListener;

use crate::Serving;

pub const BUCKET: &str = "bucket";
/// Access key of the only user.
pub const KEY_ID: &str = "key-id";
pub const SECRET: &str = "secret";

#[derive(Debug)]
pub struct S3Server {
    address: SocketAddr,
    root: tempfile::TempDir,
    accepting: tokio::task::JoinHandle<()>,
    /// Number of next connections that close without a response.
    broken: Arc<AtomicUsize>,
    /// Number of next PUT requests that get no response, and of those that already did not.
    stalls: Arc<AtomicUsize>,
    stalled: Arc<AtomicUsize>,
    /// Number of multipart uploads started.
    pub multiparts: Arc<AtomicUsize>,
}

impl Drop for S3Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

// === impl S3Server ===

impl S3Server {
    pub async fn start() -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join(BUCKET)).unwrap();
        let mut builder = S3ServiceBuilder::new(s3s_fs::FileSystem::new(root.path()).unwrap());
        builder.set_auth(SimpleAuth::from_single(KEY_ID, SECRET));
        let service = builder.build();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (broken, multiparts) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (stalls, stalled) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (breaking, counting) = (Arc::clone(&broken), Arc::clone(&multiparts));
        let (stalling, counting_stalls) = (Arc::clone(&stalls), Arc::clone(&stalled));
        let takes = |left: usize| left.checked_sub(1);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                if breaking.fetch_update(Ordering::SeqCst, Ordering::SeqCst, takes).is_ok() {
                    continue;
                }
                let (service, counting) = (service.clone(), Arc::clone(&counting));
                let (stalling, stalled) = (Arc::clone(&stalling), Arc::clone(&counting_stalls));
                let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                    if request.uri().query().is_some_and(|query| query.starts_with("uploads")) {
                        counting.fetch_add(1, Ordering::SeqCst);
                    }
                    let stalls = request.method() == hyper::Method::PUT
                        && stalling.fetch_update(Ordering::SeqCst, Ordering::SeqCst, takes).is_ok();
                    let response = hyper::service::Service::call(&service, request);
                    if stalls {
                        stalled.fetch_add(1, Ordering::SeqCst);
                    }
                    async move {
                        if stalls {
                            std::future::pending::<()>().await;
                        }
                        response.await
                    }
                });
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        Self { address, root, accepting, broken, stalls, stalled, multiparts }
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Path of the file of an object in [`BUCKET`].
    pub fn object(&self, key: &str) -> PathBuf {
        self.root.path().join(BUCKET).join(key)
    }

    pub fn put(&self, key: &str, bytes: &[u8]) {
        let path = self.object(key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    /// Makes the next `count` PUT requests get no response.
    pub fn stall_puts(&self, count: usize) {
        self.stalls.store(count, Ordering::SeqCst);
    }

    /// Number of PUT requests that got no response.
    pub fn stalled(&self) -> usize {
        self.stalled.load(Ordering::SeqCst)
    }

    /// Closes the next `count` connections without a response.
    pub fn break_connections(&self, count: usize) {
        self.broken.store(count, Ordering::SeqCst);
    }
}

/// Key of the object in [`BUCKET`] of which [`versions`] has two versions.
pub const VERSIONED_KEY: &str = "k";

/// A simulated server with object versions, which the real one does not support.
pub async fn versions() -> Serving {
    let serve = async |RawQuery(query): RawQuery| {
        let version = match query.as_deref() {
            None | Some("") => "2",
            Some("versionId=1") => "1",
            Some(_) => {
                let body = "<Error><Code>NoSuchVersion</Code></Error>";
                return (StatusCode::NOT_FOUND, body).into_response();
            }
        };
        let headers = [
            ("x-amz-version-id", version),
            ("etag", "\"same\""),
            ("last-modified", "Sat, 21 Nov 2026 08:00:00 GMT"),
        ];
        (headers, format!("version {version}")).into_response()
    };
    let path = format!("/{BUCKET}/{VERSIONED_KEY}");
    Serving::start(Router::new().route(&path, get(serve))).await
}

/// A server that lists these keys, whatever prefix is asked for, and has each as an object.
pub async fn listing(keys: &[&str]) -> Serving {
    let contents: String = keys
        .iter()
        .map(|key| {
            format!(
                "<Contents><Key>{key}</Key><LastModified>2026-11-21T08:00:00.000Z</LastModified>\
                 <ETag>&quot;t&quot;</ETag><Size>5</Size></Contents>"
            )
        })
        .collect();
    let page =
        format!("<ListBucketResult><IsTruncated>false</IsTruncated>{contents}</ListBucketResult>");
    let serve = async move |RawQuery(query): RawQuery| match query {
        Some(query) if query.contains("list-type=") => page.clone().into_response(),
        _ => {
            let headers = [("etag", "\"t\""), ("last-modified", "Sat, 21 Nov 2026 08:00:00 GMT")];
            (headers, "owned").into_response()
        }
    };
    Serving::start(Router::new().fallback(get(serve))).await
}

/// A server whose listing never ends: one page of spaces.
pub async fn endless_listing() -> Serving {
    let serve = async || crate::hostile::endless(b"", b" ").into_response();
    Serving::start(Router::new().fallback(get(serve))).await
}
