//! A real S3 server in this process, whose buckets are directories.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use tokio::net::TcpListener;

use crate::settings::{AwsVariables, Settings};

pub(crate) const BUCKET: &str = "bucket";
const KEY_ID: &str = "key-id";
const SECRET: &str = "secret";

pub(crate) struct S3Server {
    address: SocketAddr,
    root: tempfile::TempDir,
    accepting: tokio::task::JoinHandle<()>,
    /// Connections that end before anything was answered.
    broken: Arc<AtomicUsize>,
    /// Requests that began a multipart upload.
    pub(crate) multiparts: Arc<AtomicUsize>,
}

impl Drop for S3Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

// === impl S3Server ===

impl S3Server {
    pub(crate) async fn start() -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join(BUCKET)).unwrap();
        let mut builder = S3ServiceBuilder::new(s3s_fs::FileSystem::new(root.path()).unwrap());
        builder.set_auth(SimpleAuth::from_single(KEY_ID, SECRET));
        let service = builder.build();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (broken, multiparts) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (breaking, counting) = (Arc::clone(&broken), Arc::clone(&multiparts));
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let takes = |left: usize| left.checked_sub(1);
                if breaking.fetch_update(Ordering::SeqCst, Ordering::SeqCst, takes).is_ok() {
                    continue;
                }
                let (service, counting) = (service.clone(), Arc::clone(&counting));
                let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                    if request.uri().query().is_some_and(|query| query.starts_with("uploads")) {
                        counting.fetch_add(1, Ordering::SeqCst);
                    }
                    hyper::service::Service::call(&service, request)
                });
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        Self { address, root, accepting, broken, multiparts }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Of a node that may reach it with this secret; jobs name the endpoint.
    pub(crate) fn settings(&self, secret: &str) -> Settings {
        let variables = [("AWS_ACCESS_KEY_ID", KEY_ID), ("AWS_SECRET_ACCESS_KEY", secret)]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        Settings {
            allow_private_addresses: true,
            aws: AwsVariables(BTreeMap::from(variables)),
            ..Settings::default()
        }
    }

    pub(crate) fn good_settings(&self) -> Settings {
        self.settings(SECRET)
    }

    pub(crate) fn object(&self, key: &str) -> PathBuf {
        self.root.path().join(BUCKET).join(key)
    }

    pub(crate) fn put(&self, key: &str, bytes: &[u8]) {
        let path = self.object(key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    pub(crate) fn break_connections(&self, count: usize) {
        self.broken.store(count, Ordering::SeqCst);
    }
}
