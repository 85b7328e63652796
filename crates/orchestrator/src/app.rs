//! Assembles one running orchestrator, for the daemon and for whole clusters in one process.

mod error;
mod follow;
mod led;
mod passing;
mod setup;
mod standing;
mod status;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use api_types::NodeId;
use control_plane::clock::Reading;
use daemon::Pulse;
use telemetry::traces::Tracer;
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use self::error::StartError;
use self::follow::on_thread;
pub use self::follow::{Follower, SharedStore, Taken};
use self::led::Led;
use self::setup::Setup;
use self::status::StatusPort;
use crate::access::bootstrap::{self, BootstrapError};
use crate::access::left_token::{self, LeaveTokenError};
use crate::access::{labels, upkeep};
use crate::cluster::Watched;
use crate::driver::presence;
use crate::driver::{Driver, DriverError, Handle, Lead, Vitals};
use crate::http::{self, Api, Connections, Guard, Own, Pools};
use crate::keys::authorities;
use crate::logs::LogService;
use crate::members::Members;
use crate::protection::{Protection, machine, names};
use crate::reads::Reader;
use crate::rotation;
use crate::schedules;
use crate::settings::{Exposure, Settings};
use crate::submission::Requester;
use crate::view::View;

/// How long requests in progress may take when the lead is given up: no one serves until then.
const LAST_REQUESTS: Duration = Duration::from_secs(1);

/// A running orchestrator. Dropped without [`Orchestrator::shutdown`], it stops without finishing
/// the requests in progress.
pub struct Orchestrator {
    address: SocketAddr,
    node_id: NodeId,
    protection: Option<Arc<Protection>>,
    stopping: CancellationToken,
    server: JoinHandle<()>,
    lead: Arc<Lead>,
    driver: Driver,
    tracer: Tracer,
    status: Option<StatusPort>,
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

/// Ends a leader whose identity an older process has.
async fn end_for_rival(members: Arc<Members>, vitals: Vitals, stopping: CancellationToken) {
    if let Some(error) = stopping.run_until_cancelled(members.rival()).await {
        vitals.end(Err(DriverError::Identity(error.to_string())));
    }
}

/// Differs from that of any other process, so that no reader resumes a stream of another one.
fn process_name() -> String {
    let Reading { wall, boot, .. } = Reading::now();
    format!("{:x}-{boot:x}", wall.0)
}

/// Loads the state, unless the lead is lost in the meantime.
async fn load(
    follower: &mut Follower,
    taken: Taken,
    view: &Arc<View>,
) -> Result<Setup, StartError> {
    let (settings, vitals) = (follower.settings.clone(), follower.vitals.clone());
    let instance = follower.identity.node_id.to_string();
    let (view, counted) = (Arc::clone(view), Arc::clone(follower.standing.metrics()));
    let opening =
        on_thread("load", move |_| Setup::open(&settings, instance, taken, view, vitals, counted));
    tokio::select! {
        biased;
        opened = opening => opened,
        // The lead was lost, or the load hangs: its thread is not waited for.
        ended = follower.driver.ended() => {
            Err(ended.err().unwrap_or(DriverError::Vanished).into())
        }
    }
}

/// Opens TLS, if the listener needs it.
async fn protect(
    settings: &Settings,
    (node_id, address): (NodeId, SocketAddr),
    setup: &mut Setup,
    view: &View,
) -> Result<Option<Arc<Protection>>, StartError> {
    let is_protected = settings.exposure() == Exposure::Protected;
    let records = std::mem::take(&mut setup.records);
    let (keys, handle) = (&setup.keys, &setup.handle);
    let opened = authorities::open(keys, handle, view.records(), records, is_protected).await?;
    let protect = |authorities| {
        let names = names(address.ip(), &machine(), &settings.tls.names, &settings.advertise);
        Protection::open(settings, authorities, node_id, names)
    };
    Ok(opened.filter(|_| is_protected).map(protect).transpose()?.map(Arc::new))
}

// === impl Orchestrator ===

impl Orchestrator {
    /// Returns once the API accepts connections.
    pub async fn start(settings: Settings) -> Result<Self, StartError> {
        let mut follower = Follower::bind(settings).await?;
        let taken = follower.win().await?;
        Self::lead(follower, taken).await
    }

