//! Serves the API: the connections of [`daemon::http`] within this daemon's bounds.

use std::sync::Arc;

use daemon::http::{Listening, Tls, connections_within};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::Api;
use super::edge::Service;

/// The connection limit: enough for all inputs that may wait for the driver, all waiting reads, all
/// event streams, and as many again for agents and other reads.
const MAX_CONNECTIONS: usize = 24_576;

/// The limit of concurrent connections.
pub(crate) fn max_connections() -> usize {
    connections_within(MAX_CONNECTIONS)
}

/// Serves until `stopping`, then finishes the requests in progress.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
    api: Arc<Api>,
    stopping: CancellationToken,
) {
    let service = Service::new(api);
    let listening = Listening { listener, connections: max_connections(), tls };
    daemon::http::serve(listening, stopping, move |request| service.clone().answer(request)).await;
}
