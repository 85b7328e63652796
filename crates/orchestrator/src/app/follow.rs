//! Waits for the lead: the listener is bound, and the store is taken over once it is free.
//!
//! A store that belongs to one machine is won immediately, by its lock. Of a store that several
//! processes share, [`control_plane::follow`] decides when it is free.

mod log;

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use control_plane::clock::{Reading, Stamp, boot_nanos};
use control_plane::follow::{self, Next};
use control_plane::store::postgres::{self, PostgresCandidate, PostgresMembership};
use control_plane::store::{
    Candidate, Leader, Membership, Reads, Sighting, StoreError, Won, sqlite,
};
use daemon::Pulse;
use daemon::http::preface::{PassKey, Prefaces};
use failpoint::Fault;
use ring::rand::SecureRandom;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use self::log::Log;
use super::error::StartError;
use super::passing::Passing;
use super::standing::Standing;
use super::status::StatusPort;
use crate::access::left_token;
use crate::driver::{Driver, Vitals, Writer};
use crate::identity::Identity;
use crate::issuer::Issuer;
use crate::members::{MayLead, Members, MembersError, Myself};
use crate::protection;
use crate::settings::{Exposure, Settings, StoreKind};

/// How long a leader may take to accept a connection; one that refuses does so immediately.
const DIAL_TIMEOUT: Duration = Duration::from_millis(500);

/// Until the cluster key is checked for the first time, which takes some milliseconds.
const KEY_CHECK_PAUSE: Duration = Duration::from_millis(50);

/// An orchestrator that does not lead yet.
pub struct Follower {
    pub(super) settings: Settings,
    pub(super) listener: TcpListener,
    /// Connections that wait for this process to serve them.
    pub(super) held: Vec<(TcpStream, SocketAddr)>,
    pub(super) address: SocketAddr,
    pub(super) issuer: Option<Arc<Issuer>>,
    pub(super) identity: Identity,
    pub(super) driver: Driver,
    pub(super) vitals: Vitals,
    pub(super) standing: Arc<Standing>,
    pub(super) status: Option<StatusPort>,
    store: Source,
}

enum Source {
    /// In the data directory, which one process has.
    Embedded,
    Shared(Box<SharedStore>),
    /// It was won, or is waited for.
    Gone,
}

/// A store that several orchestrators share.
pub struct SharedStore {
    pub candidate: Box<dyn Candidate>,
    pub membership: Box<dyn Membership>,
    /// The `host:port` that the other orchestrators dial.
    pub advertise: String,
    /// The format of the data that this release writes.
    pub format: u32,
}

/// The store that this process leads.
pub struct Taken {
    pub(super) writer: Writer,
    pub(super) reads: Arc<dyn Reads>,
    pub(super) members: Arc<Members>,
    /// With which followers authenticate what they pass on, if there may be any.
    pass_key: Option<[u8; 32]>,
}

// === impl Follower ===

