//! Assembles one running orchestrator, for the daemon and for whole clusters in one process.

mod setup;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use api_types::NodeId;
use control_plane::clock::Reading;
use control_plane::store::StoreError;
use daemon::Pulse;
use telemetry::traces::{OtlpError, Tracer};
use tokio::net::TcpListener;
use tokio::sync::{OnceCell, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::setup::Setup;
use crate::access::bootstrap::{self, BootstrapError};
use crate::access::left_token::{self, LeaveTokenError};
use crate::access::{labels, upkeep};
use crate::cluster::Watched;
use crate::driver::presence;
use crate::driver::{Driver, DriverError, Handle};
use crate::http::{self, Api, Guard, Own, Pools};
use crate::identity::IdentityError;
use crate::issuer::IssuerError;
use crate::keys::{KeyError, authorities};
use crate::logs::LogService;
use crate::protection::{Protection, ProtectionError};
use crate::reads::Reader;
use crate::rotation;
use crate::schedules;
use crate::settings::{Exposure, Settings};
use crate::submission::Requester;
use crate::view::View;

/// A running orchestrator. Dropped without [`Orchestrator::shutdown`], it stops without finishing
/// the requests in progress.
pub struct Orchestrator {
    address: SocketAddr,
    node_id: NodeId,
    protection: Option<Arc<Protection>>,
    stopping: CancellationToken,
    server: JoinHandle<()>,
    driver: Driver,
    tracer: Tracer,
}

/// Why the orchestrator failed to start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("listen on {address}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("read the orchestrator's identity")]
    Identity(#[from] IdentityError),
    #[error("open the key ring")]
    Keys(#[from] KeyError),
    #[error("set up the issuer of ID tokens")]
    Issuer(#[from] IssuerError),
    #[error("protect the listener")]
    Protection(#[from] ProtectionError),
    #[error("open the state database")]
    Store(#[from] StoreError),
    #[error("start the driver")]
    Driver(#[from] DriverError),
    #[error("send traces over OTLP")]
    Otlp(#[from] OtlpError),
    #[error("leave a join token in its file")]
    JoinToken(#[from] LeaveTokenError),
    #[error("make the first token")]
    FirstToken(#[from] BootstrapError),
    #[error("start a thread that loads the state")]
    Thread(#[source] io::Error),
    #[error("the thread that loads the state panicked")]
    Loading(#[from] oneshot::error::RecvError),
}

/// Opens on a separate thread. Its end immediately frees what loading took for a moment: 30 MB for
/// a million jobs, which a thread that waits for other work would keep.
async fn load(
    open: impl FnOnce() -> Result<Setup, StartError> + Send + 'static,
) -> Result<Setup, StartError> {
    let (done, opened) = oneshot::channel();
    let runtime = tokio::runtime::Handle::current();
    let work = move || {
        let _entered = runtime.enter();
        // No one waits any more if the process is ending.
        drop(done.send(open()));
    };
    thread::Builder::new().name("load".to_owned()).spawn(work).map_err(StartError::Thread)?;
    opened.await?
}

/// Ticks, so that the driver can detect periods in which the process could not receive heartbeats.
async fn listen_for_pauses(view: Arc<View>, stopping: CancellationToken) {
    let mut ticks = tokio::time::interval(presence::TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while stopping.run_until_cancelled(ticks.tick()).await.is_some() {
        view.presence().tick(Reading::now().boot);
    }
}

/// Starts what keeps pages, charts and tokens up to date.
fn spawn_watching(api: &Arc<Api>) {
    let watching = Arc::clone(api);
    tokio::spawn(async move {
        watching.cluster.sample(&watching.handle, watching.stopping.clone()).await;
    });
    let watching = Arc::clone(api);
    tokio::spawn(async move { watching.view.changes().run(watching.stopping.clone()).await });
    if let Some(issuer) = api.issuer.clone() {
        tokio::spawn(async move { issuer.prepare().await });
    }
    tokio::spawn(schedules::run(api.scheduling(), api.stopping.clone()));
    let (handle, view) = (api.handle.clone(), Arc::clone(&api.view));
    let uses = Arc::clone(&api.last_uses);
    let renewable_for = api.protection.as_ref().map(|protection| protection.renewable_for());
    let stopping = api.stopping.clone();
    tokio::spawn(upkeep::run(handle, view, uses, renewable_for, stopping));
}

/// Leaves a join token in the file that the settings name, and replaces it from then on.
async fn leave_join_tokens(
    handle: &Handle,
    view: &Arc<View>,
    protection: Option<&Arc<Protection>>,
    settings: &Settings,
    stopping: &CancellationToken,
) -> Result<(), LeaveTokenError> {
    let path = settings.join_token_file.clone();
    let Some(protection) = protection.filter(|_| !path.as_os_str().is_empty()) else {
        return Ok(());
    };
    match left_token::leave(handle, view, protection, &path).await {
        // It is tried again, and agents that have joined need no token.
        Err(error @ LeaveTokenError::Store(_)) => {
            tracing::warn!(%error, "cannot leave a join token in its file yet; trying again")
        }
        left => left?,
    }
    let (handle, view, protection) = (handle.clone(), Arc::clone(view), Arc::clone(protection));
    tokio::spawn(left_token::keep(handle, view, protection, path, stopping.clone()));
    Ok(())
}

/// Ensures that there is a token with which an admin can sign in, and that it is known of each label
/// who gave it before nodes and callers come.
async fn prepare_access(
    handle: &Handle,
    view: &View,
    data_dir: &Path,
) -> Result<(), BootstrapError> {
    if let Err(error) = labels::assign_roles(handle, view).await {
        tracing::warn!(%error, "cannot record yet who gave labels to nodes; trying again");
    }
    let file = bootstrap::first_token(handle, view.records(), data_dir).await?;
    if let Some(file) = file {
        tracing::info!(file = %file.display(), "the first token, of an admin, is in this file");
    }
    Ok(())
}

/// Differs from that of any other process, so that no reader resumes a stream of another one.
fn process_name() -> String {
    let Reading { wall, boot, .. } = Reading::now();
    format!("{:x}-{boot:x}", wall.0)
}

// === impl StartError ===

impl StartError {
    /// Whether the operator's settings are at fault.
    pub fn is_of_settings(&self) -> bool {
        match self {
            Self::Keys(error) => error.is_of_settings(),
            Self::Protection(error) => error.is_of_settings(),
            Self::Issuer(_) => true,
            _ => false,
        }
    }
}

// === impl Orchestrator ===

impl Orchestrator {
    /// Returns once the API accepts connections.
    pub async fn start(settings: Settings) -> Result<Self, StartError> {
        let failed = |source| StartError::Listen { address: settings.listen, source };
        let listener = TcpListener::bind(settings.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;

        let labels = labels();
        let machine = labels.get(HOSTNAME).map(String::as_str).unwrap_or_default();
        let mut names = [&settings.allowed_hosts[..], &settings.tls.names].concat();
        names.extend(settings.oidc.public_host());
        let is_open_loopback = settings.exposure() == Exposure::OpenLoopback;
        let guard = Arc::new(Guard::new(is_open_loopback, machine, &names));
        let view = Arc::new(View::default());
        let opened = {
            let (view, settings) = (Arc::clone(&view), settings.clone());
            load(move || Setup::open(&settings, view)).await?
        };
        let Setup { identity, keys, records, reads, handle, driver, observer, issuer } = opened;
        let protection = {
            let is_protected = settings.exposure() == Exposure::Protected;
            let opened =
                authorities::open(&keys, &handle, view.records(), records, is_protected).await?;
            let protect = |authorities| {
                Protection::open(&settings, authorities, identity.node_id, address, machine)
            };
            opened.filter(|_| is_protected).map(protect).transpose()?.map(Arc::new)
        };

        let asks_for_credentials = settings.asks_for_credentials();
        if asks_for_credentials {
            prepare_access(&handle, &view, &settings.data_dir).await?;
        }

        let stopping = CancellationToken::new();
        leave_join_tokens(&handle, &view, protection.as_ref(), &settings, &stopping).await?;
        let node_id = identity.node_id;
        let requester = Requester { id: node_id.to_string(), public_key: identity.public_key };
        let tracer = observer.tracer.clone();
        let reader = Reader::new(reads, &observer.metrics.refusals);
        let cluster =
            Watched::new(Arc::clone(&view), Arc::clone(&observer.metrics), reader.clone());
        let refusals = &observer.metrics.refusals;
        let logs = LogService::new(reader.clone(), Arc::clone(&view), refusals, stopping.clone());
        let api = Arc::new(Api {
            handle,
            reader,
            view,
            own: Own { id: node_id, address, labels, requester },
            logs: Arc::new(logs),
            pools: Pools::new(asks_for_credentials, &observer.metrics.refusals),
            observer,
            cluster,
            process: process_name(),
            guard,
            asks_for_credentials,
            last_uses: Arc::default(),
            issuer,
            protection: protection.clone(),
            keys,
            pages: settings.ui.then(OnceCell::new),
            stopping: stopping.clone(),
        });
        spawn_watching(&api);
        tokio::spawn(rotation::upkeep::run(api.rotation(), stopping.clone()));
        tokio::spawn(listen_for_pauses(Arc::clone(&api.view), stopping.clone()));
        let tls = protection.as_deref().map(Protection::tls);
        let server = tokio::spawn(http::serve(listener, tls, api, stopping.clone()));
        Ok(Self { address, node_id, protection, stopping, server, driver, tracer })
    }

    /// The address on which the API is served.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn node_id(&self) -> NodeId {
        self.node_id
    }

    /// TLS of the listener, if it has any.
    pub fn protection(&self) -> Option<Arc<Protection>> {
        self.protection.clone()
    }

    /// The driver's pulse.
    pub fn pulse(&self) -> Pulse {
        self.driver.pulse()
    }

    /// Returns only when the orchestrator can no longer run.
    pub async fn failed(&mut self) -> Option<DriverError> {
        self.driver.ended().await.err()
    }

    /// Finishes the requests in progress, ends the streams and closes the database.
    pub async fn shutdown(mut self) -> Result<(), DriverError> {
        self.stopping.cancel();
        if let Err(error) = (&mut self.server).await {
            tracing::error!(%error, "the HTTP server failed");
        }
        // The last handle was dropped with the last connection.
        let ended = self.driver.ended().await;
        self.tracer.shutdown().await;
        ended
    }
}

impl Drop for Orchestrator {
    fn drop(&mut self) {
        self.stopping.cancel();
    }
}

/// The label with the name of the machine.
const HOSTNAME: &str = "hostname";

fn labels() -> BTreeMap<String, String> {
    let hostname = rustix::system::uname().nodename().to_string_lossy().into_owned();
    BTreeMap::from([
        ("Operating-System".to_owned(), std::env::consts::OS.to_owned()),
        ("Architecture".to_owned(), api_types::version::VersionRecord::current().goarch),
        (HOSTNAME.to_owned(), hostname),
    ])
}
