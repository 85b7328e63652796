//! Changes of nodes, with their rows, indexes and history.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use api_types::history::NodeStateType;
use api_types::node::{Connection, Eligibility};
use api_types::protocol::SessionRequest;
use api_types::{ExecutionId, NodeId};

use crate::change::{EventRow, EventSubject};
use crate::node_event::Standing;
use crate::rank::Waiter;
use crate::reservation::{Forecast, Reservation};
use crate::state::history::Transition;
use crate::state::node::LiveNode;
use crate::state::{State, history, idle};
use crate::text::Text;
use crate::time::Moment;
use crate::timer::Timer;
use crate::turn::Turn;

impl State {
    /// What messages call a node.
    pub(crate) fn called(&self, id: NodeId) -> String {
        let name = self.nodes.get(&id).map(|node| node.row.record.name.as_str());
        name.filter(|name| !name.is_empty()).map_or_else(|| id.short(), ToOwned::to_owned)
    }

    pub(crate) fn executions_on(&self, id: NodeId) -> Vec<ExecutionId> {
        self.nodes.get(&id).map_or_else(Vec::new, |node| node.executions.iter().copied().collect())
    }

    /// Stores the node's current record and updates its pools.
    pub(crate) fn store_node(&mut self, turn: &mut Turn<'_>, id: NodeId) {
        self.note_node(turn, id);
        self.follow_node(id);
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.is_edited = false;
        idle::stored(node);
        self.touched.insert(id);
        self.fleet_changes += 1;
        turn.out.changes.nodes.insert(id, Some(node.row.clone()));
        self.marks.reservations.push(id);
    }

    /// Updates the pools after a change of a node.
    pub(crate) fn follow_node(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let was_compared = core::mem::replace(&mut node.is_compared, true);
        if !was_compared && let Some(former) = node.bit.take() {
            self.queue.release_bit(former);
        }
        let have_needs_changed = self.queue.quotas.set_defaults(id, Some(&node.defaults));
        self.queue.set_capacity(id, node.is_in_service().then_some(&node.capacity));
        let bit = *node.bit.get_or_insert_with(|| self.queue.assign_bit(id));
        self.queue.list(bit, node.takes_work().then(|| node.present_load()));
        if !was_compared && let Some(after) = self.queue.compare(bit, &node.row.record, None) {
            self.marks.comparisons.push((id, after));
        }
        if have_needs_changed {
            self.follow_quotas();
        }
    }

    /// What tasks take of a node that leave it to the node is more now, or less.
    fn follow_quotas(&mut self) {
        for namespace in self.queue.quotas.limited() {
            self.marks.quotas.push(Arc::clone(namespace));
        }
    }

    /// Stores the node's current record, and marks the node for the work that it may take.
    pub(crate) fn node_changed(&mut self, turn: &mut Turn<'_>, id: NodeId) {
        self.store_node(turn, id);
        self.marks.covers.push(id);
    }

    /// Appends what has changed since the last event of the node.
    pub(crate) fn note_node(&mut self, turn: &mut Turn<'_>, id: NodeId) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let (before, after) = (node.row.history.standing, Standing::from_node(node));
        if before == after {
            return;
        }
        node.row.history.standing = after;
        let (node, held_until) = (&self.nodes[&id], self.silence.mass.held_until());
        let steps = [
            history::connection_change(node, &before, &after, turn, held_until),
            history::membership_change(node, &before, &after),
        ];
        let [begun, ended] = history::eligibility_changes(node, &before, &after);
        let health = history::health_change(node, &before, &after, turn);
        for step in steps.into_iter().chain([begun, ended, health]).flatten() {
            self.append(turn, id, step);
        }
    }

    /// The last execution of a draining node may have ended.
    pub(crate) fn note_drained(&mut self, turn: &mut Turn<'_>, id: NodeId) {
        let drains = |node: &LiveNode| node.row.eligibility == Eligibility::Draining;
        if self.nodes.get(&id).is_some_and(|node| drains(node) && node.executions.is_empty()) {
            self.store_node(turn, id);
        }
    }

    /// Disconnected => Unknown. Call before the node is removed.
    pub(crate) fn note_forgotten(&mut self, turn: &mut Turn<'_>, id: NodeId) {
        let Some(node) = self.nodes.get(&id) else { return };
        let away = node.row.silent_since.map_or(Duration::ZERO, |since| turn.now.since(since));
        let comment = if away >= self.settings.node_retention {
            format!("forgotten after it was away for {} s", away.as_secs()).into()
        } else {
            Text::Constant("forgotten by an operator")
        };
        let previous = node.row.history.standing.connection;
        self.append(turn, id, Transition { previous, new: NodeStateType::Unknown, comment });
    }

