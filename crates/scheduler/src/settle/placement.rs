//! Placement: which slot goes to which node, and when nodes and queues are scanned.

use alloc::sync::Arc;

use api_types::{JobId, NodeId};

use crate::plan::Plan;
use crate::queue::search::Position;
use crate::rank::{ClassId, Rank, Waiter};
use crate::settle::candidate::{Best, Ready, best_candidate, opened_slots};
use crate::settle::leftover::Settle;
use crate::settle::{group, notice, reservation};
use crate::state::job::Slot;
use crate::state::node::LiveNode;
use crate::state::{State, executions, gate, holders};
use crate::time::Moment;
use crate::timer::Timer;
use crate::turn::Turn;

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
        group::hold_if_full(settle, state, class_id);
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
        state.queue.postpone(class_id);
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
            state.queue.postpone(class_id);
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

/// Places waiting slots on a node that has room, by priority, share of the namespace, then age.
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
    let opened = opened_slots(settle, state, turn, node_id);
    turn.budget.spend_many(state.queue.follow_capacity());
    loop {
        if turn.budget.is_spent() {
            settle.backlog.nodes.insert(node_id, after);
            return;
        }
        let Best { candidate, search, refused } =
            best_candidate(state, node_id, turn.now, after, &opened);
        turn.budget.spend_many(search.steps);
        if !refused.is_empty() {
            // Otherwise each later search would come upon them again.
            for (class, holder) in refused {
                turn.budget.spend();
                group::hold_refused(settle, state, turn, class, holder);
            }
            continue;
        }
        after = search.until;
        let Some(candidate) = candidate else {
            if search.is_all {
                return;
            }
            continue;
        };
        let id = candidate.order.rank.job;
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
        let order = || state.queue.order(&state.queue.class(class_id).namespace, rank);
        let is_next = state.queue.lanes.next_postponed().is_none_or(|next| order() <= next);
        if turn.budget.is_spent() || !is_next {
            state.queue.postpone(class_id);
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

/// Whether the backlog holds room for jobs that come before this one: they wait for the same
/// kind of node, whatever they require of it and in any namespace.
///
/// Without a backlog, a job waits only because no node has room for it.
pub(crate) fn backlog_precedes(settle: &Settle, state: &State, rank: Rank, id: ClassId) -> bool {
    /// Entries to examine; with more that come first, the job waits for all of them.
    const EXAMINED: usize = 16;
    let (nodes, lanes) = (&settle.backlog.nodes, &state.queue.lanes);
    if nodes.is_empty() && !lanes.is_any_postponed() {
        return false;
    }
    let class = state.queue.class(id);
    let pool = class.pool;
    let order = state.queue.order(&class.namespace, rank);
    let first_waits = || {
        // Where another namespace has a smaller share, this one waits for it wherever it waits.
        let is_before = |best: Rank| {
            best < rank
                || best.priority == rank.priority && lanes.has_smaller(rank.priority, order.share)
        };
        state.queue.pool(pool).heads.best().is_some_and(is_before)
    };
    let is_of_pool = |other: &ClassId| {
        *other != id && state.queue.find_class(*other).is_some_and(|other| other.pool == pool)
    };
    let mut before = lanes.postponed_before(order);
    (!nodes.is_empty() && first_waits())
        || before.by_ref().take(EXAMINED).any(|other| is_of_pool(&other))
        || before.next().is_some()
}
