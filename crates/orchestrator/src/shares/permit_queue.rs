//! Permits that are waited for, in turn.
//!
//! Groups take turns, and within each its principals: those who were served longest ago come first.
//! The rule of [`Shares`] applies too, so of two permits, the second never goes to a group that
//! holds the first.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use super::lock::lock;
use super::{Group, Owner, Permit, Pool, Refusals, Refused, Shares};

/// A queue before a pool.
#[derive(Clone)]
pub(crate) struct PermitQueue(Arc<Inner>);

struct Inner {
    permits: Shares,
    places: Shares,
    lines: Mutex<Lines>,
}

/// A permit. The next in line gets it when this is dropped.
pub(crate) struct QueuedPermit {
    permit: Option<Permit>,
    queue: PermitQueue,
}

#[derive(Default)]
struct Lines {
    /// Counts turns.
    clock: u64,
    /// Groups that wait.
    groups: HashMap<Group, Line>,
    /// The last ticket.
    tickets: u64,
}

/// Those of one group that wait.
#[derive(Default)]
struct Line {
    /// When the group last had a turn, or began to wait.
    served: u64,
    principals: HashMap<Owner, OfOne>,
}

#[derive(Default)]
struct OfOne {
    served: u64,
    waiting: VecDeque<(u64, oneshot::Sender<Permit>)>,
}

/// Leaves the line when it is dropped.
struct Waiter<'a> {
    queue: &'a PermitQueue,
    owner: &'a Owner,
    ticket: u64,
    granted: oneshot::Receiver<Permit>,
    _place: Permit,
}

// === impl PermitQueue ===

impl PermitQueue {
    /// At most `places` requests wait.
    pub(crate) fn new(pool: Pool, total: usize, places: usize, refusals: &Refusals) -> Self {
        let permits = Shares::new(pool, total, refusals);
        let places = Shares::new(pool, places, refusals);
        Self(Arc::new(Inner { permits, places, lines: Mutex::default() }))
    }

    /// A permit, as soon as it is the owner's turn; refused if too many of the same owner wait
    /// already.
    pub(crate) async fn take(&self, owner: &Owner) -> Result<QueuedPermit, Refused> {
        let place = self.0.places.take(owner, 1)?;
        let mut waiter = self.queue(owner, place);
        self.serve();
        // The sender is dropped only with the waiter, which is held here.
        let permit = (&mut waiter.granted).await.ok();
        Ok(QueuedPermit { permit, queue: self.clone() })
    }

    fn queue<'a>(&'a self, owner: &'a Owner, place: Permit) -> Waiter<'a> {
        let (sender, granted) = oneshot::channel();
        let mut lines = lock(&self.0.lines);
        lines.tickets += 1;
        let (ticket, clock) = (lines.tickets, lines.clock);
        let line = lines.groups.entry(owner.group.clone());
        let line = line.or_insert_with(|| Line { served: clock, ..Line::default() });
        let of_one = line.principals.entry(owner.clone());
        let of_one = of_one.or_insert_with(|| OfOne { served: clock, ..OfOne::default() });
        of_one.waiting.push_back((ticket, sender));
        Waiter { queue: self, owner, ticket, granted, _place: place }
    }

    /// Hands out the permits that are free.
    fn serve(&self) {
        let mut lines = lock(&self.0.lines);
        while let Some(owner) = lines.next(|owner| self.0.permits.grants(owner, 1)) {
            let Ok(permit) = self.0.permits.take(&owner, 1) else { return };
            if let Some(sender) = lines.pop(&owner)
                && let Err(permit) = sender.send(permit)
            {
                // The caller has just gone; its drop would lock the lines.
                drop(permit);
            }
        }
    }

    pub(crate) fn permits(&self) -> &Shares {
        &self.0.permits
    }

    /// Those who wait.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.0.places.used()
    }
}

// === impl Lines ===

impl Lines {
    /// Whose turn it is.
    fn next(&self, may: impl Fn(&Owner) -> bool) -> Option<Owner> {
        let of_groups = self.groups.values().filter_map(|line| {
            let allowed = line.principals.iter().filter(|(owner, _)| may(owner));
            let (owner, first) = allowed.min_by_key(|(_, of_one)| of_one.order())?;
            Some(((line.served, first.order()), owner))
        });
        of_groups.min_by_key(|(order, _)| *order).map(|(_, owner)| owner.clone())
    }

    /// Takes the first of this owner out of the line.
    fn pop(&mut self, owner: &Owner) -> Option<oneshot::Sender<Permit>> {
        self.clock += 1;
        let clock = self.clock;
        let line = self.groups.get_mut(&owner.group)?;
        line.served = clock;
        let of_one = line.principals.get_mut(owner)?;
        of_one.served = clock;
        let first = of_one.waiting.pop_front();
        self.forget_empty(owner);
        first.map(|(_, sender)| sender)
    }

    fn leave(&mut self, owner: &Owner, ticket: u64) {
        let line = self.groups.get_mut(&owner.group);
        if let Some(of_one) = line.and_then(|line| line.principals.get_mut(owner)) {
            of_one.waiting.retain(|(known, _)| *known != ticket);
        }
        self.forget_empty(owner);
    }

    fn forget_empty(&mut self, owner: &Owner) {
        let Some(line) = self.groups.get_mut(&owner.group) else { return };
        if line.principals.get(owner).is_some_and(|of_one| of_one.waiting.is_empty()) {
            line.principals.remove(owner);
        }
        if line.principals.is_empty() {
            self.groups.remove(&owner.group);
        }
    }
}

impl OfOne {
    /// Earlier is first.
    fn order(&self) -> (u64, u64) {
        (self.served, self.waiting.front().map_or(u64::MAX, |(ticket, _)| *ticket))
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        lock(&self.queue.0.lines).leave(self.owner, self.ticket);
        // A permit that came in the same moment goes to the next.
        if let Ok(permit) = self.granted.try_recv() {
            drop(permit);
            self.queue.serve();
        }
    }
}

impl Drop for QueuedPermit {
    fn drop(&mut self) {
        drop(self.permit.take());
        self.queue.serve();
    }
}
