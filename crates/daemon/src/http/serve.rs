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
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::accept::{Accepted, Permits};
use super::context::RequestContext;
use super::head::{Flaw, MAX_HEAD_BYTES, READ_HEAD_BYTES};
use super::plain;
use super::preface::Prefaces;
use super::tls::{ClientCertificate, OpenConnection, Tls};
use super::unread::{self, RequestBody};

/// How long a connection may take to send the head of a request, and how long it may idle between
/// requests. Agents send something every ten seconds.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Drain timeout: how long requests in progress may take when the daemon stops; then they are cut
/// off.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Where connections come from.
pub struct Listening {
    pub listener: TcpListener,
    /// The limit of concurrent connections.
    pub connections: usize,
    /// Plain HTTP without it.
    pub tls: Option<Arc<Tls>>,
    /// Without it, no connection that was passed on is accepted.
    pub prefaces: Option<Prefaces>,
    /// Connections that were accepted before, at most as many as the limit.
    pub held: Vec<(TcpStream, SocketAddr)>,
}

// === impl Listening ===

impl Listening {
    /// For a listener to which no one passes connections on.
    pub fn new(listener: TcpListener, connections: usize, tls: Option<Arc<Tls>>) -> Self {
        Self { listener, connections, tls, prefaces: None, held: Vec::new() }
    }
}

/// Serves until `stopping`, then finishes the requests in progress. Above the limit, new
/// connections wait in the system's backlog until another ends; idle ones time out.
pub async fn serve<A, F>(listening: Listening, stopping: CancellationToken, answer: A)
where
    A: Fn(Request<RequestBody>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    let Listening { listener, connections, tls, prefaces, held } = listening;
    let graceful = GracefulShutdown::new();
    let entrance = Entrance { tls, prefaces, stopping };
    let permits = Permits::new(connections);
    let mut running = JoinSet::new();
    let mut held = held.into_iter();
    loop {
        let next = async {
            match held.next() {
                Some((stream, peer)) => permits.admit(stream, peer).await,
                None => permits.accept(&listener).await,
            }
        };
        let accepted = tokio::select! {
            biased;
            () = entrance.stopping.cancelled() => break,
            accepted = next => accepted,
        };
        while running.try_join_next().is_some() {}
        let Some(accepted) = accepted else { continue };
        running.spawn(entrance.clone().let_in(accepted, graceful.watcher(), answer.clone()));
    }
    drop(listener);
    if tokio::time::timeout(DRAIN_TIMEOUT, graceful.shutdown()).await.is_err() {
        tracing::warn!("requests were cut off: they did not end within the drain timeout");
    }
    running.shutdown().await;
}

/// What a connection passes before its first request.
#[derive(Clone)]
struct Entrance {
    tls: Option<Arc<Tls>>,
    prefaces: Option<Prefaces>,
    stopping: CancellationToken,
}

// === impl Entrance ===

impl Entrance {
    async fn let_in<A, F>(self, accepted: Accepted, watcher: Watcher, answer: A)
    where
        A: Fn(Request<RequestBody>) -> F + Clone + Send + 'static,
        F: Future<Output = Response> + Send + 'static,
    {
        let Accepted { mut stream, peer, permit: _permit } = accepted;
        let mut peer = peer.ip();
        if let Some(prefaces) = &self.prefaces {
            match self.stopping.run_until_cancelled(prefaces.client(&mut stream, peer)).await {
                Some(Ok(client)) => peer = client,
                Some(Err(error)) => {
                    tracing::debug!(%peer, %error, "connection ended before its first request");
                    return;
                }
                None => return,
            }
        }
        let Some(tls) = self.tls else {
            return talk(stream, peer, None, watcher, answer).await;
        };
        match self.stopping.run_until_cancelled(tls.open(stream)).await {
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
    }
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
