//! The slots of the pool and their leases, without Docker.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use api_types::{ExecutionId, Timestamp};

/// An execution without a container for this long has none: creating one takes less.
const UNSEEN_LIMIT: Duration = Duration::from_secs(180);

/// The kernel keeps an orphaned connection for at most a minute; what is left after this stays.
const COOLING_LIMIT: Duration = Duration::from_secs(90);

/// A task shorter than this needs no hold: if its agent leaves it behind that early, it ends long
/// before its sandbox does. Most tasks are that short, and cost no request.
const HOLD_AFTER: Duration = Duration::from_secs(1);

/// Delay between two holds of the same sandbox.
const HOLD_AGAIN: Duration = Duration::from_secs(60);

/// By the id of the container that holds the namespace open.
#[derive(Debug, Default)]
pub(super) struct Pool {
    slots: BTreeMap<String, Slot>,
    /// Those of tasks whose policy is no longer the current one.
    outdated: BTreeSet<String>,
    /// The fewest idle slots that a lease left since the spare ones were last taken out; none
    /// without a lease.
    fewest_idle: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    /// Found empty; free for the next task.
    Idle,
    Leased {
        to: ExecutionId,
        since: Timestamp,
        /// When the sandbox was last notified, so that it does not end by itself; zero before.
        held_at: Timestamp,
    },
    /// No task holds it, and none gets it before an inspection finds it empty.
    Cooling { since: Timestamp },
}

/// What Docker has, at one moment.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The sandboxes of this node, and whether they run.
    pub(super) sandboxes: BTreeMap<String, bool>,
    /// The stamps of their policies, where they have one.
    pub(super) stamps: BTreeMap<String, String>,
    /// The executions of this node that have a container, with the sandbox that each holds.
    pub(super) executions: HashMap<ExecutionId, Option<String>>,
}

/// The result of an inspection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Inspection {
    Clean,
    /// Sockets are left; they may close by themselves.
    Busy(String),
    /// It cannot be reused.
    Spoilt(String),
}

// === impl Slot ===

impl Slot {
    fn leased(to: ExecutionId, since: Timestamp) -> Self {
        Self::Leased { to, since, held_at: Timestamp::ZERO }
    }
}

// === impl Pool ===

impl Pool {
    /// Idle => Leased. Idempotent.
    pub(super) fn lease(&mut self, id: ExecutionId, now: Timestamp) -> Option<String> {
        if let Some(sandbox) = self.slot_of(id) {
            return Some(sandbox);
        }
        let (sandbox, slot) = self.slots.iter_mut().find(|(_, slot)| matches!(slot, Slot::Idle))?;
        *slot = Slot::leased(id, now);
        let sandbox = sandbox.clone();
        self.note_idle();
        Some(sandbox)
    }

    /// Idle => Leased, for a container that exists already.
    pub(super) fn claim(&mut self, sandbox: &str, id: ExecutionId, now: Timestamp) -> bool {
        match self.slots.get_mut(sandbox) {
            Some(Slot::Leased { to, .. }) => *to == id,
            Some(slot @ Slot::Idle) => {
                *slot = Slot::leased(id, now);
                true
            }
            Some(Slot::Cooling { .. }) | None => false,
        }
    }

    /// Leased => Cooling; returns whether it had one.
    pub(super) fn give_back(&mut self, id: ExecutionId, now: Timestamp) -> bool {
        let Some(sandbox) = self.slot_of(id) else { return false };
        self.slots.insert(sandbox, Slot::Cooling { since: now });
        true
    }

    /// Idle => Cooling, for all of them.
    pub(super) fn doubt(&mut self, now: Timestamp) {
        for slot in self.slots.values_mut().filter(|slot| matches!(slot, Slot::Idle)) {
            *slot = Slot::Cooling { since: now };
        }
    }

    /// A new sandbox is inspected before its first use like any other.
    pub(super) fn add(&mut self, sandbox: String, now: Timestamp) {
        self.slots.insert(sandbox, Slot::Cooling { since: now });
    }

    /// A new sandbox that a task waits for.
    pub(super) fn add_leased(&mut self, sandbox: String, to: ExecutionId, now: Timestamp) {
        self.slots.insert(sandbox, Slot::Leased { to, since: now, held_at: now });
        self.fewest_idle = Some(0);
    }

