//! The thin edge: a handler parses, sends one input or one query, and renders.
//!
//! Every answer goes through [`edge`]; every failure is worded in [`error`].

mod agent;
mod body;
mod edge;
mod error;
mod events;
mod executions;
mod health;
mod history;
mod jobs;
mod logs;
mod lookup;
mod metrics;
mod nodes;
mod openapi;
mod paging;
mod protocol;
mod query;
mod reads;
mod requester;
mod results;
pub(crate) mod serve;
mod waiting;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use api_types::NodeId;
use axum::Router;
use axum::extract::{FromRequestParts, Path};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{Method, Uri};
use tokio_util::sync::CancellationToken;
use utoipa_axum::router::OpenApiRouter;

use crate::driver::Handle;
use crate::observer::Observer;
use crate::submission::Requester;
use crate::view::View;
use error::Failure;
pub(crate) use logs::Relay;
pub(crate) use protocol::SpecCache;
pub(crate) use reads::Reader;
pub(crate) use waiting::Places;

/// What the handlers share.
pub(crate) struct Api {
    pub handle: Handle,
    pub reader: Reader,
    pub view: Arc<View>,
    pub own: Own,
    /// The node lease, as agents are told it.
    pub lease_seconds: u64,
    pub specs: SpecCache,
    /// Between readers of logs and the nodes that have them.
    pub relay: Arc<Relay>,
    /// For reads that wait for a job to change.
    pub waiting: Places,
    /// For streams of events.
    pub streams: Places,
    /// For requests that read logs.
    pub log_readers: Places,
    /// For bodies of requests that are not small.
    pub large_bodies: Places,
    pub observer: Observer,
    /// Cancelled when the service is to stop: streams end.
    pub stopping: CancellationToken,
}

/// What the orchestrator says of itself.
pub(crate) struct Own {
    pub id: NodeId,
    pub address: SocketAddr,
    pub labels: BTreeMap<String, String>,
    pub requester: Requester,
}

/// What a handler comes to.
type Handled = Result<Response, Failure>;

pub(crate) fn router(api: Arc<Api>) -> Router {
    let (router, collected) = OpenApiRouter::default()
        .merge(jobs::router())
        .merge(executions::router())
        .merge(history::router())
        .merge(events::router())
        .merge(results::router())
        .merge(logs::router())
        .merge(nodes::router())
        .merge(protocol::router())
        .merge(agent::router())
        .merge(health::router())
        .merge(metrics::router())
        .split_for_parts();
    router
        .merge(requester::router())
        .merge(openapi::router(collected))
        .fallback(path_not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(axum::middleware::from_fn(edge::note_route))
        .with_state(api)
}

async fn path_not_found(uri: Uri) -> Response {
    Failure::PathNotFound { path: uri.path().to_owned() }.into_response()
}

async fn method_not_allowed(method: Method, uri: Uri) -> Response {
    Failure::MethodNotAllowed { method: method.to_string(), path: uri.path().to_owned() }
        .into_response()
}

/// The one parameter of a path, decoded.
struct Parameter(String);

impl<S: Send + Sync> FromRequestParts<S> for Parameter {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        match Path::<String>::from_request_parts(parts, state).await {
            Ok(Path(text)) => Ok(Self(text)),
            // Broken percent-encoding: such a path names nothing.
            Err(_) => Err(Failure::PathNotFound { path: parts.uri.path().to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests;
