//! The places of the pool and whose they are, without Docker.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use api_types::{ExecutionId, Timestamp};

/// An execution whose container is not seen for so long has none: making one takes less.
const UNSEEN_LIMIT: Duration = Duration::from_secs(180);

/// The longest that the kernel keeps a connection that nobody has any more is a minute; what is
/// left after this stays.
const COOLING_LIMIT: Duration = Duration::from_secs(90);

/// By the id of the container that holds the namespace open.
#[derive(Debug, Default)]
pub(super) struct Pool {
    places: BTreeMap<String, Place>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Found empty; free for the next task.
    Idle,
    Lent {
        to: ExecutionId,
        since: Timestamp,
    },
    /// Nobody has it, and nobody gets it before it was found empty.
    Cooling {
        since: Timestamp,
    },
}

/// What Docker has, at one moment.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The sandboxes of this node, and whether they run.
    pub(super) sandboxes: BTreeMap<String, bool>,
    /// The executions of this node that have a container, with the sandbox that it holds.
    pub(super) executions: HashMap<ExecutionId, Option<String>>,
}

/// What a look into a place found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    Clean,
    /// Sockets are left; they may go by themselves.
    Busy(String),
    /// It cannot be handed on.
    Spoilt(String),
}

// === impl Pool ===

impl Pool {
    /// Idle => Lent. Asked again, it answers the same.
    pub(super) fn lend(&mut self, id: ExecutionId, now: Timestamp) -> Option<String> {
        if let Some(sandbox) = self.place_of(id) {
            return Some(sandbox);
        }
        let (sandbox, place) =
            self.places.iter_mut().find(|(_, place)| matches!(place, Place::Idle))?;
        *place = Place::Lent { to: id, since: now };
        Some(sandbox.clone())
    }

    /// Idle => Lent, for a container that is there already.
    pub(super) fn claim(&mut self, sandbox: &str, id: ExecutionId, now: Timestamp) -> bool {
        match self.places.get_mut(sandbox) {
            Some(Place::Lent { to, .. }) => *to == id,
            Some(place @ Place::Idle) => {
                *place = Place::Lent { to: id, since: now };
                true
            }
            Some(Place::Cooling { .. }) | None => false,
        }
    }

    /// Lent => Cooling; answers whether it had one.
    pub(super) fn give_back(&mut self, id: ExecutionId, now: Timestamp) -> bool {
        let Some(sandbox) = self.place_of(id) else { return false };
        self.places.insert(sandbox, Place::Cooling { since: now });
        true
    }

    /// Idle => Cooling, all of them.
    pub(super) fn doubt(&mut self, now: Timestamp) {
        for place in self.places.values_mut().filter(|place| matches!(place, Place::Idle)) {
            *place = Place::Cooling { since: now };
        }
    }

    /// A sandbox was made: it begins with a look like any other.
    pub(super) fn add(&mut self, sandbox: String, now: Timestamp) {
        self.places.insert(sandbox, Place::Cooling { since: now });
    }

    pub(super) fn place_of(&self, id: ExecutionId) -> Option<String> {
        let lent = |place: &Place| matches!(place, Place::Lent { to, .. } if *to == id);
        let mut places = self.places.iter();
        places.find(|(_, place)| lent(place)).map(|(sandbox, _)| sandbox.clone())
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn cooling(&self) -> Vec<String> {
        let places = self.places.iter();
        let cooling = places.filter(|(_, place)| matches!(place, Place::Cooling { .. }));
        cooling.map(|(sandbox, _)| sandbox.clone()).collect()
    }

    #[cfg(test)]
    pub(super) fn idle(&self) -> usize {
        self.places.values().filter(|place| matches!(place, Place::Idle)).count()
    }

    /// Takes up to so many idle places out of the pool, to be removed.
    pub(super) fn take_idle(&mut self, count: usize) -> Vec<String> {
        let idle = self.places.iter().filter(|(_, place)| matches!(place, Place::Idle));
        let taken: Vec<_> = idle.take(count).map(|(sandbox, _)| sandbox.clone()).collect();
        self.places.retain(|sandbox, _| !taken.contains(sandbox));
        taken
    }

    /// Cooling => Idle, or out of the pool; answers whether it is out and to be removed.
    pub(super) fn looked(&mut self, sandbox: &str, found: &Found, now: Timestamp) -> bool {
        let Some(Place::Cooling { since }) = self.places.get(sandbox).copied() else {
            return false;
        };
        match found {
            Found::Clean => {
                self.places.insert(sandbox.to_owned(), Place::Idle);
                false
            }
            Found::Busy(_) if now.since(since) < COOLING_LIMIT => false,
            Found::Busy(_) | Found::Spoilt(_) => {
                self.places.remove(sandbox);
                true
            }
        }
    }

    /// Makes the pool what Docker has; answers the sandboxes that nobody needs.
    pub(super) fn reconcile(&mut self, seen: &Seen, now: Timestamp) -> Vec<String> {
        let holders: HashMap<&str, ExecutionId> = seen
            .executions
            .iter()
            .filter_map(|(id, sandbox)| Some((sandbox.as_deref()?, *id)))
            .collect();
        self.places.retain(|sandbox, _| seen.sandboxes.contains_key(sandbox));
        for place in self.places.values_mut() {
            if let Place::Lent { to, since } = *place
                && !seen.executions.contains_key(&to)
                && now.since(since) > UNSEEN_LIMIT
            {
                *place = Place::Cooling { since: now };
            }
        }
        let mut unneeded = Vec::new();
        for (sandbox, runs) in &seen.sandboxes {
            let held = holders.get(sandbox.as_str());
            match (self.places.get(sandbox), held, runs) {
                // One that ended under a task lives on as the task's namespace.
                (Some(Place::Lent { .. }), _, _) | (Some(_), _, true) => {}
                (None, Some(to), _) => {
                    self.places.insert(sandbox.clone(), Place::Lent { to: *to, since: now });
                }
                (None, None, true) => {
                    self.places.insert(sandbox.clone(), Place::Cooling { since: now });
                }
                (_, _, false) => {
                    self.places.remove(sandbox);
                    unneeded.push(sandbox.clone());
                }
            }
        }
        unneeded
    }
}

#[cfg(test)]
mod tests;
