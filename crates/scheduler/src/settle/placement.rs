//! Placement: which slot goes to which node, and when nodes and queues are scanned.

use alloc::sync::Arc;

use api_types::{JobId, NodeId};

use crate::plan::Plan;
use crate::queue::search::{Position, Search};
use crate::rank::{ClassId, Rank, Waiter};
use crate::settle::leftover::{Backlog, Settle};
use crate::settle::{group, notice, reservation};
use crate::state::job::Slot;
use crate::state::node::LiveNode;
use crate::state::{State, executions, gate, holders};
use crate::time::Moment;
use crate::timer::Timer;
use crate::turn::Turn;

/// A slot that a node could take, with its rank among all waiting slots.
struct Candidate {
    rank: Rank,
    slot: Ready,
}

/// Identifies a slot of a job.
enum Ready {
    /// A slot that is bound to this node.
    Pinned(u32),
    /// The next ready slot in this class.
    Next(ClassId),
}

// === Placement ===

/// Places the job's ready slots, or queues the job in its class.
///
/// Costs O(log n) per placed slot. A search that finds no node scans every node of the pool
/// once and marks the class as blocked, so that it is not repeated before a node gains room.
pub(crate) fn place_job(
    settle: &mut Settle,
    state: &mut State,
    turn: &mut Turn<'_>,
    id: JobId,
    class_id: ClassId,
) {
    let Some(job) = state.jobs.get(&id) else { return };
    if state.queue.find_class(class_id).is_none() {
        return;
    }
    let job_plan = job.plan.clone();
    let rank = job_plan.rank;
    if !job.has_ready_slot(class_id) {
        state.queue.stop_waiting(class_id, rank);
        return;
    }
    let class = state.queue.class(class_id);
    if class.blocked || class.postponed || state.queue.is_held(class_id) {
        // There is no room, the class is in the backlog, or a group or quota holds it.
        state.queue.class_mut(class_id).unsaid |= class.postponed;
        state.queue.wait(class_id, rank);
        return;
    }
    if let Some(holder) = state.queue.lacking(class_id) {
        state.queue.wait(class_id, rank);
        group::hold_waiting(settle, state, turn, class_id, holder);
        return;
    }
    if backlog_precedes(settle, state, rank, class_id) {
        state.queue.wait(class_id, rank);
        state.queue.class_mut(class_id).unsaid = true;
        postpone_class(settle, state, class_id);
        return;
    }
    if state.queue.class(class_id).waiting.iter().any(|other| *other != rank) {
        // Several jobs became ready with one event.
        state.queue.wait(class_id, rank);
        place_class(settle, state, turn, class_id);
        return;
    }
    while state.jobs[&id].has_ready_slot(class_id) {
        if let Some(holder) = state.queue.lacking(class_id) {
            state.queue.wait(class_id, rank);
            group::hold_waiting(settle, state, turn, class_id, holder);
            return;
        }
        if turn.budget.is_spent() {
            state.queue.wait(class_id, rank);
            state.queue.class_mut(class_id).unsaid = true;
            postpone_class(settle, state, class_id);
            return;
        }
        let Some(node) = choose_node(state, class_id, &job_plan, turn.now) else {
            state.queue.wait(class_id, rank);
            state.queue.class_mut(class_id).blocked = true;
            return;
        };
        place_next(state, turn, id, class_id, node);
    }
}

fn place_next(state: &mut State, turn: &mut Turn<'_>, id: JobId, class: ClassId, node: NodeId) {
    let job = state.jobs.get_mut(&id).expect("only live jobs are placed");
    let slot = job.take_ready_slot(class, &mut turn.out.changes).expect("the job has a ready slot");
    state.queue.quotas.unqueued(&job.plan.namespace, 1);
    state.timers.cancel(Timer::Exclusion(id, slot.index));
    place_slot(state, turn, id, slot, node);
    let job = &state.jobs[&id];
    let rank = job.plan.rank;
    if !job.has_ready_slot(class) {
        state.queue.stop_waiting(class, rank);
    }
    reservation::reserved_work_placed(state, Waiter::Class(class), rank);
    state.leave_empty_classes(id);
}

fn place_slot(state: &mut State, turn: &mut Turn<'_>, id: JobId, slot: Slot, node: NodeId) {
    turn.budget.spend();
    executions::occupy(state, turn, id, slot, node);
    // The next placement on this node depends on it.
    reservation::review_reservation(state, turn, node);
}

