//! Nodes that are kept free for work that has waited for too long.
//!
//! Without them a large job waits for ever behind small ones that never stop coming, because each
//! freed core is assigned before a second one is free. The first job of a queue, once it has
//! waited for [`Settings::starvation`](crate::settings::Settings::starvation), has one node reserved for it:
//! work of a lower rank is kept off that node, unless it fits next to the reserved work or ends
//! before there is room for it.
//!
//! Costs: a round every second while something starves, of at most [`MAX_INSPECTED`] nodes and
//! executions; a placement on a reserved node, or the end of an execution there, inspects the
//! node's executions.

pub(crate) mod search;
pub(crate) mod starving;

use alloc::format;
use core::time::Duration;

use api_types::{JobId, NodeId};

use crate::rank::{Rank, Waiter};
use crate::reservation::Reservation;
use crate::settle::reservation::search::Search;
use crate::state::job::LiveJob;
use crate::state::node::LiveNode;
use crate::state::{State, gate};
use crate::text::Text;
use crate::turn::Turn;

/// How long a node stays reserved for the same work; then another node has its turn, because what
/// runs on this one may never end.
pub(crate) const LONGEST: Duration = Duration::from_secs(600);

/// One of this many nodes may be reserved, and one at least: utilisation stays above nine tenths.
const NODES_PER_RESERVATION: usize = 10;

/// Nodes and executions that one round inspects, well below a millisecond.
pub(crate) const MAX_INSPECTED: usize = 4096;

/// Why a reservation ends for another one.
const OUTRANKED: &str = "work of a higher rank starves";

// === Who starves ===

/// A queue in which something changed who waits, and its first entry.
pub(crate) fn next_changed_queue(state: &mut State) -> Option<(Waiter, Option<Rank>)> {
    if let Some(id) = state.queue.changed.pop() {
        return Some((Waiter::Class(id), state.queue.first_of(id)));
    }
    let id = state.marks.pinned.pop()?;
    let head = state.nodes.get(&id).and_then(|node| node.unheld().first());
    Some((Waiter::Pinned(id), head.map(|(rank, _)| *rank)))
}

/// Whether the work for which the node is reserved still waits in its queue.
pub(crate) fn still_waits(state: &State, waiter: Waiter, node: NodeId) -> bool {
    let reservation = state.nodes.get(&node).and_then(|node| node.reservation());
    let Some(rank) = reservation.map(|reservation| reservation.rank) else { return false };
    match waiter {
        Waiter::Class(id) => {
            let class = state.queue.find_class(id).filter(|_| !state.queue.is_held(id));
            class.is_some_and(|class| class.waiting.contains(&rank))
        }
        Waiter::Pinned(id) => {
            let is_pinned = |node: &LiveNode| node.pins(rank).next().is_some();
            state.nodes.get(&id).is_some_and(is_pinned) && !gate::is_held(state, rank.job)
        }
    }
}

/// A part of the nodes that are there; at least one.
fn most_reservations(state: &State) -> usize {
    let present = state.nodes.len().saturating_sub(state.silence.nodes.len());
    (present / NODES_PER_RESERVATION).max(1)
}

/// Whether work of this rank may have a node, if need be that of the lowest rank that has one.
pub(crate) fn may_reserve(state: &State, rank: Rank) -> bool {
    let most = most_reservations(state);
    state.reservations.count() < most
        || state.reservations.ranks.last().is_some_and(|(lowest, _)| rank < *lowest)
}

/// Reserves the node that has room first; returns how many nodes and executions it inspected.
pub(crate) fn reserve_for(
    state: &mut State,
    turn: &mut Turn<'_>,
    waiter: Waiter,
    rank: Rank,
    avoided: Option<NodeId>,
) -> usize {
    if let Some(node) = state.reservations.node_of(waiter) {
        let held = state.nodes.get(&node).and_then(|node| node.reservation());
        if held.is_none_or(|held| held.rank <= rank) {
            return 1;
        }
        // It was reserved for another one of the queue before this one came.
        end_reservation(state, turn, node, OUTRANKED);
    }
    let Search { found, inspected } =
        search::find_reservable(state, turn.now, waiter, rank, avoided);
    if let Some(node) = found {
        end_reservation(state, turn, node, OUTRANKED);
        let most = most_reservations(state);
        if state.reservations.count() >= most
            && let Some((_, lowest)) = state.reservations.ranks.last().copied()
            && let Some(other) = state.reservations.node_of(lowest)
        {
            end_reservation(state, turn, other, OUTRANKED);
        }
        reserve(state, turn, node, waiter, rank);
    }
    inspected
}

