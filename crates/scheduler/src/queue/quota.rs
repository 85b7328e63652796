//! Quotas: what the live executions of each namespace hold, and who waits until it holds less.
//!
//! An execution counts from its offer to its end, with what it holds of its node at that time. Who
//! waits is an *entry*, as in [concurrency groups](crate::queue::group): a class of jobs, or a job
//! with one slot per node. The quota *holds* an entry whose need exceeds what is left of it; it is
//! then in no pool's heads. One that fits is *open*. Held entries are in a tree by rank and need, so
//! that the first one that fits into what was given back is found without visiting the others.
//!
//! A task that leaves CPU or memory to its node takes the default of a node that is not chosen yet.
//! The quota then counts with the largest default of all nodes, and is debited what the chosen one
//! gives: so it is never exceeded, and whether an entry fits does not depend on a node. Rejected: the
//! smallest default, with a check of each node, because what is given back would then have to be
//! offered to classes that are open but fitted no node within the quota.

mod closing;
mod defaults;
mod open;
pub(crate) mod shortage;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;

use api_types::NodeId;
use api_types::quantity::Resources;

use crate::demand::Need;
use crate::queue::group::Entry;
use crate::queue::heads::{Heads, Limits};
use crate::queue::quota::defaults::Defaults;
use crate::queue::quota::open::Open;
use crate::queue::share::{Capacity, Share};
use crate::rank::Rank;

/// What the live work of a namespace may hold together; `None` for no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quota {
    pub cpu_millis: Option<u64>,
    pub memory_bytes: Option<u64>,
    pub gpus: Option<u64>,
    /// Live executions.
    pub executions: Option<u64>,
    /// Slots of live jobs that are neither placed nor ended.
    pub queued: Option<u64>,
}

/// What a namespace is entitled to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entitlement {
    pub quota: Quota,
    /// Its share counts divided by this; at least 1.
    pub weight: u64,
}

/// What the live work of a namespace holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QuotaUse {
    pub held: Resources,
    pub executions: u64,
    pub queued: u64,
}

/// A namespace that has a quota or a weight other than 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entitled {
    pub namespace: Arc<str>,
    pub to: Entitlement,
    pub used: QuotaUse,
    /// In millionths of the capacity in service, whatever its weight.
    pub share: u64,
}

/// A bound of a quota that leaves no room for another execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Short {
    Executions,
    Cpu,
    Memory,
    Gpus,
}

/// What is to be done with an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Hold(Entry),
    Open(Entry),
}

/// What a namespace holds, and its entries.
#[derive(Default)]
struct Account {
    entitled: Entitlement,
    used: QuotaUse,
    held: Heads<Entry>,
    open: Open,
    /// [All entries are to be held](closing) before one is opened.
    is_closing: bool,
    /// Entries that wait, held or open.
    entries: usize,
}

/// An entry that waits.
struct Place {
    namespace: Arc<str>,
    rank: Rank,
    need: Need,
    is_held: bool,
}

/// The quotas of all namespaces, and what each holds that has live work.
#[derive(Default)]
pub(crate) struct Quotas {
    accounts: BTreeMap<Arc<str>, Account>,
    places: BTreeMap<Entry, Place>,
    defaults: Defaults,
    pub(crate) capacity: Capacity,
    /// Namespaces that have a quota.
    limited: BTreeSet<Arc<str>>,
    /// Namespaces that have a quota or a weight other than 1.
    entitled: BTreeSet<Arc<str>>,
}

impl Default for Entitlement {
    fn default() -> Self {
        Self { quota: Quota::default(), weight: 1 }
    }
}

// === impl Quotas: what is held ===

impl Quotas {
    pub(crate) fn entitle(&mut self, namespace: &Arc<str>, to: Entitlement) {
        self.account(namespace).entitled = to;
        for (list, is_in) in [
            (&mut self.limited, to.quota != Quota::default()),
            (&mut self.entitled, to != Entitlement::default()),
        ] {
            match is_in {
                true => list.insert(Arc::clone(namespace)),
                false => list.remove(namespace),
            };
        }
        self.drop_unused(namespace);
    }

    pub(crate) fn entitlement(&self, namespace: &str) -> Entitlement {
        self.accounts.get(namespace).map_or_else(Entitlement::default, |account| account.entitled)
    }

    pub(crate) fn quota(&self, namespace: &str) -> Quota {
        self.entitlement(namespace).quota
    }

    /// The share of the namespace, over its weight.
    pub(crate) fn share(&self, namespace: &str) -> Share {
        self.share_with(namespace, |entitled| entitled.weight)
    }