/// Places waiting slots on a node that has room, by priority, then age.
pub(crate) fn fill_node(
    settle: &mut Settle,
    state: &mut State,
    turn: &mut Turn<'_>,
    node_id: NodeId,
) {
    fill_node_after(settle, state, turn, node_id, None);
}

/// The same, where it had no room for anything of the pools up to this one.
pub(crate) fn fill_node_after(
    settle: &mut Settle,
    state: &mut State,
    turn: &mut Turn<'_>,
    node_id: NodeId,
    mut after: Option<Position>,
) {
    loop {
        if turn.budget.is_spent() {
            settle.backlog.nodes.insert(node_id, after);
            return;
        }
        let (candidate, passed) = best_candidate(state, node_id, turn.now, after);
        turn.budget.spend_many(passed.steps);
        after = passed.until;
        let Some(candidate) = candidate else {
            if passed.is_all {
                return;
            }
            continue;
        };
        let id = candidate.rank.job;
        match candidate.slot {
            Ready::Pinned(index) => place_pinned(state, turn, id, index, node_id),
            Ready::Next(class) => place_next(state, turn, id, class, node_id),
        }
        state.marks.jobs.push(id);
    }
}

fn place_pinned(state: &mut State, turn: &mut Turn<'_>, id: JobId, index: u32, node_id: NodeId) {
    let rank = state.jobs[&id].plan.rank;
    let slot = state.take_pinned(turn, id, index, node_id);
    place_slot(state, turn, id, slot, node_id);
    reservation::reserved_work_placed(state, Waiter::Pinned(node_id), rank);
}

/// Places slots of the job on the nodes for which they wait, until as many executions are live as
/// it allows. Whatever else waits for these nodes has been offered their room before.
pub(crate) fn offer_pinned(
    settle: &mut Settle,
    state: &mut State,
    turn: &mut Turn<'_>,
    id: JobId,
    mut after: Option<u32>,
) {
    /// Nodes that are checked in the time that one placement takes.
    const CHECKED: usize = 32;
    let mut checked = 0;
    settle.backlog.offers.remove(&id);
    while let Some(job) = state.jobs.get(&id).filter(|job| !gate::lacks(state, job)) {
        if turn.budget.is_spent() {
            let namespace = Arc::clone(&job.plan.namespace);
            state.marks.quotas.push(namespace);
            settle.backlog.offers.insert(id, after);
            return;
        }
        let Some(class) = job.class() else { break };
        let Some((index, node_id)) = job.extras.pending().next_pinned(after) else { break };
        after = Some(index);
        checked += 1;
        if checked % CHECKED == 0 {
            turn.budget.spend();
        }
        let demand = &state.queue.class(class).demand;
        let takes_it =
            |node: &LiveNode| node.takes_work() && node.takes_now(demand, &job.plan, turn.now);
        let is_postponed = settle.backlog.nodes.contains_key(&node_id);
        if !is_postponed && state.nodes.get(&node_id).is_some_and(takes_it) {
            place_pinned(state, turn, id, index, node_id);
        }
    }
    gate::offered(state, id);
    state.marks.jobs.push(id);
    holders::follow(state, id);
    // Where a quota was removed, the next entry is opened as well.
    if let Some(job) = state.jobs.get(&id) {
        state.marks.quotas.push(Arc::clone(&job.plan.namespace));
    }
}

/// Places the jobs of a class, the first in rank first, until those of a class in the backlog come
/// first.
pub(crate) fn place_class(
    settle: &mut Settle,
    state: &mut State,
    turn: &mut Turn<'_>,
    class_id: ClassId,
) {
    loop {
        // Its last job may have ended since the class entered the backlog.
        let Some(class) = state.queue.find_class(class_id) else { return };
        if state.queue.is_held(class_id) {
            return;
        }
        let Some(rank) = class.waiting.first().copied().filter(|_| !class.blocked) else {
            return;
        };
        if let Some(holder) = state.queue.lacking(class_id) {
            group::hold_waiting(settle, state, turn, class_id, holder);
            return;
        }
        if group::quota_precedes(settle, state, class_id, rank) {
            return;
        }
        let is_next = settle.backlog.classes.first().is_none_or(|(next, _)| rank <= *next);
        if turn.budget.is_spent() || !is_next {
            postpone_class(settle, state, class_id);
            return;
        }
        let plan = state.jobs[&rank.job].plan.clone();
        match choose_node(state, class_id, &plan, turn.now) {
            Some(node) => {
                place_next(state, turn, rank.job, class_id, node);
                state.marks.jobs.push(rank.job);
            }
            None => {
                let class = state.queue.class_mut(class_id);
                class.blocked = true;
                class.restored = false;
                class.unsaid = false;
                if !core::mem::take(&mut class.annotated) {
                    notice::refresh_waiting(settle, state, turn, class_id, None);
                }
                return;
            }
        }
    }
}

