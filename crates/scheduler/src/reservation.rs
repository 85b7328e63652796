//! Nodes that are kept free for work that has waited for too long.
//!
//! Without them a large job waits for ever behind small ones that never stop coming, because each
//! freed core is assigned before a second one is free. The first job of a queue, once it has
//! waited for [`Settings::starvation`](crate::Settings::starvation), has one node reserved for it:
//! work of a lower rank is kept off that node, unless it fits beside the reserved work or ends
//! before there is room for it.
//!
//! Costs: a round every [`ROUND`] while something starves, of at most [`MAX_INSPECTED`] nodes and
//! executions; a placement on a reserved node, or the end of an execution there, inspects the
//! node's executions.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;
use core::ops::Bound;
use core::time::Duration;

use api_types::quantity::Resources;
use api_types::{JobId, NodeId, Timestamp};

use crate::job::LiveJob;
use crate::node::LiveNode;
use crate::plan::Plan;
use crate::pool::{ClassId, Rank};
use crate::text::Text;
use crate::time::Moment;
use crate::timer::Timer;
use crate::{Scheduler, Turn};

mod reads;
mod search;

use search::{Forecast, OVERHEAD, Search};

/// How long a node stays reserved for the same work; then another node has its turn, because what
/// runs on this one may never end.
pub(crate) const LONGEST: Duration = Duration::from_secs(600);

/// A job has come to the head of its queue this long before a node is reserved for it: in a queue
/// that moves, nobody starves.
const SETTLED: Duration = Duration::from_secs(5);

/// Time between two rounds of reserving.
const ROUND: Duration = Duration::from_secs(1);

/// One of this many nodes may be reserved, and one at least: utilisation stays above nine tenths.
const NODES_PER_RESERVATION: usize = 10;

/// Nodes and executions that one round inspects, well below a millisecond.
const MAX_INSPECTED: usize = 4096;

/// Why a reservation ends for another one.
const OUTRANKED: &str = "work of a higher rank starves";

/// Those who wait in one queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Waiter {
    /// The jobs of a class.
    Class(ClassId),
    /// The slots that may run on this node only.
    Pinned(NodeId),
}

/// For whom a node is kept free.
#[derive(Debug, Clone)]
pub(crate) struct Reservation {
    waiter: Waiter,
    pub(crate) rank: Rank,
    need: Resources,
    /// Wall time, for people.
    pub(crate) since: Timestamp,
    room: Forecast,
}

/// The first of those who wait in one queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head {
    rank: Rank,
    /// It has waited for too long; until then a timer runs.
    starves: bool,
}

/// Who starves, and what is reserved.
#[derive(Debug, Default)]
pub(crate) struct Reservations {
    /// The head of every queue in which something waits.
    heads: BTreeMap<Waiter, Head>,
    /// Those that have waited for too long, in the order in which rounds consider them.
    starving: BTreeSet<(Rank, Waiter)>,
    /// The node that is reserved for each queue.
    nodes: BTreeMap<Waiter, NodeId>,
    /// The same by rank: a higher rank may take the place of the lowest.
    ranks: BTreeSet<(Rank, Waiter)>,
    /// Where the next round continues, if the last one reached its bound.
    cursor: Option<(Rank, Waiter)>,
    /// Nodes whose pinned slots changed since the last input.
    pub(crate) repinned: Vec<NodeId>,
}

// === impl Reservation ===

impl Reservation {
    /// Whether other work is kept off the node.
    fn keeps_off(
        &self,
        rank: Rank,
        need: &Resources,
        longest_run: Option<Duration>,
        now: Moment,
    ) -> bool {
        if rank <= self.rank || need.fits_in(&self.room.spare) {
            return false;
        }
        let ends = longest_run.map(|longest| now + longest + OVERHEAD);
        !matches!((ends, self.room.at), (Some(ends), Some(at)) if ends <= at)
    }
}

// === impl Reservations ===

impl Reservations {
    pub(crate) fn count(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn node_of(&self, waiter: Waiter) -> Option<NodeId> {
        self.nodes.get(&waiter).copied()
    }

    /// The next head that starves, in the order in which rounds consider them.
    fn next(&self) -> Option<(Rank, Waiter)> {
        let after = self.cursor.map_or(Bound::Unbounded, Bound::Excluded);
        self.starving.range((after, Bound::Unbounded)).next().copied()
    }

    fn insert(&mut self, waiter: Waiter, rank: Rank, node: NodeId) {
        self.nodes.insert(waiter, node);
        self.ranks.insert((rank, waiter));
    }

    fn remove(&mut self, waiter: Waiter, rank: Rank) {
        self.nodes.remove(&waiter);
        self.ranks.remove(&(rank, waiter));
    }
}

// === impl Scheduler: who starves ===

impl Scheduler {
    /// Follows the heads of the queues that the last input changed, and ends the reservations of
    /// those that do not wait any more.
    pub(crate) fn follow_queues(&mut self, turn: &mut Turn<'_>) {
        for id in self.queue.take_changed() {
            let class = self.queue.find_class(id);
            let head = class.and_then(|class| class.waiting.first().copied());
            self.follow_head(turn, Waiter::Class(id), head);
        }
        for id in core::mem::take(&mut self.reservations.repinned) {
            let head = self.nodes.get(&id).and_then(|node| node.pinned.first());
            let head = head.map(|(rank, _)| *rank);
            self.follow_head(turn, Waiter::Pinned(id), head);
        }
    }

