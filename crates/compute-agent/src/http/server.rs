//! Connections that the agent accepts itself, within limits.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

/// Connections at once; more wait in the kernel's queue until one ends.
const MAX_CONNECTIONS: usize = 256;

/// How long a client may take over the head of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// How long requests under way may take once the agent is stopping.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// After an accept that failed, most likely for want of file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Serves until it is told to stop, then lets the requests under way finish.
pub(crate) async fn serve(listener: TcpListener, router: Router, stopping: CancellationToken) {
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let graceful = GracefulShutdown::new();
    loop {
        let next = async {
            let permit = Arc::clone(&connections).acquire_owned().await;
            (permit, listener.accept().await)
        };
        let Some((permit, accepted)) = stopping.run_until_cancelled(next).await else { break };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                warn!(%error, "a connection cannot be accepted");
                tokio::time::sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router.clone()));
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            let _permit = permit;
            if let Err(error) = connection.await {
                debug!(%error, "a connection broke off");
            }
        });
    }
    drop(listener);
    if tokio::time::timeout(DRAIN_TIMEOUT, graceful.shutdown()).await.is_err() {
        debug!("requests were cut off at the end of the drain");
    }
}
