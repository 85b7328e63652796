//! Servers that tests fetch from and publish to, each in this process and with faults on request.
//!
//! S3 and git are real; an IPFS node and the web are played. Where something goes wrong they
//! panic: their callers are tests.

#![expect(clippy::unwrap_used, reason = "whatever goes wrong here fails the test that called")]

pub mod forge;
pub mod kubo;
pub mod pages;
pub mod s3;

use std::net::SocketAddr;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Serves until it is dropped, on a free port of loopback.
#[derive(Debug)]
pub struct Serving {
    /// `http://` and the address, without a slash at the end.
    pub url: String,
    pub address: SocketAddr,
    accepting: JoinHandle<()>,
}

// === impl Serving ===

impl Serving {
    pub async fn start(router: Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let service = TowerToHyperService::new(router.clone());
                // A connection that breaks off is the other end's to tell.
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { url: format!("http://{address}"), address, accepting }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Bytes that no compression or text mode leaves alone by chance.
pub fn noise(count: usize) -> Vec<u8> {
    let mut state: u32 = 1;
    std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    })
    .take(count)
    .collect()
}
