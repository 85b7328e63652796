//! What every handler names: the shared state, its parameters, its outcome.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use api_types::NodeId;
use axum::extract::FromRequestParts;
use axum::response::Response;
use control_plane::store::Reads;
use http::request::Parts;
use telemetry::metrics::RouteMetrics;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use web::Pages;

use super::edge::guard::Guard;
use super::edge::pools::Pools;
use super::error::{Absent, Failure};
use crate::access::policy::Rules;
use crate::access::upkeep::LastUses;
use crate::cluster::Watched;
use crate::driver::Handle;
use crate::issuer::Issuer;
use crate::keys::KeyRing;
use crate::logs::LogService;
use crate::members::Members;
use crate::observer::Observer;
use crate::protection::Protection;
use crate::reads::{AskedBy, Reader};
use crate::rotation::Rotation;
use crate::schedules::Scheduling;
use crate::submission::Requester;
use crate::view::View;

/// What the handlers share.
pub(crate) struct Api {
    pub handle: Handle,
    pub reader: Reader,
    pub view: Arc<View>,
    pub own: Own,
    pub logs: Arc<LogService>,
    /// What callers share.
    pub pools: Pools,
    pub observer: Observer,
    pub cluster: Watched,
    /// Names this process in the IDs of its messages.
    pub process: String,
    /// Whose requests are answered.
    pub guard: Arc<Guard>,
    /// The orchestrators of the store.
    pub members: Arc<Members>,
    /// Whether a caller without credentials is refused, or is an admin.
    pub asks_for_credentials: bool,
    pub last_uses: Arc<LastUses>,
    /// The trusted ID-token issuer, if configured.
    pub issuer: Option<Arc<Issuer>>,
    /// TLS of the listener, if it has any: nodes then present certificates.
    pub protection: Option<Arc<Protection>>,
    /// What secrets are encrypted with.
    pub keys: Arc<KeyRing>,
    /// The web pages once a browser has asked for one, unless the settings leave them out.
    pub pages: Option<OnceCell<Pages>>,
    /// Cancelled when the service stops: streams end.
    pub stopping: CancellationToken,
}

// === impl Api ===

impl Api {
    /// What replaces keys of the cluster.
    pub(crate) fn rotation(&self) -> Rotation {
        Rotation {
            handle: self.handle.clone(),
            view: Arc::clone(&self.view),
            keys: Arc::clone(&self.keys),
            protection: self.protection.clone(),
            members: Arc::clone(&self.members),
        }
    }

    /// What checks the jobs of schedules.
    pub(crate) fn scheduling(&self) -> Scheduling {
        Scheduling {
            handle: self.handle.clone(),
            view: Arc::clone(&self.view),
            requester: self.own.requester.clone(),
            asks_for_credentials: self.asks_for_credentials,
        }
    }

    /// Runs one read against the store, which may be several queries.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Reads) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        self.reader.run(AskedBy::User, question).await
    }

    /// The same for what an agent needs to go on.
    pub(super) async fn read_for_agent<T: Send + 'static>(
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
pub(super) type Handled = Result<Response, Failure>;

/// What is said of the operations of a path.
pub(super) struct RouteMeta {
    /// Who may use each.
    pub(super) rules: Rules,
    pub(super) metrics: RouteMetrics,
}

/// The operations with the path of a request.
pub(super) type RouteMatch<'a> = daemon::http::RouteMatch<'a, Arc<Api>, RouteMeta>;

/// Finds the operations of a request.
pub(super) type Routes = daemon::http::Routes<Arc<Api>, RouteMeta>;

/// The only parameter of a path, decoded.
pub(super) struct Parameter(pub(super) String);

/// The parameters of a path, decoded.
pub(super) struct PathParameters<const N: usize>(pub(super) [String; N]);

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
        let not_found = || Absent::Path { path: parts.uri.path().to_owned() };
        Ok(Self(daemon::http::parameters(parts).ok_or_else(not_found)?))
    }
}
