//! Connections: accepted here, bounded in number and time, drained at the end.

use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use rustix::net::sockopt::set_tcp_user_timeout;
use rustix::process::{Resource, getrlimit};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Api, edge, router};

/// Connections at the same time: room for all inputs that may wait for the driver, all reads that
/// wait, all streams of events, and as many again for agents and other reads. Beyond it new ones
/// wait in the system's backlog until another ends; idle ones end by themselves.
const MAX_CONNECTIONS: usize = 24_576;

/// Files that are no connections: the database, its log, the listener.
const OTHER_FILES: u64 = 256;

/// A peer that takes nothing of what is sent to it for this long is cut off: it would hold its
/// connection for ever. Whoever comes again goes on where it was.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a connection may take to send the head of a request, and how long it may idle between
/// two. Agents send something every ten seconds.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// The head of a request, path and query included; beyond it the answer is 431.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// After a failed accept (no file descriptors left, mostly) nothing is accepted for this long.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long requests under way may take to end when the service stops; then they are cut off.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// How many connections there may be: never more than there are files for, since one that is not
/// accepted waits and one that cannot be opened fails.
pub(crate) fn max_connections() -> usize {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let connections = usize::try_from(files.saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX);
    connections.clamp(1, MAX_CONNECTIONS)
}

/// Serves until `stopping`, then until the last request is answered.
pub(crate) async fn serve(listener: TcpListener, api: Arc<Api>, stopping: CancellationToken) {
    let metrics = Arc::clone(&api.observer.metrics);
    let router = router(api);
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(max_connections()));
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
        if let Err(error) = stream.set_nodelay(true).and_then(|()| cut_off(&stream, STALL_TIMEOUT))
        {
            tracing::debug!(%error, "a connection ended before it began");
            continue;
        }
        let (router, metrics) = (router.clone(), Arc::clone(&metrics));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(MAX_HEAD_BYTES)
            .serve_connection(
                TokioIo::new(stream),
                service_fn(move |request| {
                    edge::answer(router.clone(), Arc::clone(&metrics), request)
                }),
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

/// Has the system end the connection when its peer takes nothing for so long.
fn cut_off(stream: &TcpStream, after: Duration) -> std::io::Result<()> {
    let millis = u32::try_from(after.as_millis()).unwrap_or(u32::MAX);
    Ok(set_tcp_user_timeout(stream, millis)?)
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
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

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test]
    async fn a_peer_that_takes_nothing_is_cut_off() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stalled, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (stalled, mut stream) = (stalled.unwrap(), accepted.unwrap().0);
        cut_off(&stream, Duration::from_secs(1)).unwrap();
        let writing = async {
            let megabyte = vec![0; 1 << 20];
            loop {
                stream.write_all(&megabyte).await?;
            }
        };
        let ended: std::io::Result<()> =
            tokio::time::timeout(Duration::from_secs(60), writing).await.expect("it is cut off");
        assert_eq!(ended.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
        drop(stalled);
    }
}