// === What fits ===

/// The emptiest node that has room, is not excluded, and is not reserved for others.
fn choose_node(state: &State, class_id: ClassId, plan: &Plan, now: Moment) -> Option<NodeId> {
    let class = state.queue.class(class_id);
    let mut nodes = state.queue.nodes_of(class.pool).filter(|node| class.admits(*node));
    nodes.find(|node| state.nodes[node].takes_now(&class.demand, plan, now))
}

/// The first of all waiting slots that this node has room for, and how far the search came.
fn best_candidate(
    state: &State,
    node_id: NodeId,
    now: Moment,
    after: Option<Position>,
) -> (Option<Candidate>, Search) {
    let node = state.nodes.get(&node_id).filter(|node| node.takes_work());
    let Some((node, bit)) = node.and_then(|node| Some((node, node.bit()?))) else {
        return (None, Search::over());
    };
    let pinned = node
        .pinned()
        .iter()
        .find(|(rank, _)| {
            let Some(job) = state.jobs.get(&rank.job) else { return false };
            if gate::lacks(state, job) {
                return false;
            }
            let Some(class) = job.class().map(|class| state.queue.class(class)) else {
                return false;
            };
            node.takes_now(&class.demand, &job.plan, now)
        })
        .map(|(rank, index)| Candidate { rank: *rank, slot: Ready::Pinned(*index) });
    let limits = node.limits();
    let admits = |rank: Rank, class: ClassId| {
        if state.queue.lacking(class).is_some() {
            return false;
        }
        let class = state.queue.class(class);
        let plan = &state.jobs[&rank.job].plan;
        // A class that has not looked for room yet comes to that later, in the order of ranks.
        if !class.blocked && state.queue.quotas.precedes(&plan.namespace, rank) {
            return false;
        }
        class.admits(node_id) && node.takes_now(&class.demand, plan, now)
    };
    let search = state.queue.first_for(bit, &limits, after, admits);
    let waiting = search.found.map(|(rank, class)| Candidate { rank, slot: Ready::Next(class) });
    let first = match (pinned, waiting) {
        (Some(pinned), Some(waiting)) if waiting.rank < pinned.rank => Some(waiting),
        (Some(pinned), _) => Some(pinned),
        (None, waiting) => waiting,
    };
    (first, search)
}

/// The jobs of the class are placed when their turn comes.
pub(crate) fn postpone_class(settle: &mut Settle, state: &mut State, id: ClassId) {
    let first = state.queue.find_class(id).and_then(|class| class.waiting.first().copied());
    if let Some(rank) = first {
        state.queue.class_mut(id).postponed = true;
        settle.backlog.classes.insert((rank, id));
    }
}

/// Whether the backlog holds room for jobs that come before this one: they wait for the same
/// kind of node, whatever they require of it and in any namespace.
///
/// Without a backlog, a job waits only because no node has room for it.
pub(crate) fn backlog_precedes(settle: &Settle, state: &State, rank: Rank, id: ClassId) -> bool {
    /// Entries to examine; with more that come first, the job waits for all of them.
    const EXAMINED: usize = 16;
    let Backlog { nodes, classes, .. } = &settle.backlog;
    if nodes.is_empty() && classes.is_empty() {
        return false;
    }
    let pool = state.queue.class(id).pool;
    let first_waits = || state.queue.pool(pool).heads.best().is_some_and(|best| best < rank);
    let is_of_pool = |other: &ClassId| {
        *other != id && state.queue.find_class(*other).is_some_and(|other| other.pool == pool)
    };
    let mut before = classes.range(..(rank, ClassId::default())).map(|(_, class)| class);
    (!nodes.is_empty() && first_waits())
        || before.by_ref().take(EXAMINED).any(is_of_pool)
        || before.next().is_some()
}
