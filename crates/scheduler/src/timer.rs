//! Timers: what is due, and when.
//!
//! A job, a slot or a node has at most one timer of each kind: setting it again moves it, and it is
//! cancelled together with its owner. So there are never more timers than waiting items.

use alloc::collections::BTreeSet;

use api_types::{ExecutionId, JobId, NodeId};

use crate::keyed::{HashKey, HashMap};
use crate::rank::Waiter;
use crate::time::Moment;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Timer {
    Lease(NodeId),
    /// The patience for some work on a silent node has ended.
    GiveUp(NodeId),
    /// A mass silence is checked again, or has lasted too long to keep waiting.
    MassSilence,
    /// The retry delay of a slot ended.
    Retry(JobId, u32),
    /// An exclusion of a slot ended.
    Exclusion(JobId, u32),
    /// A failed fetch is retried.
    FetchDelay(JobId),
    /// A node did not answer an offer.
    Offer(ExecutionId),
    /// A run after failed ones has lasted.
    GoodRun(ExecutionId),
    /// The back-off of a node ended, so it is probed next; or its agent has not answered a probe.
    Health(NodeId),
    /// The probe of a node has run long enough.
    Probe(NodeId),
    QueueTimeout(JobId),
    TotalTimeout(JobId),
    DrainDeadline(NodeId),
    /// The node may have been disconnected for longer than the retention period.
    Retention(NodeId),
    /// The head of a queue has waited for too long.
    Starvation(Waiter),
    /// Nodes are reserved for those who starve.
    Reserve,
    /// A node has been reserved for long enough.
    Reservation(NodeId),
}

pub(crate) struct Timers {
    due: BTreeSet<(Moment, Timer)>,
    /// When each timer is due.
    at: HashMap<Timer, Moment>,
}

// === impl Timers ===

impl Timers {
    pub(crate) fn new(key: HashKey) -> Self {
        Self { due: BTreeSet::new(), at: HashMap::with_hasher(key) }
    }

    /// Sets the timer, or moves it.
    pub(crate) fn set(&mut self, at: Moment, timer: Timer) {
        if let Some(before) = self.at.insert(timer, at) {
            self.due.remove(&(before, timer));
        }
        self.due.insert((at, timer));
    }

    pub(crate) fn cancel(&mut self, timer: Timer) {
        if let Some(at) = self.at.remove(&timer) {
            self.due.remove(&(at, timer));
        }
    }

    pub(crate) fn is_set(&self, timer: Timer) -> bool {
        self.at.contains_key(&timer)
    }

    /// Removes and returns the first timer that is due.
    pub(crate) fn pop(&mut self, now: Moment) -> Option<Timer> {
        let (at, timer) = *self.due.first()?;
        if at > now {
            return None;
        }
        self.due.pop_first();
        self.at.remove(&timer);
        Some(timer)
    }

    pub(crate) fn next(&self) -> Option<Moment> {
        self.due.first().map(|(at, _)| *at)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.due.len()
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::mint::Mint;

    #[test]
    fn a_timer_moves_when_it_is_set_again_and_is_gone_when_it_is_cancelled() {
        let mut timers = Timers::new(HashKey::draw(&mut Mint::from_seed([1; 32])));
        let [one, two] =
            [1, 2].map(|id| Timer::TotalTimeout(JobId::from_uuid(Uuid::from_u128(id))));
        timers.set(Moment(5), one);
        timers.set(Moment(6), two);
        timers.set(Moment(7), one);
        assert_eq!((timers.len(), timers.next()), (2, Some(Moment(6))));
        timers.cancel(two);
        assert_eq!(timers.pop(Moment(6)), None);
        assert_eq!(timers.pop(Moment(7)), Some(one));
        assert_eq!((timers.len(), timers.next()), (0, None));
    }
}