    pub(crate) fn append(&mut self, turn: &mut Turn<'_>, id: NodeId, step: Transition) {
        let seq = self.next_seq();
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let history = &mut node.row.history;
        history.revision += 1;
        history.last_event_time = history.last_event_time.max(turn.wall);
        let Transition { previous, new, comment } = step;
        turn.out.changes.events.push(EventRow {
            seq,
            time: history.last_event_time,
            revision: history.revision,
            comment,
            subject: EventSubject::Node { node: id, previous, new },
        });
    }

    /// Connected => Disconnected. The node is to be stored.
    pub(crate) fn disconnect(&mut self, id: NodeId, now: Moment) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let since = node.heard_at;
        let row = node.edit();
        row.connection = Connection::Disconnected;
        row.health.fell_silent(now);
        row.silent_since = Some(since);
        self.silence.nodes.insert((since, id));
        self.timers.set(now + self.settings.node_retention, Timer::Retention(id));
    }

    /// The node is silent no longer, and is to be stored. Returns whether it was.
    pub(crate) fn end_silence(&mut self, id: NodeId) -> bool {
        let Some(node) = self.nodes.get_mut(&id) else { return false };
        let Some(since) = node.row.silent_since.take() else { return false };
        node.edit().is_forgotten = false;
        self.silence.nodes.remove(&(since, id));
        self.timers.cancel(Timer::GiveUp(id));
        self.timers.cancel(Timer::Retention(id));
        true
    }

    /// Stores that an operator forgot the node. It is no event yet.
    pub(crate) fn note_to_forget(&mut self, turn: &mut Turn<'_>, id: NodeId) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.row.is_forgotten = true;
        idle::stored(node);
        turn.out.changes.nodes.insert(id, Some(node.row.clone()));
    }

    /// Adds a node that was loaded from the store.
    pub(crate) fn restore_node(&mut self, node: LiveNode) {
        let id = node.id();
        if let Some(since) = node.row.silent_since {
            self.silence.nodes.insert((since, id));
        }
        self.nodes.insert(id, node);
        self.touched.insert(id);
    }

    /// Gives the node this record until it joins again; nothing else of it changes.
    pub(crate) fn rename_node(&mut self, id: NodeId, record: Arc<SessionRequest>) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.row.record = record;
        }
    }

    /// Removes a node on which nothing is left, with its indexes and timers.
    pub(crate) fn remove_node(&mut self, turn: &mut Turn<'_>, id: NodeId) {
        // A daemon covers the node again when it rejoins.
        for job in &self.daemons {
            let job = self.jobs.get_mut(job);
            if let Some(extra) = job.and_then(|job| job.extras.existing()) {
                extra.covered.remove(&id);
            }
        }
        self.note_forgotten(turn, id);
        if let Some(node) = self.nodes.remove(&id) {
            if let Some(since) = node.row.silent_since {
                self.silence.nodes.remove(&(since, id));
            }
            if let Some(bit) = node.bit {
                self.queue.release_bit(bit);
            }
        }
        self.queue.set_capacity(id, None);
        if self.queue.quotas.set_defaults(id, None) {
            self.follow_quotas();
        }
        self.marks.pinned.push(id);
        self.doubted.remove(&id);
        for timer in [
            Timer::GiveUp(id),
            Timer::Lease(id),
            Timer::DrainDeadline(id),
            Timer::Retention(id),
            Timer::Health(id),
            Timer::Probe(id),
        ] {
            self.timers.cancel(timer);
        }
        self.touched.insert(id);
        self.fleet_changes += 1;
        turn.out.changes.nodes.insert(id, None);
    }

    /// Keeps the node free for the work of a queue.
    pub(crate) fn set_reservation(&mut self, id: NodeId, reservation: Reservation, until: Moment) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        self.reservations.insert(reservation.waiter, reservation.rank, id);
        self.timers.set(until, Timer::Reservation(id));
        node.reservation = Some(reservation);
        self.touched.insert(id);
    }

    /// The node is kept free no longer: others may have what it has room for.
    pub(crate) fn take_reservation(&mut self, id: NodeId) -> Option<Reservation> {
        let reservation = self.nodes.get_mut(&id)?.reservation.take()?;
        self.timers.cancel(Timer::Reservation(id));
        self.reservations.remove(reservation.waiter, reservation.rank);
        self.touched.insert(id);
        self.marks.nodes.push(id);
        Some(reservation)
    }

    /// The work for which the node is kept free waits in this queue now.
    pub(crate) fn move_reservation(&mut self, id: NodeId, to: Waiter) {
        let reservation = self.nodes.get_mut(&id).and_then(|node| node.reservation.as_mut());
        let Some(reservation) = reservation else { return };
        let from = core::mem::replace(&mut reservation.waiter, to);
        self.reservations.remove(from, reservation.rank);
        self.reservations.insert(to, reservation.rank, id);
    }

    /// When the node is expected to have room for the work for which it is kept free.
    pub(crate) fn forecast(&mut self, id: NodeId, room: Forecast) {
        if let Some(reservation) =
            self.nodes.get_mut(&id).and_then(|node| node.reservation.as_mut())
        {
            reservation.room = room;
        }
    }
}
