//! Accepts connections, bounds their number and time, and drains them on shutdown.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rustix::net::sockopt::set_tcp_user_timeout;
use rustix::process::{Resource, getrlimit};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::context::RequestContext;
use super::head::{Flaw, MAX_HEAD_BYTES, READ_HEAD_BYTES};
use super::plain;
use super::tls::{ClientCertificate, OpenConnection, Tls};
use super::unread::{self, RequestBody};

/// File descriptors for other purposes: databases, their logs, the listener.
const OTHER_FILES: u64 = 256;

/// A peer that reads nothing for this long is disconnected: it would hold its connection forever.
/// It can reconnect and resume.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a connection may take to send the head of a request, and how long it may idle between
/// requests. Agents send something every ten seconds.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Pause after a failed accept, which mostly means that no file descriptors are left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Drain timeout: how long requests in progress may take when the daemon stops; then they are cut
/// off.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// The connection limit, at most `most`: never more than there are file descriptors, because a
/// connection that is not accepted waits, while one that cannot be opened fails.
pub fn connections_within(most: usize) -> usize {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let connections = usize::try_from(files.saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX);
    connections.clamp(1, most)
}

/// Where connections come from.
pub struct Listening {
    pub listener: TcpListener,
    /// The limit of concurrent connections.
    pub connections: usize,
    /// Plain HTTP without it.
    pub tls: Option<Arc<Tls>>,
}

/// Serves until `stopping`, then finishes the requests in progress. Above the limit, new
/// connections wait in the system's backlog until another ends; idle ones time out.
pub async fn serve<A, F>(listening: Listening, stopping: CancellationToken, answer: A)
where
    A: Fn(Request<RequestBody>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    let Listening { listener, connections, tls } = listening;
    let graceful = GracefulShutdown::new();
    let permits = Arc::new(Semaphore::new(connections));
    let mut running = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stopping.cancelled() => break,
            accepted = accept(&listener, &permits) => accepted,
        };
        while running.try_join_next().is_some() {}
        let Some((stream, peer, permit)) = accepted else { continue };
        // Responses are small: waiting to fill a packet would only delay them.
        if let Err(error) = stream.set_nodelay(true).and_then(|()| cut_off(&stream, STALL_TIMEOUT))
        {
            tracing::debug!(%error, "connection ended before its first request");
            continue;
        }
        let (answer, watcher) = (answer.clone(), graceful.watcher());
        let (tls, stopping, peer) = (tls.clone(), stopping.clone(), peer.ip());
        running.spawn(async move {
            let _permit = permit;
            let Some(tls) = tls else {
                return talk(stream, peer, None, watcher, answer).await;
            };
            match stopping.run_until_cancelled(tls.open(stream)).await {
                Some(Ok(OpenConnection::Secured(stream, shown))) => {
                    talk(*stream, peer, shown, watcher, answer).await
                }
                Some(Ok(OpenConnection::Plain(stream))) => {
                    tracing::debug!(%peer, "plain HTTP on a port that speaks TLS");
                    let refuse = move |request| plain::refuse(Arc::clone(&tls), request);
                    talk(stream, peer, None, watcher, refuse).await
                }
                Some(Err(error)) => {
                    tracing::debug!(%peer, %error, "connection ended before its first request");
                }
                None => {}
            }
        });
    }
    drop(listener);
    if tokio::time::timeout(DRAIN_TIMEOUT, graceful.shutdown()).await.is_err() {
        tracing::warn!("requests were cut off: they did not end within the drain timeout");
    }
    running.shutdown().await;
}

/// Answers the requests of one connection.
async fn talk<S, A, F>(
    stream: S,
    peer: IpAddr,
    certificate: Option<ClientCertificate>,
    watcher: Watcher,
    answer: A,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    A: Fn(Request<RequestBody>) -> F + Send + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(READ_HEAD_BYTES)
        .max_header_size(MAX_HEAD_BYTES + 1)
        .serve_connection(
            TokioIo::new(stream),
            service_fn(move |mut request: Request<Incoming>| {
                let flaw = Flaw::find_in(&request);
                let context = RequestContext::from_extensions_mut(request.extensions_mut());
                (context.peer, context.certificate) = (Some(peer), certificate.clone());
                context.flaw = flaw;
                let (request, rest) = unread::follow(request);
                // Some kilobytes, which the connection would otherwise move about.
                let answered = Box::pin(answer(request));
                async move {
                    let response = answered.await;
                    rest.take_in().await;
                    Ok::<_, std::convert::Infallible>(response)
                }
            }),
        );
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "connection ended early");
    }
}

/// Makes the system end the connection when its peer reads nothing for this long.
fn cut_off(stream: &TcpStream, after: Duration) -> std::io::Result<()> {
    let millis = u32::try_from(after.as_millis()).unwrap_or(u32::MAX);
    Ok(set_tcp_user_timeout(stream, millis)?)
}

async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let permit = Arc::clone(permits).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, peer)) => Some((stream, peer, permit)),
        Err(error) => {
            tracing::warn!(%error, "cannot accept a connection");
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
    async fn a_peer_that_reads_nothing_is_disconnected() {
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
