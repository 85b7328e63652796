//! What others see of reservations, and their invariants between any two inputs.

use api_types::{NodeId, Timestamp};

use super::Waiter;
use crate::Scheduler;
use crate::timer::Timer;

// === impl Scheduler: reads of reservations ===

impl Scheduler {
    /// Nodes that are kept free for work that has waited for too long.
    pub fn reserved_nodes(&self) -> impl Iterator<Item = NodeId> {
        self.reservations.nodes.values().copied()
    }

    /// The node that is reserved for the head of a queue, and since when.
    pub(crate) fn reserved_for(&self, waiter: Waiter) -> Option<(NodeId, Timestamp)> {
        let node = self.reservations.node_of(waiter)?;
        let reservation = self.nodes.get(&node)?.reservation.as_ref()?;
        Some((node, reservation.since))
    }

    /// Panics when a reservation contradicts the queues or the nodes.
    pub(crate) fn check_reservations(&self) {
        let held = &self.reservations;
        assert_eq!(held.nodes.len(), held.ranks.len(), "a reservation is listed once");
        for (waiter, id) in &held.nodes {
            let reservation = self.nodes.get(id).and_then(|node| node.reservation.as_ref());
            let reservation = reservation.unwrap_or_else(|| panic!("{id} is not reserved"));
            assert_eq!(reservation.waiter, *waiter, "{id} is reserved for others");
            assert!(held.ranks.contains(&(reservation.rank, *waiter)), "{id} has another rank");
            assert!(self.still_waits(*waiter, *id), "{id} is reserved for what does not wait");
            assert!(self.timers.is_set(Timer::Reservation(*id)), "{id} is reserved for ever");
        }
        for (waiter, head) in &held.heads {
            let first = match waiter {
                Waiter::Class(id) => {
                    self.queue.find_class(*id).and_then(|class| class.waiting.first().copied())
                }
                Waiter::Pinned(id) => {
                    let pinned = self.nodes.get(id).and_then(|node| node.pinned.first());
                    pinned.map(|(rank, _)| *rank)
                }
            };
            assert_eq!(first, Some(head.rank), "{waiter:?} has another head");
        }
        let reserved = self.nodes.values().filter(|node| node.reservation.is_some()).count();
        assert_eq!(reserved, held.nodes.len(), "a reservation is not listed");
    }
}