impl Follower {
    /// Binds the listener; connections wait on it until the store is waited for.
    pub async fn bind(settings: Settings) -> Result<Self, StartError> {
        let failed = |source| StartError::Listen { address: settings.listen, source };
        let listener = TcpListener::bind(settings.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let issuer = Issuer::open(&settings.oidc)?.map(Arc::new);
        let identity = Identity::load_or_make(&settings.data_dir)?;
        let (driver, vitals) = Driver::new();
        let store = match settings.store {
            StoreKind::Sqlite => Source::Embedded,
            StoreKind::Postgres => Source::Shared(Box::new(SharedStore::open(&settings, address)?)),
        };
        let standing = Standing::new(settings.exposure());
        standing.advertise(&advertised(&settings, address));
        let status = match settings.status_listen {
            Some(address) => Some(StatusPort::open(address, Arc::clone(&standing)).await?),
            None => None,
        };
        Ok(Self {
            settings,
            listener,
            held: Vec::new(),
            address,
            issuer,
            identity,
            driver,
            vitals,
            standing,
            status,
            store,
        })
    }

    /// Waits for this store instead of that in the data directory.
    pub fn sharing(self, store: SharedStore) -> Self {
        self.standing.advertise(&store.advertise);
        Self { store: Source::Shared(Box::new(store)), ..self }
    }

    /// The address on which connections are passed on, and the API is served later.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of the status port, if the settings name one.
    pub fn status_address(&self) -> Option<SocketAddr> {
        self.status.as_ref().map(StatusPort::address)
    }

    /// Whether the lead may be another process's for any time.
    pub fn may_wait(&self) -> bool {
        matches!(self.store, Source::Shared(_))
    }

    /// Beats with each poll, and later in each turn of the driver.
    pub fn pulse(&self) -> Pulse {
        self.driver.pulse()
    }

    /// Returns once the store is this process's; dropped, it stops waiting.
    pub async fn win(&mut self) -> Result<Taken, StartError> {
        match std::mem::replace(&mut self.store, Source::Gone) {
            Source::Embedded => {
                let data_dir = self.settings.data_dir.clone();
                let members = Arc::new(Members::alone(&self.settings, self.myself(None)));
                self.standing.won();
                on_thread("open", move |_| {
                    let (store, reads) = sqlite::open(&data_dir)?;
                    let writer = Writer::alone(Box::new(store));
                    Ok(Taken { writer, reads, members, pass_key: None })
                })
                .await
            }
            Source::Shared(store) => {
                left_token::withdraw(&self.settings.join_token_file);
                let SharedStore { candidate, membership, advertise, format } = *store;
                let myself = self.myself(Some((&advertise, format)));
                let stands = Box::new(Arc::clone(&self.standing));
                let members = Arc::new(Members::join(&self.settings, myself, membership, stands)?);
                let mut store = Waiting { candidate, format, members };
                let (exposure, pulse) = (self.settings.exposure(), self.pulse());
                let standing = Arc::clone(&self.standing);
                let winning = on_thread("follow", move |is_wanted| {
                    let me =
                        || Leader { address: advertise.clone(), exposure, pass_key: pass_key() };
                    Ok(wait(&mut store, &me, &pulse, &standing, is_wanted)?)
                });
                let mut passing = Passing::new(&self.listener, &self.standing);
                let taken = tokio::select! {
                    biased;
                    taken = winning => taken?.ok_or(StartError::GaveUp)?,
                    never = passing.run() => match never {},
                };
                self.standing.won();
                self.held = passing.hand_over().await;
                Ok(taken)
            }
            Source::Gone => Err(StartError::GaveUp),
        }
    }

    /// As this process describes itself to the others of a shared store.
    fn myself(&self, shared: Option<(&str, u32)>) -> Myself {
        let (advertise, format) = shared.unwrap_or_default();
        let further = &self.settings.tls.names;
        let address = match advertise.is_empty() {
            true => self.address.to_string(),
            false => advertise.to_owned(),
        };
        Myself {
            id: self.identity.node_id,
            names: protection::names(self.address.ip(), &protection::machine(), further, advertise),
            address,
            format,
            instance: u128::from_be_bytes(random()),
        }
    }
}

// === impl Taken ===

impl Taken {
    /// What this process accepts of its followers.
    pub(super) fn prefaces(
        &self,
        settings: &Settings,
        standing: &Arc<Standing>,
    ) -> Option<Prefaces> {
        let key = PassKey::new(self.pass_key.as_ref()?);
        let only_loopback = settings.exposure() == Exposure::OpenLoopback;
        let counted = Arc::clone(standing.metrics());
        Some(Prefaces::new(key, only_loopback, move || counted.refused_preface()))
    }
}

// === impl SharedStore ===

impl SharedStore {
    /// Connects with its first poll.
    fn open(settings: &Settings, address: SocketAddr) -> Result<Self, StartError> {
        let database = settings.postgres.database()?;
        let advertise = advertised(settings, address);
        let membership = Box::new(PostgresMembership::new(database.clone())?);
        let candidate = Box::new(PostgresCandidate::new(database)?);
        Ok(Self { candidate, membership, advertise, format: postgres::format() })
    }
}

/// Where the other orchestrators dial this one.
fn advertised(settings: &Settings, address: SocketAddr) -> String {
    match settings.advertise.is_empty() {
        true => address.to_string(),
        false => settings.advertise.clone(),
    }
}

/// What a process needs while it waits for the lead.
struct Waiting {
    candidate: Box<dyn Candidate>,
    format: u32,
    members: Arc<Members>,
}

/// Polls until the lead is free and was taken over; none if no one waits for it any more. A process
/// whose cluster key does not open the key ring leaves the lead to others.
fn wait(
    store: &mut Waiting,
    me: &dyn Fn() -> Leader,
    pulse: &Pulse,
    standing: &Standing,
    is_wanted: &dyn Fn() -> bool,
) -> Result<Option<Taken>, MembersError> {
    let mut follower = follow::Follower::new(store.format);
    let mut seen: Option<Sighting> = None;
    let mut log = Log::new(store.format);
    let mut next = Next::PollAt(boot_nanos());
    while is_wanted() {
        pulse.beat();
        let may_lead = store.members.may_lead()?;
        next = match (next, &seen) {
            (Next::PollAt(at), _) => {
                thread::sleep(Duration::from_nanos(at.saturating_sub(boot_nanos())));
                let polled = store.candidate.poll();
                let now = Reading::now();
                log.polled(&polled, &now);
                standing.polled(&polled, store.format);
                match polled {
                    Ok(sighting) => follower.saw(seen.insert(sighting), &now),
                    Err(_) => follower.failed(&now),
                }
            }
            (Next::Dial(address), _) => follower.dialed(refuses(&address), &Reading::now()),
            (Next::TakeOver, _) if may_lead != MayLead::Yes => {
                let pause = match may_lead {
                    MayLead::NotYet => KEY_CHECK_PAUSE,
                    MayLead::Yes | MayLead::No => follow::POLL_EVERY,
                };
                thread::sleep(pause);
                Next::PollAt(boot_nanos())
            }
            (Next::TakeOver, Some(shown)) => {
                let stamp = follower.stamp(shown, &Reading::now());
                match beating(pulse, || take_over(store, shown, me, stamp)) {
                    Ok(Some((Won { store: won, reads, hold, progress: _ }, pass_key))) => {
                        let members = Arc::clone(&store.members);
                        members.lead();
                        let writer = Writer { store: won, hold };
                        let pass_key = Some(pass_key);
                        return Ok(Some(Taken { writer, reads, members, pass_key }));
                    }
                    Ok(None) => follower.was_late(&Reading::now()),
                    Err(error) => {
                        log.not_taken(shown, &error);
                        follower.failed(&Reading::now())
                    }
                }
            }
            (Next::TakeOver, None) => Next::PollAt(boot_nanos()),
        };
    }
    Ok(None)
}

fn take_over(
    store: &mut Waiting,
    seen: &Sighting,
    me: &dyn Fn() -> Leader,
    stamp: Option<Stamp>,
) -> Result<Option<(Won, [u8; 32])>, StoreError> {
    match failpoint::reach_blocking("lead.take") {
        Some(Fault::Error) => Err(StoreError::Unavailable),
        None | Some(Fault::Twice) => {
            let me = me();
            let won = store.candidate.take_over(seen, &me, stamp)?;
            Ok(won.map(|won| (won, me.pass_key)))
        }
    }
}

/// Beats while the work runs: a migration may take long, and ends by itself.
fn beating<T>(pulse: &Pulse, work: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        let (working, ended) = mpsc::channel::<()>();
        scope.spawn(move || {
            while ended.recv_timeout(follow::POLL_EVERY) == Err(RecvTimeoutError::Timeout) {
                pulse.beat();
            }
        });
        let done = work();
        drop(working);
        done
    })
}