    /// Loads the store that was won. There is no way back: a process that loses the lead ends.
    pub async fn lead(mut follower: Follower, taken: Taken) -> Result<Self, StartError> {
        let prefaces = taken.prefaces(&follower.settings, &follower.standing);
        let members = Arc::clone(&taken.members);
        let view = Arc::new(View::default());
        let mut setup = load(&mut follower, taken, &view).await?;
        let protection = {
            let own = (follower.identity.node_id, follower.address);
            protect(&follower.settings, own, &mut setup, &view).await?
        };
        let Setup { keys, reads, handle, observer, .. } = setup;
        let Follower { settings, listener, held, address, issuer, identity, .. } = follower;
        let Follower { driver, vitals, standing, status, .. } = follower;
        let guard = Arc::new(guard(&settings));
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
            own: Own { id: node_id, address, labels: labels(), requester },
            logs: Arc::new(logs),
            pools: Pools::new(asks_for_credentials, &observer.metrics.refusals),
            observer,
            cluster,
            process: process_name(),
            guard: Arc::clone(&guard),
            members: Arc::clone(&members),
            asks_for_credentials,
            last_uses: Arc::default(),
            issuer,
            protection: protection.clone(),
            keys,
            pages: settings.ui.then(OnceCell::new),
            stopping: stopping.clone(),
        });
        spawn_watching(&api);
        let led = Led::new(Arc::clone(&members), guard, protection.clone());
        tokio::spawn(led.run(stopping.clone()));
        tokio::spawn(end_for_rival(members, vitals, stopping.clone()));
        tokio::spawn(rotation::upkeep::run(api.rotation(), stopping.clone()));
        tokio::spawn(listen_for_pauses(Arc::clone(&api.view), stopping.clone()));
        failpoint::reach("lead.serve").await;
        let lead = Arc::clone(api.handle.lead());
        standing.leads(&api);
        let connections = Connections { listener, held, prefaces };
        let tls = protection.as_deref().map(Protection::tls);
        let server = tokio::spawn(http::serve(connections, tls, api, stopping.clone()));
        Ok(Self { address, node_id, protection, stopping, server, lead, driver, tracer, status })
    }

    /// The address on which the API is served.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of the status port, if the settings name one.
    pub fn status_address(&self) -> Option<SocketAddr> {
        self.status.as_ref().map(StatusPort::address)
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

    /// Finishes the requests in progress, ends the streams and closes the database. Where another
    /// process waits for the lead, requests get [`LAST_REQUESTS`], and the lead is given up.
    pub async fn shutdown(mut self) -> Result<(), DriverError> {
        self.stopping.cancel();
        if self.lead.can_be_lost() {
            drop(tokio::time::timeout(LAST_REQUESTS, &mut self.server).await);
            self.lead.resign();
            self.server.abort();
        } else if let Err(error) = (&mut self.server).await {
            tracing::error!(%error, "the HTTP server failed");
        }
        // The last handle was dropped with the last connection, or the lead is given up.
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

/// Accepts the names by which the service is reached.
fn guard(settings: &Settings) -> Guard {
    let mut names = [&settings.allowed_hosts[..], &settings.tls.names].concat();
    names.extend(settings.oidc.public_host());
    Guard::new(settings.exposure() == Exposure::OpenLoopback, &machine(), &names)
}

fn labels() -> BTreeMap<String, String> {
    BTreeMap::from([
        (HOSTNAME.to_owned(), machine()),
        ("Operating-System".to_owned(), std::env::consts::OS.to_owned()),
        ("Architecture".to_owned(), api_types::version::VersionRecord::current().goarch),
    ])
}