// === The life of a reservation ===

fn reserve(state: &mut State, turn: &mut Turn<'_>, id: NodeId, waiter: Waiter, rank: Rank) {
    let Some(class) = search::class_of(state, waiter, rank) else { return };
    let need = state.queue.class(class).demand.need;
    let Some(node) = state.nodes.get(&id) else { return };
    let need = need.on(node.defaults());
    let room = search::foresee(state, node, &need, turn.now);
    let since = turn.wall;
    let comment = format!("{} is reserved for it, because it waits for too long", state.called(id));
    let reservation = Reservation { waiter, rank, need, since, room };
    state.set_reservation(id, reservation, turn.now + LONGEST);
    note_reservation(state, turn, rank.job, comment.into());
}

/// The node is reserved no longer: others may have what it has room for.
pub(crate) fn end_reservation(state: &mut State, turn: &mut Turn<'_>, id: NodeId, why: &str) {
    let Some(Reservation { rank, .. }) = state.take_reservation(id) else { return };
    let comment = format!("{} is not reserved for it any more: {why}", state.called(id));
    note_reservation(state, turn, rank.job, comment.into());
}

/// Something of the queue was placed: its node is reserved no longer, wherever that was.
pub(crate) fn reserved_work_placed(state: &mut State, waiter: Waiter, rank: Rank) {
    let Some(node) = state.reservations.node_of(waiter) else { return };
    let reservation = state.nodes.get(&node).and_then(|node| node.reservation());
    if reservation.is_some_and(|reservation| reservation.rank == rank) {
        state.take_reservation(node);
    }
}

/// The work for which the node is reserved left this queue. Where it waits in another one, the
/// reservation moves there; returns whether it did.
pub(crate) fn reserved_work_moved(state: &mut State, from: Waiter, id: NodeId) -> bool {
    let Waiter::Class(_) = from else { return false };
    let reservation = state.nodes.get(&id).and_then(|node| node.reservation());
    let Some(rank) = reservation.map(|reservation| reservation.rank) else { return false };
    let classes = state.jobs.get(&rank.job).map(LiveJob::classes).unwrap_or_default();
    let to = classes.into_iter().find(|class| {
        let queue = state.queue.class(*class);
        let is_reserved = state.reservations.node_of(Waiter::Class(*class)).is_some();
        let waits = queue.waiting.contains(&rank) && !state.queue.is_held(*class);
        waits && queue.admits(id) && !is_reserved
    });
    let Some(to) = to.map(Waiter::Class) else { return false };
    state.move_reservation(id, to);
    true
}

/// The node was reserved for as long as may be; another one has its turn, if there is one.
pub(crate) fn reservation_due(state: &mut State, turn: &mut Turn<'_>, id: NodeId) {
    let reservation = state.nodes.get(&id).and_then(|node| node.reservation());
    let Some((waiter, rank)) = reservation.map(|held| (held.waiter, held.rank)) else { return };
    end_reservation(state, turn, id, "it was reserved for ten minutes without success");
    reserve_for(state, turn, waiter, rank, Some(id));
}

/// What the node has or is changed: it stays reserved only if the work could still run there.
pub(crate) fn review_reservation(state: &mut State, turn: &mut Turn<'_>, id: NodeId) {
    let Some(node) = state.nodes.get(&id) else { return };
    let Some(Reservation { waiter, rank, need, .. }) = node.reservation() else { return };
    let (waiter, rank, need) = (*waiter, *rank, *need);
    let class = search::class_of(state, waiter, rank).map(|class| state.queue.class(class));
    let fits = class.is_some_and(|class| node.fits(state.queue.pool(class.pool)));
    if !fits || !node.can_be_emptied_for(&need) {
        end_reservation(state, turn, id, "it cannot run there any more");
        return;
    }
    let room = search::foresee(state, node, &need, turn.now);
    state.forecast(id, room);
}

fn note_reservation(state: &mut State, turn: &mut Turn<'_>, id: JobId, comment: Text) {
    let Some(job) = state.jobs.get(&id).filter(|job| !job.is_terminal()) else { return };
    let unchanged = job.row().state;
    state.note_job(turn, id, unchanged, comment);
}
