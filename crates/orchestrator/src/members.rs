//! The orchestrators of a shared store, as this one knows them, and what it says of itself.
//!
//! A thread reads and writes the members on a separate connection, because neither the polls of a
//! follower nor the commits of a leader may wait for it; see [`announcer`]. What it finds out decides
//! whether this process may lead ([`Members::may_lead`]), and under which names the leader is
//! reached.

mod announcer;
mod rivalry;
mod roll;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use api_types::NodeId;
use control_plane::store::{Member, MemberRecord, Membership, Roll, SeenMember, StoreError, Term};
use tokio::sync::{oneshot, watch};

use self::announcer::{Announcer, Ask};
pub(crate) use self::roll::{Known, MemberCounts};
use crate::identity;
use crate::keys::KeyError;
use crate::settings::{Settings, equal};

/// A key is replaced only if every member that was seen within this time has the next one.
const RECENT: Duration = Duration::from_secs(60);

/// Pause before members that lack a key are read again.
const READ_AGAIN_AFTER: Duration = Duration::from_millis(250);

/// How old the list may be that an operator gets.
const FRESH: Duration = Duration::from_secs(1);

/// What this process knows of the orchestrators of its store.
pub(crate) struct Members {
    shared: Arc<Shared>,
    /// To the thread, which ends with this; none if the store is this process's alone.
    asks: Option<Mutex<Sender<Ask>>>,
    /// The file with the identity of this process.
    identity: PathBuf,
}

/// What the thread and the rest of the process share.
struct Shared {
    own: NodeId,
    known: watch::Sender<Arc<Known>>,
    gate: Mutex<Gate>,
    stands: Box<dyn Stands>,
}

/// What decides whether this process may take the lead.
struct Gate {
    keys: Keys,
    /// A process that leads minds its key ring itself.
    leads: bool,
    /// Notified with the address of an older process that has the identity of this one.
    rival: watch::Sender<Option<String>>,
}

/// The readiness of this process while it follows.
pub(crate) trait Stands: Send + Sync {
    /// Why the cluster key does not open the key ring; none once it does.
    fn key_problem(&self, problem: Option<String>);

    fn is_ready(&self) -> bool;
}

/// A process that no other one replaces.
struct Alone;

/// Whether the cluster key in the files of this machine opens the key ring.
#[derive(Debug)]
enum Keys {
    /// The store has not been read yet.
    Unchecked,
    Open,
    /// It did when the process started: it comes back, or an operator restores it.
    Lost(String),
    /// It never did: the process does not start.
    Refused(KeyError),
    /// The reason was handed over.
    Given,
}

/// Whether this process may take the lead over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MayLead {
    Yes,
    /// Its cluster key has not been checked yet, which takes some milliseconds.
    NotYet,
    No,
}

