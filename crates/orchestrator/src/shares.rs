//! Who gets how much of what all callers share: open streams, memory for large bodies, turns.
//!
//! Each pool has a number of permits, and each permit an [`Owner`]: a principal within a group. One
//! rule holds everywhere: **a permit is granted while the group holds less than is free, and the
//! principal holds less than half of what is free.** So a single namespace gets half of a pool and
//! a single token a third, two namespaces get a third each, and something is left for whoever comes
//! next. More tokens do not get a namespace more.
//!
//! An eighth of a pool is reserved for operators and admins, and in a pool that nodes use, another
//! eighth for nodes. What the rule calls free is, for everyone else, free outside these reserves.
//!
//! On an open listener all callers are one principal, which has the whole pool.
//!
//! Rejected: a fixed number for each token, which a namespace multiplies by making tokens, and which
//! leaves an idle service mostly unused; shares by address, because everyone behind a proxy has the
//! same; taking permits away from those who hold much, which breaks off what has begun.

mod lock;
mod owner;
pub(crate) mod pace;
pub(crate) mod permit_queue;
mod refusals;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use lock::lock;

pub(crate) use owner::{Group, Owner};
pub(crate) use refusals::Refusals;

/// One part in this many of a pool is reserved for operators and admins, and as much for nodes.
const RESERVED_PART: usize = 8;

/// What the permits of a pool are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pool {
    /// Its name in metrics.
    pub(crate) name: &'static str,
    /// What one is called, in the plural, in messages.
    pub(crate) what: &'static str,
    /// Whether nodes take permits too.
    pub(crate) serves_nodes: bool,
    /// Whether all callers of an open listener together have the whole of it. Otherwise they are one
    /// group among others.
    pub(crate) open_has_all: bool,
}

/// The permits of one pool.
#[derive(Clone)]
pub(crate) struct Shares {
    pool: Pool,
    total: usize,
    held: Arc<Mutex<PermitCounts>>,
    refusals: Refusals,
}

/// Some permits of a pool; returned when this is dropped.
pub(crate) struct Permit {
    held: Arc<Mutex<PermitCounts>>,
    owner: Owner,
    count: usize,
}

/// Why a permit was not granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) what: &'static str,
    pub(crate) total: usize,
    pub(crate) bound: Bound,
}

/// What stands in the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Bound {
    /// Too few are free for anyone.
    All,
    /// The caller's group holds this many, as many as are free for others.
    Group { group: Group, held: usize },
    /// The caller holds this many.
    Principal { held: usize },
    /// The callers of the namespace made too many in a row.
    Pace { namespace: Arc<str> },
}

#[derive(Debug, Default)]
struct PermitCounts {
    all: usize,
    by_group: HashMap<Group, usize>,
    by_owner: HashMap<Owner, usize>,
}

// === impl Shares ===

impl Shares {
    pub(crate) fn new(pool: Pool, total: usize, refusals: &Refusals) -> Self {
        refusals.begin(pool.name);
        Self { pool, total, held: Arc::default(), refusals: refusals.clone() }
    }

    /// This many permits, all or none.
    pub(crate) fn take(&self, owner: &Owner, count: usize) -> Result<Permit, Refused> {
        let mut held = lock(&self.held);
        if let Err(bound) = self.check(&held, owner, count) {
            let favoured = held.largest_except(&owner.group).cloned();
            drop(held);
            self.refusals.note(self.pool.name, &owner.group, favoured.as_ref());
            return Err(Refused { what: self.pool.what, total: self.total, bound });
        }
        held.add(owner, count);
        Ok(Permit { held: Arc::clone(&self.held), owner: owner.clone(), count })
    }

    /// Permits in use.
    pub(crate) fn used(&self) -> usize {
        lock(&self.held).all
    }

