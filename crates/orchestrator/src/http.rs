//! The thin HTTP edge: a handler parses, sends one input or one query, and renders.
//!
//! Every response passes through [`edge`]; [`error`] describes every failure.

mod agent;
mod archives;
mod arriving;
mod audit;
mod authenticate;
mod body;
mod changes;
mod cluster;
mod credentials;
mod edge;
mod enrolment;
pub(crate) mod error;
mod events;
mod exchange;
mod executions;
pub(crate) mod guard;
mod health;
mod history;
mod jobs;
mod keys;
mod login;
mod logs;
mod lookup;
mod metrics;
mod namespaced;
mod namespaces;
mod node_tokens;
mod nodes;
mod openapi;
mod paging;
mod protocol;
mod query;
mod requester;
mod results;
mod secrets;
pub(crate) mod serve;
mod sessions;
mod tokens;
mod usage;
mod waiting;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use api_types::NodeId;
use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use control_plane::store::Reads;
use daemon::http::Operations;
use http::Request;
use http::request::Parts;
use telemetry::metrics::RouteMetrics;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use web::Pages;

use crate::access::denials::Denials;
use crate::access::policy::{self, Rules};
use crate::access::upkeep::LastUses;
use crate::cluster::Watched;
use crate::driver::Handle;
use crate::issuer::Issuer;
use crate::keys::KeyRing;
use crate::logs::Access;
use crate::observer::Observer;
use crate::protection::Protection;
use crate::reads::{AskedBy, Reader};
use crate::submission::Requester;
use crate::view::View;
pub(crate) use arriving::LargeBodies;
use error::Failure;
use guard::Guard;
pub(crate) use waiting::{Permits, SharedPermits};

/// What the handlers share.
pub(crate) struct Api {
    pub handle: Handle,
    pub reader: Reader,
    pub view: Arc<View>,
    pub own: Own,
    pub logs: Arc<Access>,
    /// For reads that wait for a job to change.
    pub waiting: Permits,
    /// For streams of events.
    pub streams: Permits,
    /// For requests that read logs.
    pub log_readers: SharedPermits,
    /// For requests that read published archives.
    pub downloads: Permits,
    /// For large request bodies.
    pub large_bodies: LargeBodies,
    pub observer: Observer,
    pub cluster: Watched,
    /// Names this process in the IDs of its messages.
    pub process: String,
    /// Whose requests are answered.
    pub guard: Guard,
    /// Whether a caller without credentials is refused, or is an admin.
    pub asks_for_credentials: bool,
    pub last_uses: Arc<LastUses>,
    pub denials: Arc<Denials>,
    /// Whose ID tokens are taken, if anybody's.
    pub issuer: Option<Arc<Issuer>>,
    /// TLS of the listener, if it has any: nodes then present certificates.
    pub protection: Option<Arc<Protection>>,
    /// What secrets are encrypted with.
    pub keys: Arc<KeyRing>,
    /// The web pages once somebody has asked for one, unless the settings leave them out.
    pub pages: Option<OnceCell<Pages>>,
    /// Cancelled when the service stops: streams end.
    pub stopping: CancellationToken,
}

// === impl Api ===

impl Api {
    /// Runs one read against the store, which may be several queries.
    async fn read<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Reads) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        self.reader.run(AskedBy::User, question).await
    }

    /// The same for what an agent needs to go on.
    async fn read_for_agent<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Reads) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        self.reader.run(AskedBy::Agent, question).await
    }
}

/// The orchestrator's own node record.
pub(crate) struct Own {
    pub id: NodeId,
    pub address: SocketAddr,
    pub labels: BTreeMap<String, String>,
    pub requester: Requester,
}

/// The outcome of a handler.
type Handled = Result<Response, Failure>;

/// What is said of the operations of a path.
struct About {
    /// Who may use each.
    rules: Rules,
    metrics: RouteMetrics,
}

/// The operations with the path of a request.
type Found<'a> = daemon::http::Found<'a, Arc<Api>, About>;

/// Finds the operations of a request.
type Routes = daemon::http::Routes<Arc<Api>, About>;

/// Who may use an operation is decided before it is called, at the [`edge`].
///
/// # Panics
///
/// If the policy lacks one: nothing is open because somebody forgot it there.
fn routes(api: Arc<Api>) -> Routes {
    let metrics = api.observer.metrics.http.clone();
    operations().routes(api, method_not_allowed, |pattern, methods| {
        let rules = policy::rules(pattern, methods);
        let rules = rules.unwrap_or_else(|| panic!("the policy lacks {methods:?} of {pattern}"));
        About { rules, metrics: metrics.of_route(Some(pattern)) }
    })
}

fn operations() -> Operations<Arc<Api>> {
    Operations::default()
        .merge(jobs::router())
        .merge(usage::router())
        .merge(executions::router())
        .merge(archives::router())
        .merge(history::router())
        .merge(events::router())
        .merge(changes::router())
        .merge(cluster::router())
        .merge(results::router())
        .merge(logs::router())
        .merge(nodes::router())
        .merge(tokens::router())
        .merge(namespaces::router())
        .merge(secrets::router())
        .merge(credentials::router())
        .merge(sessions::router())
        .merge(exchange::router())
        .merge(login::router())
        .merge(keys::router())
        .merge(audit::router())
        .merge(node_tokens::router())
        .merge(enrolment::router())
        .merge(protocol::router())
        .merge(agent::router())
        .merge(health::router())
        .merge(metrics::router())
        .merge(requester::router())
        .merge(openapi::router())
}

fn method_not_allowed(request: &Request<Body>) -> Response {
    let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
    Failure::MethodNotAllowed { method, path }.into_response()
}

/// The only parameter of a path, decoded.
struct Parameter(String);

/// The parameters of a path, decoded.
struct PathParameters<const N: usize>([String; N]);

impl<S: Send + Sync> FromRequestParts<S> for Parameter {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let PathParameters([text]) = PathParameters::from_request_parts(parts, state).await?;
        Ok(Self(text))
    }
}

impl<S: Send + Sync, const N: usize> FromRequestParts<S> for PathParameters<N> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        // With broken percent-encoding, the path names nothing.
        let not_found = || Failure::PathNotFound { path: parts.uri.path().to_owned() };
        daemon::http::parameters(parts).map(Self).ok_or_else(not_found)
    }
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
