//! The slot that a node takes next: the first in order of those that it has room for.

use alloc::vec::Vec;
use core::cell::RefCell;

use api_types::NodeId;

use crate::queue::search::{Holder, Position, Search};
use crate::queue::share::Order;
use crate::rank::{ClassId, Rank};
use crate::settle::leftover::Settle;
use crate::state::node::LiveNode;
use crate::state::{State, gate};
use crate::time::Moment;
use crate::turn::Turn;

/// Slots and jobs that are visited in the time that one step takes.
const VISITED_PER_STEP: usize = 32;

/// A slot that a node could take, and when it is its turn among all waiting slots.
pub(crate) struct Candidate {
    pub(crate) order: Order,
    pub(crate) slot: Ready,
}

/// What a search for waiting work found.
pub(crate) struct Best {
    pub(crate) candidate: Option<Candidate>,
    /// How far it came.
    pub(crate) search: Search,
    /// Classes that it came upon that may not be placed. Without them, it may find another candidate.
    pub(crate) refused: Vec<(ClassId, Holder)>,
}

/// Identifies a slot of a job.
pub(crate) enum Ready {
    /// A slot that is bound to this node.
    Pinned(u32),
    /// The next ready slot in this class.
    Next(ClassId),
}

/// The first of all waiting slots that this node has room for, and how far the search came.
///
/// `opened` has the [slots of jobs](opened_slots) that may not know yet that their gate is open.
pub(crate) fn best_candidate(
    state: &State,
    node_id: NodeId,
    now: Moment,
    after: Option<Position>,
    opened: &[(Rank, u32)],
) -> Best {
    /// With more, the search is over: it begins anew without them.
    const MOST_REFUSED: usize = 64;
    let node = state.nodes.get(&node_id).filter(|node| node.takes_work());
    let Some((node, bit)) = node.and_then(|node| Some((node, node.bit()?))) else {
        return Best { candidate: None, search: Search::over(), refused: Vec::new() };
    };
    let limits = node.limits();
    let refused = RefCell::new(Vec::new());
    let admits = |rank: Rank, id: ClassId| {
        let mut refused = refused.borrow_mut();
        if refused.len() == MOST_REFUSED {
            return true;
        }
        if let Some(holder) = refuses(state, rank, id) {
            refused.push((id, holder));
            return false;
        }
        let class = state.queue.class(id);
        class.admits(node_id) && node.takes_now(&class.demand, &state.jobs[&rank.job].plan, now)
    };
    let mut search = state.queue.first_for(bit, &limits, after, admits);
    if let Some(oldest) = search.found {
        let (found, steps) = state.queue.fairest(bit, &limits, oldest, admits);
        search.found = Some(found);
        search.steps += steps;
    }
    let waiting = search.found.map(|(rank, class)| {
        let order = state.queue.order(&state.queue.class(class).namespace, rank);
        Candidate { order, slot: Ready::Next(class) }
    });
    let (pinned, visited) = first_pinned(state, node, now, opened);
    search.steps += visited / VISITED_PER_STEP;
    let candidate = match (pinned, waiting) {
        (Some(pinned), Some(waiting)) if waiting.order < pinned.order => Some(waiting),
        (Some(pinned), _) => Some(pinned),
        (None, waiting) => waiting,
    };
    Best { candidate, search, refused: refused.into_inner() }
}

/// What has to hold the class, of which this is the first job, although it is open.
fn refuses(state: &State, rank: Rank, id: ClassId) -> Option<Holder> {
    state.queue.lacking(id).or_else(|| {
        let class = state.queue.class(id);
        // A class that no search for a node has placed yet gets its own search, in the order of ranks.
        let precedes = !class.blocked && state.queue.quotas.precedes(&class.namespace, rank);
        precedes.then_some(Holder::Quota)
    })
}

/// The first of the slots that may run on this node only and that it has room for, and how many were
/// visited.
fn first_pinned(
    state: &State,
    node: &LiveNode,
    now: Moment,
    opened: &[(Rank, u32)],
) -> (Option<Candidate>, usize) {
    /// Slots of the priority of the oldest one that are compared with it.
    const COMPARED: usize = 64;
    let order =
        |rank: Rank| Some(state.queue.order(&state.jobs.get(&rank.job)?.plan.namespace, rank));
    let takes = |rank: Rank| {
        let job = state.jobs.get(&rank.job).filter(|job| !gate::lacks(state, job));
        let class = job.and_then(|job| Some((job, state.queue.class(job.class()?))));
        class.is_some_and(|(job, class)| node.takes_now(&class.demand, &job.plan, now))
    };
    let mut visited = opened.len();
    let mut slots = node.unheld().iter().copied();
    let oldest = slots.find(|(rank, _)| {
        visited += 1;
        takes(*rank)
    });
    let is_same = |rank: Rank| oldest.is_some_and(|(oldest, _)| rank.priority == oldest.priority);
    let same = slots.take_while(|(rank, _)| is_same(*rank)).take(COMPARED);
    let opened = opened.iter().filter(|slot| node.pinned().contains(slot)).copied();
    let mut first: Option<Candidate> = None;
    for (rank, index) in oldest.into_iter().chain(same).chain(opened) {
        let precedes = |order: &Order| first.as_ref().is_none_or(|first| *order < first.order);
        if let Some(order) = order(rank).filter(|order| precedes(order) && takes(rank)) {
            first = Some(Candidate { order, slot: Ready::Pinned(index) });
        }
    }
    (first, visited)
}

/// The slots that wait for this node only and that a gate holds as far as their jobs know, although it
/// may have opened. Only jobs that are about to be offered or refreshed have any: thousands of others
/// may wait at a gate for the same node, and are not visited. While a node is filled, no gate opens.
pub(crate) fn opened_slots(
    settle: &Settle,
    state: &State,
    turn: &mut Turn<'_>,
    id: NodeId,
) -> Vec<(Rank, u32)> {
    let node = state.nodes.get(&id).filter(|node| !node.pinned().is_empty());
    let Some(node) = node.filter(|_| !turn.budget.is_spent()) else { return Vec::new() };
    let offered = state.marks.offers.iter().chain(settle.backlog.offers.keys());
    let mut jobs: Vec<_> = offered.chain(state.marks.jobs.iter()).copied().collect();
    turn.budget.spend_many(jobs.len() / VISITED_PER_STEP);
    jobs.sort_unstable();
    jobs.dedup();
    jobs.retain(|id| gate::is_held(state, *id));
    let ranks = jobs.iter().filter_map(|id| Some(state.jobs.get(id)?.plan.rank));
    ranks.flat_map(|rank| node.pins(rank)).collect()
}