    pub(crate) fn name(&self) -> &'static str {
        self.pool.name
    }

    pub(crate) fn total(&self) -> usize {
        self.total
    }

    /// Whether this many permits would be granted.
    fn grants(&self, owner: &Owner, count: usize) -> bool {
        self.check(&lock(&self.held), owner, count).is_ok()
    }

    /// The rule.
    fn check(&self, held: &PermitCounts, owner: &Owner, count: usize) -> Result<(), Bound> {
        if owner.group == Group::Everyone && self.pool.open_has_all {
            let fits = held.all + count <= self.total;
            return if fits { Ok(()) } else { Err(Bound::All) };
        }
        let free = self.free_for(held, &owner.group);
        if count > free {
            return Err(Bound::All);
        }
        // For one permit, the group holds less than is free, and the principal less than half of that.
        let of_group = held.of_group(&owner.group);
        if of_group + count > free {
            return Err(Bound::Group { group: owner.group.clone(), held: of_group });
        }
        let of_owner = held.by_owner.get(owner).copied().unwrap_or(0);
        if 2 * (of_owner + count) > free + 1 {
            return Err(Bound::Principal { held: of_owner });
        }
        Ok(())
    }

    /// Free permits, without what is reserved for other groups.
    fn free_for(&self, held: &PermitCounts, group: &Group) -> usize {
        let for_cluster = self.total / RESERVED_PART;
        let for_nodes = if self.pool.serves_nodes { self.total / RESERVED_PART } else { 0 };
        let cluster_left = for_cluster.saturating_sub(held.of_group(&Group::Cluster));
        let nodes_left = for_nodes.saturating_sub(held.of_group(&Group::Nodes));
        let kept = match group {
            Group::Cluster => nodes_left,
            Group::Nodes => cluster_left,
            Group::Everyone | Group::Unknown | Group::Namespace(_) => cluster_left + nodes_left,
        };
        self.total.saturating_sub(held.all + kept)
    }
}

// === impl Refused ===

impl Refused {
    /// What the caller can do.
    pub(crate) fn hint(&self) -> &'static str {
        match self.bound {
            Bound::All => "try again",
            Bound::Pace { .. } => "try again in a second, and more slowly",
            Bound::Group { .. } | Bound::Principal { .. } => {
                "end some of them, or try again: a share grows as others need less"
            }
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, total, bound } = self;
        match bound {
            Bound::All => write!(f, "the limit of {total} {what} is reached"),
            Bound::Group { group: Group::Namespace(name), held } => {
                write!(
                    f,
                    "the callers of namespace '{name}' hold {held} of {total} {what}, their share"
                )
            }
            Bound::Group { group: _, held } => {
                write!(f, "callers of this kind hold {held} of {total} {what}, their share")
            }
            Bound::Pace { namespace } => {
                write!(f, "the callers of namespace '{namespace}' made {total} {what} in a row")
            }
            Bound::Principal { held } => {
                write!(f, "this caller holds {held} of {total} {what}, its share")
            }
        }
    }
}

// === impl PermitCounts ===

impl PermitCounts {
    fn of_group(&self, group: &Group) -> usize {
        self.by_group.get(group).copied().unwrap_or(0)
    }

    fn add(&mut self, owner: &Owner, count: usize) {
        self.all += count;
        *self.by_group.entry(owner.group.clone()).or_default() += count;
        *self.by_owner.entry(owner.clone()).or_default() += count;
    }

    fn remove(&mut self, owner: &Owner, count: usize) {
        self.all = self.all.saturating_sub(count);
        subtract(&mut self.by_group, &owner.group, count);
        subtract(&mut self.by_owner, owner, count);
    }

    /// The group that holds most, except this one.
    fn largest_except(&self, group: &Group) -> Option<&Group> {
        let others = self.by_group.iter().filter(|(other, _)| *other != group);
        others.max_by_key(|(_, count)| **count).map(|(other, _)| other)
    }
}

/// Only those who hold something are remembered.
fn subtract<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, usize>, of: &K, count: usize) {
    match counts.get_mut(of) {
        Some(held) if *held > count => *held -= count,
        _ => drop(counts.remove(of)),
    }
}

// === impl Permit ===

impl Permit {
    /// Whom it is charged to.
    pub(crate) fn owner(&self) -> Owner {
        self.owner.clone()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        lock(&self.held).remove(&self.owner, self.count);
    }
}

#[cfg(test)]
mod tests;
