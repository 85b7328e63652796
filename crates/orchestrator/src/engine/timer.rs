//! What is due when.
//!
//! A timer is only a reminder: when it fires, the state says whether it still matters. So nothing
//! has to be cancelled, and a renewed lease costs no change here.

use std::collections::BTreeSet;

use api_types::{JobId, NodeId, Timestamp};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    Lease(NodeId),
    /// The delay of a slot is over.
    Retry(JobId, u32),
    QueueTimeout(JobId),
    TotalTimeout(JobId),
    DrainDeadline(NodeId),
    /// The node may have been away for too long.
    Retention(NodeId),
}

#[derive(Default)]
pub(super) struct Timers {
    due: BTreeSet<(Timestamp, Timer)>,
}

// === impl Timers ===

impl Timers {
    pub(super) fn set(&mut self, at: Timestamp, timer: Timer) {
        self.due.insert((at, timer));
    }

    pub(super) fn pop(&mut self, now: Timestamp) -> Option<Timer> {
        let first = *self.due.first()?;
        if first.0 > now {
            return None;
        }
        self.due.remove(&first);
        Some(first.1)
    }

    pub(super) fn next(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| *at)
    }
}
