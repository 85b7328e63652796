//! Records heartbeat arrivals outside the driver's queue, so that a heartbeat never waits.
//!
//! The listener records each arrival here and answers immediately. The driver collects the records
//! before anything else in each turn, so leases depend on when heartbeats arrived, however long a
//! commit or a queue took. The driver also learns for how long the listener itself could not
//! receive heartbeats: a stopped process or a suspended machine does not count as silence of a
//! node.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use api_types::NodeId;
use api_types::protocol::{Heartbeat, ProbeOutcome};
use scheduler::silence::NodeLease;

/// Interval of the listener's own tick.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// A tick this late means that no heartbeat could be received until then; less is ordinary load.
pub(super) const LATE: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
pub(crate) struct Presence {
    /// The leases that nodes hold, and what their agents are asked for, as last published by the
    /// driver.
    known: RwLock<HashMap<NodeId, NodeLease>>,
    noted: Mutex<Notes>,
}

#[derive(Debug, Default)]
struct Notes {
    arrivals: HashMap<NodeId, Arrival>,
    /// When the listener last ticked; `None` before the first tick.
    ticked: Option<u64>,
    /// The part of the time since that tick that was already reported to the driver.
    reported: Duration,
    /// Time in which no heartbeat could be received, not yet reported to the driver.
    gap: Duration,
}

/// A heartbeat. Only the latest one of each node is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arrival {
    pub(super) session: u64,
    /// CLOCK_BOOTTIME in nanoseconds.
    pub(super) boot: u64,
    /// How long the agent's current operation has been running.
    pub(super) stalled: Duration,
    /// The lease that the answer told.
    pub(super) granted: Duration,
    /// The lease that the agent keeps to, if it says so.
    pub(super) kept: Option<Duration>,
    /// The outcome of the probe that is requested; what else a node says is dropped.
    pub(super) probed: Option<ProbeOutcome>,
}

/// What the driver collects in each turn.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PresenceUpdate {
    pub(super) gap: Duration,
    pub(super) arrivals: Vec<(NodeId, Arrival)>,
}

// === impl Presence ===

impl Presence {
    /// Records a heartbeat and returns the lease, and the probe that the answer requests; `None`
    /// when only the scheduler can determine what is wrong with the session.
    pub(crate) fn heard(
        &self,
        node: NodeId,
        heartbeat: &Heartbeat,
        boot: u64,
    ) -> Option<NodeLease> {
        let (session, kept) = (heartbeat.session, heartbeat.lease());
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let held = known.get(&node).copied().filter(|held| held.session == session)?;
        let stalled = Duration::from_millis(heartbeat.stalled_millis);
        let is_wanted = |outcome: &&ProbeOutcome| held.probe == Some(outcome.probe);
        let probed = heartbeat.probed.as_ref().filter(is_wanted).cloned();
        let granted = held.lease;
        let arrival = Arrival { session, boot, stalled, granted, kept, probed };
        self.notes().arrivals.insert(node, arrival);
        Some(held)
    }

    /// Records that the listener is running.
    pub(crate) fn tick(&self, boot: u64) {
        let mut notes = self.notes();
        notes.gap = notes.take_gap(boot);
        notes.ticked = Some(boot);
        notes.reported = Duration::ZERO;
    }

    /// Takes everything recorded since the last call.
    pub(super) fn take(&self, boot: u64) -> PresenceUpdate {
        let mut notes = self.notes();
        // The driver may wake up before the listener does.
        let gap = notes.take_gap(boot);
        notes.gap = Duration::ZERO;
        PresenceUpdate { gap, arrivals: notes.arrivals.drain().collect() }
    }

    /// No session is known: heartbeats go to the driver until sessions are published again.
    pub(crate) fn clear(&self) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Publishes the lease that each of these nodes holds, or that it holds none.
    pub(super) fn publish(&self, leases: impl IntoIterator<Item = (NodeId, Option<NodeLease>)>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for (node, held) in leases {
            match held {
                Some(held) => drop(known.insert(node, held)),
                None => drop(known.remove(&node)),
            }
        }
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Notes ===

impl Notes {
    /// Takes the unreported time, including the current delay of the next tick.
    fn take_gap(&mut self, boot: u64) -> Duration {
        let Some(ticked) = self.ticked else { return self.gap };
        let late = Duration::from_nanos(boot.saturating_sub(ticked)).saturating_sub(TICK);
        if late <= LATE {
            return self.gap;
        }
        let unreported = late.saturating_sub(self.reported);
        self.reported = late;
        self.gap + unreported
    }
}

#[cfg(test)]
mod tests {
    use api_types::quantity::Capacity;
    use uuid::Uuid;

    use super::*;

    const MS: u64 = 1_000_000;

    fn node() -> NodeId {
        NodeId::from_uuid(Uuid::from_u128(1))
    }

    #[test]
    fn a_heartbeat_is_noted_only_under_the_session_that_is_known() {
        let presence = Presence::default();
        let outcome = |probe| Some(ProbeOutcome { probe, failure: None });
        let heard = |session, boot, probed| {
            let heartbeat = Heartbeat {
                session,
                used_capacity: Capacity::default(),
                running_executions: 0,
                enqueued_executions: 0,
                stalled_millis: 0,
                lease_seconds: 30,
                probed,
            };
            presence.heard(node(), &heartbeat, boot)
        };
        assert_eq!(heard(1, 5, None), None);
        let lease = Duration::from_secs(10);
        let held = NodeLease { session: 1, lease, probe: Some(3) };
        presence.publish([(node(), Some(held))]);
        assert_eq!(heard(2, 6, None), None);
        assert_eq!(heard(1, 7, outcome(2)), Some(held), "the answer requests the probe");
        assert_eq!(presence.take(7).arrivals[0].1.probed, None, "no such probe is requested");
        assert_eq!(heard(1, 8, outcome(3)), Some(held));
        let kept = Some(Duration::from_secs(30));
        let arrival = Arrival {
            session: 1,
            boot: 8,
            stalled: Duration::ZERO,
            granted: lease,
            kept,
            probed: outcome(3),
        };
        let arrivals = vec![(node(), arrival)];
        assert_eq!(presence.take(9), PresenceUpdate { gap: Duration::ZERO, arrivals });
        assert_eq!(presence.take(9), PresenceUpdate::default());
        presence.publish([(node(), None)]);
        assert_eq!(heard(1, 9, None), None);
    }

    #[test]
    fn a_pause_of_the_listener_is_reported_once_in_any_order_of_wake_ups() {
        let presence = Presence::default();
        presence.tick(0);
        assert_eq!(presence.take(500 * MS).gap, Duration::ZERO, "an ordinary load");
        // The driver wakes first.
        assert_eq!(presence.take(3_100 * MS).gap, Duration::from_secs(3));
        assert_eq!(presence.take(3_200 * MS).gap, Duration::from_millis(100));
        presence.tick(3_300 * MS);
        assert_eq!(presence.take(3_300 * MS).gap, Duration::from_millis(100));
        // The listener wakes first.
        presence.tick(5_400 * MS);
        assert_eq!(presence.take(5_500 * MS).gap, Duration::from_secs(2));
        assert_eq!(presence.take(5_600 * MS).gap, Duration::ZERO);
    }
}