    /// The share of the namespace, whatever its weight.
    pub(crate) fn plain_share(&self, namespace: &str) -> Share {
        self.share_with(namespace, |_| 1)
    }

    fn share_with(&self, namespace: &str, weight: impl Fn(&Entitlement) -> u64) -> Share {
        let of = |account: &Account| {
            let Account { used: QuotaUse { held, .. }, entitled, .. } = account;
            Share::of(held, self.capacity.total(), weight(entitled))
        };
        self.accounts.get(namespace).map_or_else(Share::default, of)
    }

    pub(crate) fn used(&self, namespace: &str) -> QuotaUse {
        self.accounts.get(namespace).map_or_else(QuotaUse::default, |account| account.used)
    }

    /// Namespaces that have a quota.
    pub(crate) fn limited(&self) -> &BTreeSet<Arc<str>> {
        &self.limited
    }

    /// Namespaces that have a quota or a weight other than 1.
    pub(crate) fn entitled(&self) -> &BTreeSet<Arc<str>> {
        &self.entitled
    }

    /// An execution is placed.
    pub(crate) fn take(&mut self, namespace: &Arc<str>, amount: &Resources) {
        let used = &mut self.account(namespace).used;
        used.held = used.held.plus(amount);
        used.executions += 1;
    }

    /// An execution gave this back; `ended` if that is all.
    pub(crate) fn give_back(&mut self, namespace: &Arc<str>, amount: &Resources, ended: bool) {
        let used = &mut self.account(namespace).used;
        used.held = used.held.minus(amount);
        used.executions -= u64::from(ended);
        self.drop_unused(namespace);
    }

    /// Slots wait from now on to be placed.
    pub(crate) fn queued(&mut self, namespace: &Arc<str>, slots: u64) {
        self.account(namespace).used.queued += slots;
        self.drop_unused(namespace);
    }

    /// Slots do not wait to be placed any more.
    pub(crate) fn unqueued(&mut self, namespace: &Arc<str>, slots: u64) {
        self.account(namespace).used.queued -= slots;
        self.drop_unused(namespace);
    }

    /// The defaults of a node; `None` when it is gone. Returns whether needs may differ now.
    pub(crate) fn set_defaults(&mut self, node: NodeId, defaults: Option<&Resources>) -> bool {
        let before = self.defaults.largest();
        self.defaults.set(node, defaults.map(|it| (it.cpu_millis, it.memory_bytes)));
        self.defaults.largest() != before
    }

    /// What an execution of this need takes at most.
    pub(crate) fn most_of(&self, need: &Need) -> Resources {
        need.on(&self.defaults.largest())
    }

    /// What leaves no room for an execution of this need.
    pub(crate) fn short(&self, namespace: &str, need: &Need) -> Option<Short> {
        if self.limited.is_empty() {
            return None;
        }
        self.accounts.get(namespace)?.short(&self.most_of(need))
    }

    /// How many executions of this need fit into what is left.
    pub(crate) fn left_for(&self, namespace: &str, need: &Need) -> u64 {
        let Some(account) = self.accounts.get(namespace) else { return u64::MAX };
        let (need, Limits { room, .. }) = (self.most_of(need), account.limits(Resources::ZERO));
        let times = |room: u64, need: u64| match (room, need) {
            (u64::MAX, _) => u64::MAX,
            (room, need) => room.checked_div(need).unwrap_or(u64::MAX),
        };
        account
            .executions_left()
            .min(times(room.cpu_millis, need.cpu_millis))
            .min(times(room.memory_bytes, need.memory_bytes))
            .min(times(room.gpus, need.gpus))
    }

    fn account(&mut self, namespace: &Arc<str>) -> &mut Account {
        if !self.accounts.contains_key(namespace) {
            self.accounts.insert(Arc::clone(namespace), Account::default());
        }
        self.accounts.get_mut(namespace).expect("it was inserted")
    }

    fn drop_unused(&mut self, namespace: &str) {
        let is_unused = |account: &Account| {
            let is_free = account.used == QuotaUse::default() && account.entries == 0;
            is_free && account.entitled == Entitlement::default()
        };
        if self.accounts.get(namespace).is_some_and(is_unused) {
            self.accounts.remove(namespace);
        }
    }
}

// === impl Quotas: entries ===

impl Quotas {
    /// The entry waits, and this is its first rank. If it did not wait before, it is open if it fits.
    pub(crate) fn follow(&mut self, entry: Entry, rank: Rank, namespace: &Arc<str>, need: &Need) {
        if let Some(place) = self.places.get_mut(&entry) {
            place.rank = rank;
            let (need, is_held) = (place.need, place.is_held);
            if is_held {
                self.account(namespace).held.set(entry, Some((rank, need)));
            }
            return;
        }
        let is_held = self.short(namespace, need).is_some();
        let place = Place { namespace: Arc::clone(namespace), rank, need: *need, is_held };
        self.places.insert(entry, place);
        let account = self.account(namespace);
        match is_held {
            true => account.held.set(entry, Some((rank, *need))),
            false => account.open.insert(entry, need),
        }
        account.entries += 1;
    }