/// Whether every address of the leader says that nothing listens there.
fn refuses(address: &str) -> bool {
    let Ok(addresses) = address.to_socket_addrs() else { return false };
    let refused = |address: SocketAddr| {
        std::net::TcpStream::connect_timeout(&address, DIAL_TIMEOUT)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    };
    let outcomes: Vec<bool> = addresses.map(refused).collect();
    !outcomes.is_empty() && outcomes.into_iter().all(|refused| refused)
}

fn pass_key() -> [u8; 32] {
    random()
}

fn random<const BYTES: usize>() -> [u8; BYTES] {
    let mut key = [0; BYTES];
    ring::rand::SystemRandom::new()
        .fill(&mut key)
        .expect("the system's random source does not fail once the system is up");
    key
}

/// Works on a separate thread, which may ask whether its result is still wanted. Its end immediately
/// frees what the work took for a moment: 30 MB for a million jobs that are loaded, which a thread
/// that waits for other work would keep.
pub(super) async fn on_thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce(&dyn Fn() -> bool) -> Result<T, StartError> + Send + 'static,
) -> Result<T, StartError> {
    let (done, outcome) = oneshot::channel();
    let runtime = tokio::runtime::Handle::current();
    let work = move || {
        let _entered = runtime.enter();
        let outcome = work(&|| !done.is_closed());
        // No one waits any more if the process is ending.
        drop(done.send(outcome));
    };
    thread::Builder::new().name(name.to_owned()).spawn(work).map_err(StartError::Thread)?;
    outcome.await?
}