    fn follow_head(&mut self, turn: &mut Turn<'_>, waiter: Waiter, head: Option<Rank>) {
        if let Some(node) = self.reservations.node_of(waiter)
            && !self.still_waits(waiter, node)
        {
            self.end_reservation(turn, node, "it does not wait for room any more");
        }
        let before = self.reservations.heads.get(&waiter).copied();
        if before.map(|before| before.rank) == head {
            return;
        }
        if let Some(before) = before {
            self.reservations.heads.remove(&waiter);
            self.reservations.starving.remove(&(before.rank, waiter));
            self.timers.cancel(Timer::Starvation(waiter));
        }
        let (Some(rank), Some(starvation)) = (head, self.settings.starvation) else { return };
        let since = self.jobs.get(&rank.job).and_then(|job| job.row.waiting_since);
        let due = (since.unwrap_or(turn.now) + starvation).max(turn.now + SETTLED);
        self.reservations.heads.insert(waiter, Head { rank, starves: false });
        self.timers.set(due, Timer::Starvation(waiter));
    }

    /// Whether the work for which the node is reserved still waits in its queue.
    fn still_waits(&self, waiter: Waiter, node: NodeId) -> bool {
        let reservation = self.nodes.get(&node).and_then(|node| node.reservation.as_ref());
        let Some(rank) = reservation.map(|reservation| reservation.rank) else { return false };
        match waiter {
            Waiter::Class(id) => {
                self.queue.find_class(id).is_some_and(|class| class.waiting.contains(&rank))
            }
            Waiter::Pinned(id) => {
                self.nodes.get(&id).is_some_and(|node| node.pins(rank).next().is_some())
            }
        }
    }

    /// The head of a queue has waited for too long.
    pub(crate) fn starvation_due(&mut self, turn: &Turn<'_>, waiter: Waiter) {
        let Some(head) = self.reservations.heads.get_mut(&waiter) else { return };
        head.starves = true;
        self.reservations.starving.insert((head.rank, waiter));
        if !self.timers.is_set(Timer::Reserve) {
            self.timers.set(turn.now, Timer::Reserve);
        }
    }

    /// Reserves nodes for those that starve, the first in rank first.
    pub(crate) fn reserve_due(&mut self, turn: &mut Turn<'_>) {
        let mut left = MAX_INSPECTED;
        loop {
            let Some((rank, waiter)) = self.reservations.next() else {
                self.reservations.cursor = None;
                break;
            };
            if left == 0 {
                break;
            }
            if !self.may_reserve(rank) {
                self.reservations.cursor = None;
                break;
            }
            left = left.saturating_sub(self.reserve_for(turn, waiter, rank, None));
            self.reservations.cursor = Some((rank, waiter));
        }
        if !self.reservations.starving.is_empty() {
            self.timers.set(turn.now + ROUND, Timer::Reserve);
        }
    }

    /// A part of the nodes that are there; at least one.
    fn most_reservations(&self) -> usize {
        let present = self.nodes.len().saturating_sub(self.silence.nodes.len());
        (present / NODES_PER_RESERVATION).max(1)
    }

    /// Whether work of this rank may have a node, if need be that of the lowest rank that has one.
    fn may_reserve(&self, rank: Rank) -> bool {
        let most = self.most_reservations();
        self.reservations.count() < most
            || self.reservations.ranks.last().is_some_and(|(lowest, _)| rank < *lowest)
    }

    /// Reserves the node that has room first; returns how many nodes and executions it inspected.
    fn reserve_for(
        &mut self,
        turn: &mut Turn<'_>,
        waiter: Waiter,
        rank: Rank,
        avoided: Option<NodeId>,
    ) -> usize {
        if let Some(node) = self.reservations.node_of(waiter) {
            let held = self.nodes.get(&node).and_then(|node| node.reservation.as_ref());
            if held.is_none_or(|held| held.rank <= rank) {
                return 1;
            }
            // It was reserved for another one of the queue before this one came.
            self.end_reservation(turn, node, OUTRANKED);
        }
        let Search { found, inspected } = self.find_reservable(turn.now, waiter, rank, avoided);
        if let Some(node) = found {
            self.end_reservation(turn, node, OUTRANKED);
            let most = self.most_reservations();
            if self.reservations.count() >= most
                && let Some((_, lowest)) = self.reservations.ranks.last().copied()
                && let Some(other) = self.reservations.node_of(lowest)
            {
                self.end_reservation(turn, other, OUTRANKED);
            }
            self.reserve(turn, node, waiter, rank);
        }
        inspected
    }
}

// === impl Scheduler: the life of a reservation ===

impl Scheduler {
    fn reserve(&mut self, turn: &mut Turn<'_>, id: NodeId, waiter: Waiter, rank: Rank) {
        let Some(class) = self.class_of(waiter, rank) else { return };
        let need = self.queue.class(class).demand.need;
        let Some(node) = self.nodes.get(&id) else { return };
        let need = need.on(&node.defaults);
        let room = self.foresee(node, &need, turn.now);
        let since = turn.wall;
        self.reservations.insert(waiter, rank, id);
        self.timers.set(turn.now + LONGEST, Timer::Reservation(id));
        let comment = format!("{} is reserved for it, because it waits for too long", id.short());
        if let Some(node) = self.nodes.get_mut(&id) {
            node.reservation = Some(Reservation { waiter, rank, need, since, room });
        }
        self.touched.insert(id);
        self.note_reservation(turn, rank.job, comment.into());
    }