    /// The entry does not wait any more.
    pub(crate) fn leave(&mut self, entry: Entry) {
        let Some(Place { namespace, need, .. }) = self.places.remove(&entry) else { return };
        let account = self.account(&namespace);
        account.held.set(entry, None);
        account.close(entry, &need);
        account.entries -= 1;
        self.drop_unused(&namespace);
    }

    /// The quota holds the entry from now on.
    pub(crate) fn hold(&mut self, entry: Entry) {
        let Some(place) = self.places.get_mut(&entry) else { return };
        place.is_held = true;
        let (namespace, rank, need) = (Arc::clone(&place.namespace), place.rank, place.need);
        let account = self.account(&namespace);
        account.close(entry, &need);
        account.held.set(entry, Some((rank, need)));
    }

    /// The quota does not hold the entry.
    pub(crate) fn open(&mut self, entry: Entry) {
        let Some(place) = self.places.get_mut(&entry) else { return };
        place.is_held = false;
        let (namespace, need) = (Arc::clone(&place.namespace), place.need);
        let account = self.account(&namespace);
        account.held.set(entry, None);
        account.open.insert(entry, &need);
    }

    pub(crate) fn is_held(&self, entry: Entry) -> bool {
        self.places.get(&entry).is_some_and(|place| place.is_held)
    }

    /// An open entry that does not fit, or else the first held one that does.
    pub(crate) fn next_change(&self, namespace: &str) -> Option<Change> {
        let account = self.accounts.get(namespace)?;
        let limits = account.limits(self.defaults.largest());
        let is_full = account.executions_left() == 0 || account.is_closing;
        let unfit = match is_full {
            true => account.open.all.first().copied(),
            false => account.open.first_over(&limits),
        };
        if let Some(entry) = unfit {
            return Some(Change::Hold(entry));
        }
        let first = account.held.first(&limits, |_, _| true).filter(|_| !is_full);
        first.map(|(_, entry)| Change::Open(entry))
    }

    /// Whether the quota holds an entry of a higher rank that fits into what is left.
    pub(crate) fn precedes(&self, namespace: &str, rank: Rank) -> bool {
        let Some(account) = self.accounts.get(namespace).filter(|it| it.executions_left() > 0)
        else {
            return false;
        };
        let first = account.held.first(&account.limits(self.defaults.largest()), |_, _| true);
        first.is_some_and(|(first, _)| first < rank)
    }

    /// The namespace and rank of each entry, for the invariants.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (Entry, &Arc<str>, Rank)> {
        self.places.iter().map(|(entry, place)| (*entry, &place.namespace, place.rank))
    }

    /// What each namespace holds, for the invariants.
    pub(crate) fn uses(&self) -> impl Iterator<Item = (&Arc<str>, &QuotaUse)> {
        self.accounts.iter().map(|(namespace, account)| (namespace, &account.used))
    }
}

// === impl Account ===

impl Account {
    /// What is left; disk has no quota.
    fn limits(&self, defaults: Resources) -> Limits {
        let left =
            |most: Option<u64>, used: u64| most.map_or(u64::MAX, |it| it.saturating_sub(used));
        let Self { entitled: Entitlement { quota, .. }, used: QuotaUse { held, .. }, .. } = self;
        let room = Resources {
            cpu_millis: left(quota.cpu_millis, held.cpu_millis),
            memory_bytes: left(quota.memory_bytes, held.memory_bytes),
            disk_bytes: u64::MAX,
            gpus: left(quota.gpus, held.gpus),
        };
        Limits { room, defaults }
    }

    fn executions_left(&self) -> u64 {
        let most = self.entitled.quota.executions;
        most.map_or(u64::MAX, |most| most.saturating_sub(self.used.executions))
    }

    fn short(&self, need: &Resources) -> Option<Short> {
        let Limits { room, .. } = self.limits(Resources::ZERO);
        [
            (self.executions_left() == 0, Short::Executions),
            (need.cpu_millis > room.cpu_millis, Short::Cpu),
            (need.memory_bytes > room.memory_bytes, Short::Memory),
            (need.gpus > room.gpus, Short::Gpus),
        ]
        .into_iter()
        .find_map(|(is_short, what)| is_short.then_some(what))
    }
}
