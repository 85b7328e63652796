//! The status port: the health and the metrics of this process alone, whether it leads or follows.
//!
//! The main port of a follower shows the leader's, because connections to it are passed on. What
//! decides between processes, such as a load balancer, asks here.

use std::net::SocketAddr;
use std::sync::Arc;

use api_types::routes;
use axum::response::Response;
use daemon::http::{Listening, RequestBody, connections_within};
use http::{Method, Request};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::error::StartError;
use super::standing::Standing;
use crate::http::status;

/// Load balancers and scrapers hold a few connections each. Beyond it, connections wait.
const MAX_CONNECTIONS: usize = 64;

/// Serves until it is dropped.
pub(super) struct StatusPort {
    address: SocketAddr,
    _serving: DropGuard,
}

// === impl StatusPort ===

impl StatusPort {
    pub(super) async fn open(
        address: SocketAddr,
        standing: Arc<Standing>,
    ) -> Result<Self, StartError> {
        let failed = |source| StartError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        tracing::info!(%address, "the status port is open");
        let connections = connections_within(MAX_CONNECTIONS);
        let listening = Listening::new(listener, connections, None);
        let stopping = CancellationToken::new();
        let answer = move |request: Request<RequestBody>| {
            let standing = Arc::clone(&standing);
            daemon::http::answer(request, true, move |request| report(standing, request))
        };
        tokio::spawn(daemon::http::serve(listening, stopping.clone(), answer));
        Ok(Self { address, _serving: stopping.drop_guard() })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn report<B>(standing: Arc<Standing>, request: Request<B>) -> Response {
    let path = request.uri().path();
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return status::no_such_path(path);
    }
    match (path, standing.api()) {
        (routes::LIVEZ, _) => status::alive(),
        (routes::VERSION, _) => status::version(),
        (routes::READYZ, Some(api)) => status::ready(api).await,
        (routes::READYZ, None) => status::follows(standing.readiness()),
        (routes::METRICS, Some(api)) => status::metrics(api, request.headers()).await,
        (routes::METRICS, None) => status::exposed(request.headers(), |form| standing.render(form)),
        (path, _) => status::no_such_path(path),
    }
}
