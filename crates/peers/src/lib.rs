//! In-process test servers that inputs come from and results go to, with faults on request.
//!
//! S3 and git are real implementations; the IPFS node and the web server are simulated. All of
//! them panic on errors, since their callers are tests.

#![expect(clippy::unwrap_used, reason = "an error here must fail the calling test")]

pub mod docker;
pub mod engine;
pub mod forge;
pub mod hostile;
pub mod issuer;
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

/// A server on a free loopback port; dropping it stops it.
#[derive(Debug)]
pub struct Serving {
    /// `http://` and the address, without a trailing slash.
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
                // The peer reports a broken connection.
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

/// Pseudo-random bytes that compression cannot shrink and text conversion would corrupt.
pub fn noise(count: usize) -> Vec<u8> {
    let mut state: u32 = 1;
    std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    })
    .take(count)
    .collect()
}