    /// The node is reserved no longer: others may have what it has room for.
    pub(crate) fn end_reservation(&mut self, turn: &mut Turn<'_>, id: NodeId, why: &str) {
        let Some(Reservation { waiter, rank, .. }) = self.take_reservation(id) else { return };
        self.reservations.remove(waiter, rank);
        let comment = format!("{} is not reserved for it any more: {why}", id.short());
        self.note_reservation(turn, rank.job, comment.into());
    }

    /// Something of the queue was placed: its node is reserved no longer, wherever that was.
    pub(crate) fn reserved_work_placed(&mut self, waiter: Waiter, rank: Rank) {
        let Some(node) = self.reservations.node_of(waiter) else { return };
        let reservation = self.nodes.get(&node).and_then(|node| node.reservation.as_ref());
        if reservation.is_some_and(|reservation| reservation.rank == rank) {
            self.take_reservation(node);
            self.reservations.remove(waiter, rank);
        }
    }

    /// The reserved work left this queue, maybe for another one, where it waits as long.
    pub(crate) fn reserved_work_moved(&mut self, from: ClassId, rank: Rank) {
        let from = Waiter::Class(from);
        let Some(id) = self.reservations.node_of(from) else { return };
        let classes = self.jobs.get(&rank.job).map(LiveJob::classes).unwrap_or_default();
        let to = classes.into_iter().find(|class| {
            let queue = self.queue.class(*class);
            let is_reserved = self.reservations.node_of(Waiter::Class(*class)).is_some();
            queue.waiting.contains(&rank) && queue.admits(id) && !is_reserved
        });
        let Some(to) = to.map(Waiter::Class).filter(|_| !self.still_waits(from, id)) else {
            return;
        };
        let reservation = self.nodes.get_mut(&id).and_then(|node| node.reservation.as_mut());
        if let Some(reservation) = reservation.filter(|reservation| reservation.rank == rank) {
            reservation.waiter = to;
            self.reservations.remove(from, rank);
            self.reservations.insert(to, rank, id);
        }
    }

    fn take_reservation(&mut self, id: NodeId) -> Option<Reservation> {
        self.timers.cancel(Timer::Reservation(id));
        let reservation = self.nodes.get_mut(&id)?.reservation.take()?;
        self.touched.insert(id);
        self.backlog.nodes.insert(id, None);
        Some(reservation)
    }

    /// The node was reserved for as long as may be; another one has its turn, if there is one.
    pub(crate) fn reservation_due(&mut self, turn: &mut Turn<'_>, id: NodeId) {
        let reservation = self.nodes.get(&id).and_then(|node| node.reservation.as_ref());
        let Some((waiter, rank)) = reservation.map(|held| (held.waiter, held.rank)) else { return };
        self.end_reservation(turn, id, "it was reserved for ten minutes without success");
        self.reserve_for(turn, waiter, rank, Some(id));
    }

    /// What the node has or is changed: it stays reserved only if the work could still run there.
    pub(crate) fn review_reservation(&mut self, turn: &mut Turn<'_>, id: NodeId) {
        let Some(node) = self.nodes.get(&id) else { return };
        let Some(Reservation { waiter, rank, need, .. }) = &node.reservation else { return };
        let (waiter, rank, need) = (*waiter, *rank, *need);
        let class = self.class_of(waiter, rank).map(|class| self.queue.class(class));
        let fits = class.is_some_and(|class| self.queue.pool(class.pool).fits(node));
        if !fits || !node.can_be_emptied_for(&need) {
            self.end_reservation(turn, id, "it cannot run there any more");
            return;
        }
        let room = self.foresee(node, &need, turn.now);
        if let Some(reservation) =
            self.nodes.get_mut(&id).and_then(|node| node.reservation.as_mut())
        {
            reservation.room = room;
        }
    }

    fn note_reservation(&mut self, turn: &mut Turn<'_>, id: JobId, comment: Text) {
        let Some(job) = self.jobs.get(&id).filter(|job| !job.is_terminal()) else { return };
        let state = job.row.state;
        self.note_job(turn, id, state, comment);
    }
}

// === impl LiveNode ===

impl LiveNode {
    /// Whether the node is reserved for work of a higher rank, which this work would delay.
    pub(crate) fn keeps_off(&self, plan: &Plan, need: &Resources, now: Moment) -> bool {
        let Some(reservation) = &self.reservation else { return false };
        reservation.keeps_off(plan.rank, need, plan.longest_run(), now)
    }
}
