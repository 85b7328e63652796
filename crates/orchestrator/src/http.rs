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

use std::sync::Arc;

use daemon::http::{Listening, Tls};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub(crate) use api::{Api, Own};
use edge::Service;
pub(crate) use edge::guard::Guard;
use edge::pools;
pub(crate) use edge::pools::Pools;

/// Serves the API until `stopping`, then finishes the requests in progress.
pub(crate) async fn serve(
    listener: TcpListener,
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
    let listening = Listening { listener, connections: pools::max_connections(), tls };
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
