//! The standby of a shared database, and its promotion.
//!
//! What a promotion loses here is commits without changes: the step makes them as well, and the rest
//! of the world stays as it is. They show whether anything was acknowledged that a synchronous standby
//! lacks, and whether a number is used twice after an asynchronous one has lost some.

use control_plane::store::memory::MemoryStore;
use control_plane::store::{CommitId, Progress, Store};

use crate::random::Random;

/// How far numbers skip after a promotion, as in PostgreSQL.
pub(crate) const SKIPPED: u64 = 1 << 32;

/// How often the standby is promoted, and how often an asynchronous one falls behind, in thousandths
/// per second.
const PROMOTIONS: u64 = 300;
const LAGS: u64 = 400;

/// Whether a commit waits for the standby.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standby {
    /// The store is on a disk of its own.
    None,
    Synchronous,
    Asynchronous,
}

pub(crate) struct Replica {
    standby: Standby,
    random: Random,
    /// What the standby has, if that is less than the server shows.
    behind: Option<Box<MemoryStore>>,
    /// Since the last commit, the server is another one.
    is_promoted: bool,
    /// The last number that a process knows to be stored.
    acknowledged: u64,
    pub(crate) promotions: u64,
    /// Promotions that lost what was acknowledged.
    pub(crate) losses: u64,
    /// Takeovers that skipped numbers.
    pub(crate) skips: u64,
}

// === impl Replica ===

impl Replica {
    pub(super) fn none() -> Self {
        Self {
            standby: Standby::None,
            random: Random::new(0),
            behind: None,
            is_promoted: false,
            acknowledged: 0,
            promotions: 0,
            losses: 0,
            skips: 0,
        }
    }

    /// Of a shared database. It has its own randomness, so that the rest of a seed stays.
    pub(super) fn of_seed(seed: u64) -> Self {
        let mut random = Random::new(!seed);
        let standby = if random.chance(500) { Standby::Synchronous } else { Standby::Asynchronous };
        Self { standby, random, ..Self::none() }
    }

    /// What may happen each second.
    pub(super) fn second(&mut self, store: &mut MemoryStore) {
        match self.standby {
            Standby::None => return,
            Standby::Asynchronous if self.behind.is_none() && self.random.chance(LAGS) => {
                self.behind = Some(Box::new(store.clone()));
            }
            Standby::Asynchronous | Standby::Synchronous => {}
        }
        if self.random.chance(PROMOTIONS) {
            self.promote(store);
        }
    }

    fn promote(&mut self, store: &mut MemoryStore) {
        self.promotions += 1;
        self.is_promoted = true;
        let Some(behind) = self.behind.take() else { return };
        *store = *behind;
        let found = last_commit(store);
        let has_lost = found < self.acknowledged;
        assert!(
            !has_lost || self.standby == Standby::Asynchronous,
            "a synchronous standby has {found} of {} commits that were acknowledged",
            self.acknowledged
        );
        self.losses += u64::from(has_lost);
    }

    /// What the standby has, if that is less.
    pub(super) fn behind(&mut self) -> Option<&mut MemoryStore> {
        self.behind.as_deref_mut()
    }

    /// Whether a process that writes this commit finds less than it knows to be stored; the next one
    /// then skips numbers.
    pub(super) fn has_lost_before(&mut self, id: CommitId, found: &Progress) -> bool {
        let is_ahead = id.term == found.term && id.number > found.last_commit + 1;
        let has_lost = self.standby != Standby::None && is_ahead;
        self.is_promoted |= has_lost;
        has_lost
    }

    /// The same for a process that begins its next term.
    pub(super) fn has_lost(&mut self, found: &Progress) -> bool {
        let has_lost = self.standby != Standby::None && found.last_commit < self.acknowledged;
        self.is_promoted |= has_lost;
        has_lost
    }

    /// What the standby has while a commit without changes is sent whose answer gets lost.
    pub(super) fn without(&self, is_empty: bool, store: &MemoryStore) -> Option<Box<MemoryStore>> {
        let lags = self.standby == Standby::Synchronous && is_empty;
        lags.then(|| Box::new(store.clone()))
    }

    /// A commit was written; the standby has it, or this.
    pub(super) fn wrote(&mut self, id: CommitId, is_empty: bool, behind: Option<Box<MemoryStore>>) {
        let number = id.number;
        assert!(
            self.standby == Standby::None || number > self.acknowledged,
            "commit {number} has the number of one that was acknowledged"
        );
        match self.standby {
            Standby::Asynchronous if is_empty => {}
            Standby::None | Standby::Synchronous | Standby::Asynchronous => self.behind = behind,
        }
        self.is_promoted = false;
    }

    /// A process learns that a commit is stored.
    pub(super) fn acknowledges(&mut self, id: CommitId) {
        self.acknowledged = self.acknowledged.max(id.number);
    }

    /// A synchronous standby has everything, once a later write has come back.
    pub(super) fn settles(&mut self) {
        if self.standby == Standby::Synchronous {
            self.behind = None;
        }
    }

    /// A process takes over: by how much the numbers skip.
    pub(super) fn taken(&mut self) -> u64 {
        self.behind = None;
        match std::mem::take(&mut self.is_promoted) {
            true => {
                self.skips += 1;
                SKIPPED
            }
            false => 0,
        }
    }
}

fn last_commit(store: &mut MemoryStore) -> u64 {
    store.progress().expect("memory answers").last_commit
}
