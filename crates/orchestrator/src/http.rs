//! The thin HTTP edge: a handler parses, sends one input or one query, and renders.
//!
//! Every response passes through [`edge`]; [`error`] describes every failure.

mod api;
mod edge;
pub(crate) mod error;
mod lookup;
mod openapi;
mod operations;
mod paging;
mod query;
mod respond;
pub(crate) mod status;

use std::net::SocketAddr;
use std::sync::Arc;

use daemon::http::preface::Prefaces;
use daemon::http::{Listening, Tls};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

pub(crate) use api::{Api, Own};
use edge::Service;
pub(crate) use edge::guard::Guard;
pub(crate) use edge::pools::{Pools, max_connections};

/// Where the connections of clients come from.
pub(crate) struct Connections {
    pub(crate) listener: TcpListener,
    /// Those that were accepted before.
    pub(crate) held: Vec<(TcpStream, SocketAddr)>,
    /// Those that followers pass on, where there are any.
    pub(crate) prefaces: Option<Prefaces>,
}

/// Serves the API until `stopping`, then finishes the requests in progress.
pub(crate) async fn serve(
    connections: Connections,
    tls: Option<Arc<Tls>>,
    api: Arc<Api>,
    stopping: CancellationToken,
) {
    if let Some(tls) = &tls {
        // The guard alone: the API holds what serves TLS, and would never be dropped.
        let guard = Arc::clone(&api.guard);
        tls.redirect_to(move |uri, headers| guard.answers_for(uri, headers));
    }
    let service = Service::new(Arc::clone(&api), operations::routes(api));
    let Connections { listener, held, prefaces } = connections;
    let listening = Listening { listener, connections: max_connections(), tls, prefaces, held };
    daemon::http::serve(listening, stopping, move |request| service.clone().answer(request)).await;
}

#[cfg(test)]
pub(crate) fn example_node() -> api_types::node::Node {
    openapi::examples::describe_node().node
}

#[cfg(test)]
pub(crate) fn example_session() -> api_types::protocol::SessionRequest {
    openapi::examples::session_request()
}

#[cfg(test)]
mod tests;
