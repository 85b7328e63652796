//! What is due when.
//!
//! There is at most one timer of a kind for a job, a slot or a node: setting it again moves it,
//! and whoever ends takes its timers along. So there are never more timers than things that wait.

use alloc::collections::BTreeSet;

use api_types::{ExecutionId, JobId, NodeId};

use crate::keyed::{HashKey, HashMap};
use crate::time::Moment;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Timer {
    Lease(NodeId),
    /// Something on a silent node has been waited for long enough.
    GiveUp(NodeId),
    /// Most nodes have been silent for too long to wait for them.
    MassSilence,
    /// The delay of a slot is over.
    Retry(JobId, u32),
    /// A slot need not stay away from one of its nodes any longer.
    Exclusion(JobId, u32),
    /// What could not be fetched is tried again.
    FetchDelay(JobId),
    /// A node answered nothing to an offer.
    Offer(ExecutionId),
    /// A node that backed off is probed.
    BackOff(NodeId),
    /// The probe of a node has run for long enough.
    Probe(NodeId),
    QueueTimeout(JobId),
    TotalTimeout(JobId),
    DrainDeadline(NodeId),
    /// The node may have been away for too long.
    Retention(NodeId),
}

pub(crate) struct Timers {
    due: BTreeSet<(Moment, Timer)>,
    /// When each of them is due.
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

    /// Takes the first timer that is due.
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