/// Why a process cannot go on among the members of its store.
#[derive(Debug, thiserror::Error)]
pub enum MembersError {
    #[error(
        "another orchestrator, at {address}, has the identity in {}; move the file away on one of the \
         two machines, which then gets a new one",
        path.display()
    )]
    SameIdentity { path: PathBuf, address: String },
    #[error("open the key ring")]
    Keys(#[from] KeyError),
    #[error("start a thread that announces this orchestrator")]
    Thread(#[source] io::Error),
}

/// Which process it is.
pub(crate) struct Myself {
    pub(crate) id: NodeId,
    pub(crate) address: String,
    pub(crate) names: BTreeSet<String>,
    pub(crate) format: u32,
    /// Of a store that several processes share, the ID of each process.
    pub(crate) instance: u128,
}

/// The files of the cluster key, and the directory that has those of earlier versions.
pub(super) struct KeyFiles {
    data_dir: PathBuf,
    cluster_key: PathBuf,
}

// === impl Members ===

impl Members {
    /// Of a store that no other process has.
    pub(crate) fn alone(settings: &Settings, myself: Myself) -> Self {
        let me = myself.member(settings);
        let now = crate::clock::now().0;
        let roll = Roll {
            now,
            term: Term::default(),
            leader: Some(me.record.address.clone()),
            takeovers: 0,
            times_went_back: 0,
            server: String::new(),
            members: vec![SeenMember { member: Member { started_at: now, ..me }, seen_at: now }],
        };
        let (shared, identity) =
            (Arc::new(Shared::new(myself.id, roll, Box::new(Alone))), identity(settings));
        Self { shared, asks: None, identity }
    }

    /// Announces this process in a shared store from now on, until the last holder is gone.
    pub(crate) fn join(
        settings: &Settings,
        myself: Myself,
        store: Box<dyn Membership>,
        stands: Box<dyn Stands>,
    ) -> Result<Self, MembersError> {
        let me = myself.member(settings);
        let shared = Arc::new(Shared::new(myself.id, Roll::default(), stands));
        let (asks, asked) = std::sync::mpsc::channel();
        let files = KeyFiles::new(&settings.data_dir, &settings.cluster_key_file);
        let announcer = Announcer::new(Arc::clone(&shared), store, me, files);
        let run = move || announcer.run(&asked);
        thread::Builder::new()
            .name("members".to_owned())
            .spawn(run)
            .map_err(MembersError::Thread)?;
        Ok(Self { shared, asks: Some(Mutex::new(asks)), identity: identity(settings) })
    }

    /// Whether other orchestrators may use the store.
    pub(crate) fn are_several(&self) -> bool {
        self.asks.is_some()
    }

    /// As last read, which changes at least every ten seconds.
    pub(crate) fn known(&self) -> Arc<Known> {
        Arc::clone(&self.shared.known.borrow())
    }

    pub(crate) fn changes(&self) -> watch::Receiver<Arc<Known>> {
        self.shared.known.subscribe()
    }

    /// As of this moment, in the store.
    pub(crate) async fn read(&self) -> Result<Arc<Known>, StoreError> {
        let Some(asks) = &self.asks else { return Ok(self.known()) };
        let (reply, answered) = oneshot::channel();
        let ask = Ask { reply };
        // The thread lives as long as this.
        drop(asks.lock().unwrap_or_else(PoisonError::into_inner).send(ask));
        answered.await.unwrap_or(Err(StoreError::Unavailable))
    }

    /// The same, or as of a moment ago.
    pub(crate) async fn read_lately(&self) -> Result<Arc<Known>, StoreError> {
        let known = self.known();
        if known.age() < FRESH { Ok(known) } else { self.read().await }
    }

    /// Whether this process may take the lead over; an error if it cannot go on.
    pub(crate) fn may_lead(&self) -> Result<MayLead, MembersError> {
        let mut gate = self.shared.gate();
        if let Some(address) = gate.rival.borrow().clone() {
            return Err(self.same_identity(address));
        }
        Ok(match &gate.keys {
            Keys::Unchecked => MayLead::NotYet,
            Keys::Open => MayLead::Yes,
            Keys::Lost(_) | Keys::Given => MayLead::No,
            Keys::Refused(_) => match std::mem::replace(&mut gate.keys, Keys::Given) {
                Keys::Refused(error) => return Err(error.into()),
                _ => MayLead::No,
            },
        })
    }

    /// That an older process at this address has the identity of this one.
    fn same_identity(&self, address: String) -> MembersError {
        MembersError::SameIdentity { path: self.identity.clone(), address }
    }

    /// From now on this process leads, and opens the key ring itself.
    pub(crate) fn lead(&self) {
        self.shared.gate().leads = true;
    }

    /// Waits until an older process is found that has the identity of this one.
    pub(crate) async fn rival(&self) -> MembersError {
        let mut rivals = self.shared.gate().rival.subscribe();
        let found = rivals.wait_for(Option::is_some).await.ok().and_then(|found| found.clone());
        match found {
            Some(address) => self.same_identity(address),
            None => std::future::pending().await,
        }
    }

    /// Every member that was seen lately and still lacks this cluster key after so long.
    pub(crate) async fn lacking(
        &self,
        key: &str,
        patience: Duration,
    ) -> Result<Vec<Member>, StoreError> {
        let deadline = Instant::now() + patience;
        let lacks = |member: &&Member| !member.record.cluster_keys.iter().any(|id| id == key);
        loop {
            let known = self.read().await?;
            let seen = known.roll.seen_within(RECENT).map(|seen| &seen.member);
            let lacking: Vec<_> = seen.filter(lacks).cloned().collect();
            if lacking.is_empty() || Instant::now() >= deadline {
                return Ok(lacking);
            }
            tokio::time::sleep(READ_AGAIN_AFTER).await;
        }
    }
}

#[cfg(test)]
impl Members {
    pub(crate) fn of_test() -> Self {
        let myself = Myself {
            id: NodeId::from_uuid(uuid::Uuid::nil()),
            address: String::new(),
            names: BTreeSet::new(),
            format: 0,
            instance: 0,
        };
        Self::alone(&Settings::default(), myself)
    }
}

// === impl Shared, Gate ===

impl Shared {
    fn new(own: NodeId, roll: Roll, stands: Box<dyn Stands>) -> Self {
        let gate = Gate { keys: Keys::Unchecked, leads: false, rival: watch::Sender::new(None) };
        let known = watch::Sender::new(Arc::new(Known::new(own, roll)));
        Self { own, known, gate: Mutex::new(gate), stands }
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this process leads, and whether it could.
    fn leads_or_could(&self) -> (bool, bool) {
        let gate = self.gate();
        let opens = matches!(gate.keys, Keys::Open);
        let leads = gate.leads;
        drop(gate);
        (leads, leads || (opens && self.stands.is_ready()))
    }
}

fn identity(settings: &Settings) -> PathBuf {
    settings.data_dir.join(identity::FILE)
}

impl Stands for Alone {
    fn key_problem(&self, _: Option<String>) {}

    fn is_ready(&self) -> bool {
        true
    }
}

// === impl MembersError ===

impl MembersError {
    /// Whether a file of this machine is at fault.
    pub(crate) fn is_of_settings(&self) -> bool {
        match self {
            Self::SameIdentity { .. } => true,
            Self::Keys(error) => error.is_of_settings(),
            Self::Thread(_) => false,
        }
    }
}

// === impl Myself, KeyFiles ===

impl Myself {
    fn member(&self, settings: &Settings) -> Member {
        let record = MemberRecord {
            address: self.address.clone(),
            exposure: settings.exposure(),
            names: self.names.iter().cloned().collect(),
            release: api_types::version::VersionRecord::current().git_version,
            format: self.format,
            cluster_keys: Vec::new(),
            settings: equal::digests(settings),
            ready: false,
        };
        Member { id: self.id, instance: self.instance, started_at: 0, record }
    }
}

impl KeyFiles {
    fn new(data_dir: &Path, cluster_key: &Path) -> Self {
        Self { data_dir: data_dir.to_owned(), cluster_key: cluster_key.to_owned() }
    }
}
