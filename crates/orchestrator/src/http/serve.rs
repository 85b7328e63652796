//! Connections: accepted here, bounded in number and time, drained at the end.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::edge;

/// Connections at the same time: a thousand agents hold two or three each. Beyond it new ones
/// wait in the system's backlog until another ends; idle ones end by themselves.
const MAX_CONNECTIONS: usize = 8192;

/// How long a connection may take to send the head of a request, and how long it may idle between
/// two. Agents send something every ten seconds.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// The head of a request, path and query included; beyond it the answer is 431.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// After a failed accept (no file descriptors left, mostly) nothing is accepted for this long.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long requests under way may take to end when the service stops; then they are cut off.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves until `stopping`, then until the last request is answered.
pub(crate) async fn serve(listener: TcpListener, router: Router, stopping: CancellationToken) {
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stopping.cancelled() => break,
            accepted = accept(&listener, &places) => accepted,
        };
        while connections.try_join_next().is_some() {}
        let Some((stream, place)) = accepted else { continue };
        // Answers are small: waiting to fill a packet would only delay them.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection ended before it began");
            continue;
        }
        let router = router.clone();
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(MAX_HEAD_BYTES)
            .serve_connection(
                TokioIo::new(stream),
                service_fn(move |request| edge::answer(router.clone(), request)),
            );
        let connection = graceful.watch(connection);
        connections.spawn(async move {
            let _place = place;
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
        });
    }
    drop(listener);
    if tokio::time::timeout(DRAIN_TIMEOUT, graceful.shutdown()).await.is_err() {
        tracing::warn!("requests were cut off: they did not end within the drain timeout");
    }
    connections.shutdown().await;
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(tokio::net::TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, place)),
        Err(error) => {
            tracing::warn!(%error, "a connection could not be accepted");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}