    /// The sandbox has ended.
    pub(super) fn discard(&mut self, sandbox: &str) {
        self.slots.remove(sandbox);
    }

    pub(super) fn slot_of(&self, id: ExecutionId) -> Option<String> {
        let leased = |slot: &Slot| matches!(slot, Slot::Leased { to, .. } if *to == id);
        let mut slots = self.slots.iter();
        slots.find(|(_, slot)| leased(slot)).map(|(sandbox, _)| sandbox.clone())
    }

    pub(super) fn has(&self, sandbox: &str) -> bool {
        self.slots.contains_key(sandbox)
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Slots that no task has.
    pub(super) fn free(&self) -> usize {
        self.slots.values().filter(|slot| !matches!(slot, Slot::Leased { .. })).count()
    }

    fn note_idle(&mut self) {
        let idle = self.idle();
        self.fewest_idle = Some(self.fewest_idle.map_or(idle, |fewest| fewest.min(idle)));
    }

    pub(super) fn cooling(&self) -> Vec<String> {
        let slots = self.slots.iter();
        let cooling = slots.filter(|(_, slot)| matches!(slot, Slot::Cooling { .. }));
        cooling.map(|(sandbox, _)| sandbox.clone()).collect()
    }

    pub(super) fn idle(&self) -> usize {
        self.slots.values().filter(|slot| matches!(slot, Slot::Idle)).count()
    }

    /// Takes at most this many idle slots out of the pool, for removal.
    pub(super) fn take_idle(&mut self, count: usize) -> Vec<String> {
        let idle = self.slots.iter().filter(|(_, slot)| matches!(slot, Slot::Idle));
        let taken: Vec<_> = idle.take(count).map(|(sandbox, _)| sandbox.clone()).collect();
        self.slots.retain(|sandbox, _| !taken.contains(sandbox));
        taken
    }

    /// Takes the idle slots out of the pool, for removal, that no task needed since the last call,
    /// except for this many.
    pub(super) fn take_spare(&mut self, kept: usize) -> Vec<String> {
        let spare = self.fewest_idle.take().unwrap_or(usize::MAX).min(self.idle());
        self.take_idle(spare.saturating_sub(kept))
    }

    /// Takes the slots out of the pool, for removal, that have cooled for the longest time, if more
    /// do than tasks hold others and this many. Just after an inspection all of them are busy.
    pub(super) fn take_busy(&mut self, kept: usize) -> Vec<String> {
        let since = |(sandbox, slot): (&String, &Slot)| match slot {
            Slot::Cooling { since } => Some((*since, sandbox.clone())),
            Slot::Idle | Slot::Leased { .. } => None,
        };
        let mut busy: Vec<_> = self.slots.iter().filter_map(since).collect();
        busy.sort();
        let kept = kept + self.len() - self.free();
        busy.truncate(busy.len().saturating_sub(kept));
        let busy: Vec<_> = busy.into_iter().map(|(_, sandbox)| sandbox).collect();
        self.slots.retain(|sandbox, _| !busy.contains(sandbox));
        busy
    }

    /// Takes the slots without a task out of the pool that have another policy, for removal; the
    /// others follow when their tasks have ended.
    pub(super) fn take_outdated(&mut self, seen: &Seen, stamp: &str) -> Vec<String> {
        let is_outdated =
            |sandbox: &str| seen.stamps.get(sandbox).is_some_and(|has| has.as_str() != stamp);
        let (mut free, mut held) = (Vec::new(), BTreeSet::new());
        for (sandbox, slot) in self.slots.iter().filter(|(sandbox, _)| is_outdated(sandbox)) {
            match slot {
                Slot::Idle | Slot::Cooling { .. } => free.push(sandbox.clone()),
                Slot::Leased { .. } => drop(held.insert(sandbox.clone())),
            }
        }
        self.outdated = held;
        self.slots.retain(|sandbox, _| !free.contains(sandbox));
        free
    }

    /// The leased sandboxes that are due a (new) notification.
    pub(super) fn to_hold(&self, now: Timestamp) -> Vec<String> {
        let due = |slot: &Slot| {
            matches!(*slot, Slot::Leased { since, held_at, .. }
                if now.since(since) >= HOLD_AFTER && now.since(held_at) >= HOLD_AGAIN)
        };
        let slots = self.slots.iter().filter(|(_, slot)| due(slot));
        slots.map(|(sandbox, _)| sandbox.clone()).collect()
    }

    /// Whether a leased sandbox has not been notified.
    pub(super) fn awaits_hold(&self) -> bool {
        let unheld = |slot: &Slot| matches!(slot, Slot::Leased { held_at: Timestamp::ZERO, .. });
        self.slots.values().any(unheld)
    }

    /// The sandbox was notified of its lease, or could not be.
    pub(super) fn held(&mut self, sandbox: &str, now: Timestamp) {
        if let Some(Slot::Leased { held_at, .. }) = self.slots.get_mut(sandbox) {
            *held_at = now;
        }
    }

    /// Takes all slots without a task out of the pool, for removal; the rest is leased.
    pub(super) fn take_free(&mut self, seen: &Seen) -> Vec<String> {
        let ended = |id: &ExecutionId| matches!(seen.executions.get(id), Some(None));
        let slots = self.slots.iter();
        let free = slots.filter(|(_, slot)| match slot {
            Slot::Idle | Slot::Cooling { .. } => true,
            Slot::Leased { to, .. } => ended(to),
        });
        let free: Vec<_> = free.map(|(sandbox, _)| sandbox.clone()).collect();
        self.slots.retain(|sandbox, _| !free.contains(sandbox));
        free
    }

    /// The sandboxes that tasks hold.
    pub(super) fn leased(&self) -> Vec<String> {
        let slots = self.slots.iter();
        let leased = slots.filter(|(_, slot)| matches!(slot, Slot::Leased { .. }));
        leased.map(|(sandbox, _)| sandbox.clone()).collect()
    }

    /// Cooling => Idle, or out of the pool; returns whether it is out and needs removal.
    pub(super) fn inspected(&mut self, sandbox: &str, found: &Inspection, now: Timestamp) -> bool {
        let Some(Slot::Cooling { since }) = self.slots.get(sandbox).copied() else {
            return false;
        };
        match found {
            Inspection::Clean if !self.outdated.contains(sandbox) => {
                self.slots.insert(sandbox.to_owned(), Slot::Idle);
                false
            }
            Inspection::Busy(_) if now.since(since) < COOLING_LIMIT => false,
            Inspection::Clean | Inspection::Busy(_) | Inspection::Spoilt(_) => {
                self.slots.remove(sandbox);
                true
            }
        }
    }

    /// Reconciles the pool with Docker; returns the sandboxes to remove.
    pub(super) fn reconcile(&mut self, seen: &Seen, now: Timestamp) -> Vec<String> {
        let holders: HashMap<&str, ExecutionId> = seen
            .executions
            .iter()
            .filter_map(|(id, sandbox)| Some((sandbox.as_deref()?, *id)))
            .collect();
        self.slots.retain(|sandbox, _| seen.sandboxes.contains_key(sandbox));
        for slot in self.slots.values_mut() {
            if let Slot::Leased { to, since, .. } = *slot
                && !seen.executions.contains_key(&to)
                && now.since(since) > UNSEEN_LIMIT
            {
                *slot = Slot::Cooling { since: now };
            }
        }
        let mut unneeded = Vec::new();
        for (sandbox, runs) in &seen.sandboxes {
            let held = holders.get(sandbox.as_str());
            match (self.slots.get(sandbox), held, runs) {
                // One that ended under a task lives on as the task's namespace.
                (Some(Slot::Leased { .. }), _, _) | (Some(_), _, true) => {}
                (None, Some(to), _) => {
                    self.slots.insert(sandbox.clone(), Slot::leased(*to, now));
                }
                (None, None, true) => {
                    self.slots.insert(sandbox.clone(), Slot::Cooling { since: now });
                }
                (_, _, false) => {
                    self.slots.remove(sandbox);
                    unneeded.push(sandbox.clone());
                }
            }
        }
        unneeded
    }
}

#[cfg(test)]
mod tests;
