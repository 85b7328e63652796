//! Invariants of the state between any two inputs.
//!
//! Tests and the simulator check them after every step; a violation is a bug in the scheduler,
//! never the effect of bad input.

mod conditions;
mod counterparts;
mod groups;
mod quotas;
mod shares;

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use api_types::execution::{ComputeState, DesiredState};
use api_types::node::Connection;
use api_types::quantity::Resources;

use crate::health::Health;
use crate::occupancy::occupies;
use crate::rank::Waiter;
use crate::rules::patience;
use crate::scheduler::Scheduler;
use crate::settle::leftover::Starving;
use crate::settle::reservation;
use crate::state::job::LiveJob;
use crate::state::node::LiveNode;
use crate::state::{State, gate, history, idle};
use crate::timer::Timer;

/// Panics with a description when the state contradicts itself.
pub fn check(scheduler: &Scheduler) {
    check_marks(scheduler);
    check_nodes(scheduler);
    check_jobs(scheduler);
    check_gates(scheduler);
    groups::check(scheduler);
    conditions::check(scheduler);
    counterparts::check(scheduler);
    quotas::check(scheduler);
    shares::check(scheduler);
    check_classes(scheduler);
    check_queue(scheduler);
    check_reservations(&scheduler.state, &scheduler.settle.starving);
}

/// Panics when more is placed on a node than fits. This holds as long as no node rejoins with less
/// capacity than is already reserved on it.
pub fn check_capacity(scheduler: &Scheduler) {
    for (id, node) in &scheduler.state.nodes {
        assert!(
            node.used().fits_in(node.capacity()),
            "node {id} has {} and was given {}",
            node.capacity(),
            node.used()
        );
    }
}

/// Every mark of an event is settled before the next input; the rest is in the backlog.
fn check_marks(scheduler: &Scheduler) {
    assert!(scheduler.state.marks.is_empty(), "an event left marks: {:?}", scheduler.state.marks);
    let classes = &scheduler.state.queue.changed;
    assert!(classes.is_empty(), "an event left queues that changed: {classes:?}");
}

fn check_nodes(scheduler: &Scheduler) {
    for (id, node) in &scheduler.state.nodes {
        let mut used = Resources::ZERO;
        let mut unending = Resources::ZERO;
        let mut running = 0;
        let mut occupants = 0;
        for execution in node.executions() {
            let row = scheduler
                .state
                .executions
                .get(execution)
                .unwrap_or_else(|| panic!("node {id} holds {execution}, which is not live"));
            assert_eq!(row.node, *id, "execution {execution} is held by another node");
            assert!(!row.compute.is_terminal(), "execution {execution} is over and still held");
            used = used.plus(&row.held());
            let job_type = scheduler.state.jobs[&row.job].plan.job_type;
            occupants += u64::from(occupies(job_type));
            if !job_type.is_finite() {
                unending = unending.plus(&row.held());
            }
            running += u64::from(row.compute == ComputeState::BidAccepted);
        }
        assert_eq!(*node.used(), used, "what node {id} holds is not what was debited");
        assert_eq!(*node.unending(), unending, "what services and daemons have of node {id}");
        assert_eq!(node.running(), running, "node {id} miscounts what it runs");
        let load = node.takes_work().then(|| node.present_load());
        assert_eq!(
            node.bit().and_then(|bit| scheduler.state.queue.load_of(bit)),
            load,
            "the load of node {id} is out of date"
        );
        assert_eq!(
            node.row().connection == api_types::node::Connection::Disconnected,
            node.row().silent_since.is_some(),
            "node {id} is silent without a beginning, or connected and silent"
        );
        history::check(node);
        idle::check(node, occupants);
        assert!(!node.is_edited(), "what changed of node {id} is not stored");
        check_health(&scheduler.state, node);
        assert!(
            !patience::waits_without_timer(&scheduler.state, *id),
            "something on the silent node {id} would never be given up"
        );
        let unheld =
            node.pinned().iter().filter(|(rank, _)| !gate::is_held(&scheduler.state, rank.job));
        assert!(unheld.eq(node.unheld()), "node {id} does not know what waits for room there");
        for (rank, index) in node.pinned() {
            let job = &scheduler.state.jobs[&rank.job];
            let slot = job.extras.pending().get(*index).expect("a pinned slot is pending");
            assert_eq!(slot.pinned, Some(*id), "slot {index} of {} is pinned elsewhere", rank.job);
            assert_eq!(slot.due, None, "slot {index} of {} is not ready", rank.job);
        }
    }
}

/// Panics when more executions of a job are live than it allows, when one that it allows waits
/// although the node of its slot has room, or when what it says of that is out of date.
fn check_gates(scheduler: &Scheduler) {
    let Scheduler { state, settle } = scheduler;
    let mut gated = BTreeMap::new();
    for (id, job) in state.jobs.iter() {
        let (live, most) = (job.executions().len(), job.extras.max_running());
        assert!(most == 0 || live <= most as usize, "{live} executions of job {id} are live");
        let gate = job.extras.gate().map(|gate| gate.gate_type);
        if let Some(gate) = gate {
            *gated.entry(gate).or_default() += 1;
        }
        let is_held = job.is_at_limit() && job.has_slot_to_place() && !job.is_terminal();
        assert!(!is_held || gate.is_some(), "job {id} does not say that it is at its limit");
        if gate::lacks(state, job) || job.is_terminal() {
            continue;
        }
        let is_offering = settle.backlog.offers.contains_key(id);
        assert_eq!(job.extras.is_offering(), is_offering, "job {id} is not offered to its nodes");
        let may_be_held = most > 0 || !job.extras.groups().is_empty();
        let Some(class) = job.class().filter(|_| may_be_held && !is_offering) else { continue };
        let demand = &state.queue.class(class).demand;
        let mut after = None;
        while let Some((index, node)) = job.extras.pending().next_pinned(after) {
            after = Some(index);
            let takes_it = state.nodes.get(&node).is_some_and(|node| {
                node.takes_work() && node.takes_now(demand, &job.plan, state.clock)
            });
            let is_postponed = settle.backlog.nodes.contains_key(&node);
            assert!(!takes_it || is_postponed, "slot {index} of {id} waits, and {node} has room");
        }
    }
    let counted = state.gated.iter().filter(|(_, jobs)| **jobs > 0);
    let counted: BTreeMap<_, _> = counted.map(|(gate, jobs)| (*gate, *jobs)).collect();
    assert_eq!(counted, gated, "jobs at a gate");
}

fn check_jobs(scheduler: &Scheduler) {
    let mut held = 0;
    for (id, job) in scheduler.state.jobs.iter() {
        held += job.executions().len();
        let mut running = 0;
        let mut indices: Vec<u32> = job.extras.pending().iter().map(|slot| slot.index).collect();
        for execution in job.executions() {
            let row = &scheduler.state.executions[execution];
            assert_eq!(row.job, *id, "execution {execution} belongs to another job");
            assert!(
                !job.is_terminal()
                    || row.desired == DesiredState::Stopped
                    || scheduler.settle.backlog.stops.contains_key(id),
                "job {id} is over and execution {execution} is still wanted"
            );
            indices.push(row.index);
            running += u32::from(row.compute == ComputeState::BidAccepted);
        }
        assert_eq!(job.row().running, running, "job {id} miscounts what it runs");
        assert!(running == 0 || job.row().start_time.is_some(), "job {id} runs and never started");
        assert!(
            !job.is_terminal() || !job.executions().is_empty(),
            "job {id} is over and still live"
        );
        assert_eq!(
            job.class().is_none(),
            job.is_terminal() || scheduler.settle.backlog.damaged.contains_key(id),
            "job {id} is in a class or over"
        );
        for execution in &job.extras.unproven {
            let row = scheduler.state.executions.get(execution).expect("an unproven run is live");
            let has_begun = row.started_at.is_some();
            let is_awaited = scheduler.state.timers.is_set(Timer::GoodRun(*execution));
            assert_eq!(has_begun, is_awaited, "nothing ends the trial of {execution}");
        }
        let slots = indices.len();
        indices.sort_unstable();
        indices.dedup();
        assert_eq!(indices.len(), slots, "a slot of job {id} is taken twice");
        for index in &indices {
            assert!(job.row().slots.contains(*index), "job {id} has no slot {index}");
        }
        assert!(
            job.counterparts().is_some()
                || indices.last().is_none_or(|last| *last < job.row().fresh),
            "job {id} has a slot that was never handed out"
        );
        check_outcomes(job, slots);
    }
    assert_eq!(held, scheduler.state.executions.len(), "an execution belongs to no live job");
    let mut namespaces = BTreeMap::new();
    for job in scheduler.state.jobs.values() {
        *namespaces.entry(Arc::clone(&job.plan.namespace)).or_default() += 1;
    }
    assert_eq!(scheduler.state.namespaces.counts(), &namespaces, "live jobs of each namespace");
}

/// Completed, failed, waiting and live slots add up; `open` are those that wait or run and were
/// tried.
fn check_outcomes(job: &LiveJob, open: usize) {
    let (id, row) = (job.row().id, job.row());
    if row.slots.len() > 1 {
        let tally = job.extras.outcomes.tally(&row.slots);
        let known = (tally.completed, tally.failed);
        assert_eq!(known, (row.completed, row.failed_slots), "outcomes of job {id} are lost");
    }
    if !job.is_terminal() && job.plan.job_type.is_finite() {
        let known = u64::try_from(open).unwrap_or(u64::MAX)
            + u64::from(row.completed)
            + u64::from(row.failed_slots)
            + u64::from(job.untried_slots());
        assert_eq!(known, u64::from(row.slots.len()), "job {id} lost a slot");
    }
}

fn check_classes(scheduler: &Scheduler) {
    for (id, class) in scheduler.state.queue.classes() {
        for rank in &class.waiting {
            let job =
                scheduler.state.jobs.get(&rank.job).unwrap_or_else(|| panic!("{} waits", rank.job));
            assert!(job.classes().contains(id), "job {} waits in a class of others", rank.job);
            assert!(job.has_ready_slot(*id), "job {} waits for nothing", rank.job);
        }
        assert_eq!(
            scheduler.state.queue.is_waiting(*id),
            !class.waiting.is_empty(),
            "a class is not listed as it waits"
        );
        assert!(
            class.waiting.is_empty()
                || class.blocked
                || class.postponed
                || scheduler.state.queue.is_held(*id),
            "jobs wait in class {id:?}, for nothing"
        );
        if class.blocked && scheduler.state.queue.lacking(*id).is_none() {
            assert!(!class.waiting.is_empty(), "a class is blocked in which no job waits");
            for node in scheduler.state.queue.nodes_of(class.pool) {
                assert!(
                    scheduler.settle.backlog.nodes.contains_key(&node)
                        || !class.admits(node)
                        || scheduler.state.nodes[&node].reservation().is_some()
                        || scheduler.state.nodes[&node].row().health.avoided().is_some()
                        || !scheduler.state.nodes[&node].has_room(&class.demand),
                    "jobs wait although node {node} has room"
                );
            }
        }
    }
}

fn check_queue(scheduler: &Scheduler) {
    for job in scheduler.state.jobs.values() {
        for class in job.classes() {
            assert_eq!(
                job.has_ready_slot(class),
                scheduler.state.queue.class(class).waiting.contains(&job.plan.rank),
                "job {} and its queue disagree on whether it waits",
                job.row().id
            );
        }
        let waiting = job.extras.ready().len()
            + job.extras.secondary().values().map(|slots| slots.len()).sum::<usize>();
        let ready =
            job.extras.pending().iter().filter(|slot| slot.due.is_none() && slot.pinned.is_none());
        assert_eq!(ready.count(), waiting, "a slot of job {} is in no queue", job.row().id);
    }
    for (id, pool) in scheduler.state.queue.pools() {
        for (node_id, node) in &scheduler.state.nodes {
            let is_member = node.bit().is_some_and(|bit| pool.members.contains(bit));
            let will_be = scheduler.settle.backlog.comparisons.contains_key(node_id);
            assert!(
                is_member == pool.suits(&node.row().record) || (will_be && !is_member),
                "pool {id:?} and node {node_id} disagree"
            );
        }
        let listed: Vec<_> = scheduler.state.queue.nodes_of(*id).collect();
        let mut fits: Vec<_> =
            scheduler.state.nodes.values().filter(|node| node.fits(pool)).collect();
        fits.retain(|node| node.bit().is_some_and(|bit| pool.members.contains(bit)));
        fits.sort_by_key(|node| (node.present_load(), node.id()));
        assert!(
            listed.iter().copied().eq(fits.iter().map(|node| node.id())),
            "pool {id:?} lists other nodes than it has"
        );
        let best = pool.heads.best();
        assert_eq!(scheduler.state.queue.best_of(*id), best, "pool {id:?} is out of order");
    }
    assert_eq!(
        scheduler.state.queue.nodes(),
        scheduler.state.nodes.len(),
        "a node that is gone has a bit"
    );
}

/// Panics when nothing would end the trouble of a connected node.
pub(crate) fn check_health(state: &State, node: &LiveNode) {
    let id = node.id();
    let is_set = state.timers.is_set(Timer::Health(id));
    let is_connected = node.row().connection == Connection::Connected;
    match node.row().health {
        Health::BackingOff { .. } if is_connected => {
            assert!(is_set, "node {id} backs off for ever");
        }
        Health::Asked { .. } => {
            assert!(is_connected, "node {id} is asked, and silent");
            assert!(is_set, "the answer of node {id} is waited for without end");
            assert!(node.can_be_asked(), "node {id} does not know the question");
        }
        Health::Probing { .. } => {
            assert!(!node.can_be_asked(), "node {id} would have been asked");
        }
        Health::Well | Health::Recovered { .. } | Health::BackingOff { .. } => {}
    }
    let lasts =
        matches!(node.row().health, Health::BackingOff { until, .. } if until > state.clock);
    let is_doubted = lasts && node.row().health.accuser().is_some();
    assert!(!is_doubted || state.doubted.contains(&id), "no namespace would clear node {id}");
}

/// Panics when a reservation contradicts the queues or the nodes.
fn check_reservations(state: &State, starving: &Starving) {
    let held = &state.reservations;
    assert_eq!(held.nodes.len(), held.ranks.len(), "a reservation is listed once");
    for (waiter, id) in &held.nodes {
        let reservation = state.nodes.get(id).and_then(|node| node.reservation());
        let reservation = reservation.unwrap_or_else(|| panic!("{id} is not reserved"));
        assert_eq!(reservation.waiter, *waiter, "{id} is reserved for others");
        assert!(held.ranks.contains(&(reservation.rank, *waiter)), "{id} has another rank");
        assert!(
            reservation::still_waits(state, *waiter, *id),
            "{id} is reserved for what does not wait"
        );
        assert!(state.timers.is_set(Timer::Reservation(*id)), "{id} is reserved for ever");
    }
    for (waiter, head) in &starving.heads {
        let first = match waiter {
            Waiter::Class(id) => {
                state.queue.find_class(*id).and_then(|class| class.waiting.first().copied())
            }
            Waiter::Pinned(id) => {
                let slots = state.nodes.get(id).map(LiveNode::unheld);
                slots.and_then(|slots| slots.first()).map(|(rank, _)| *rank)
            }
        };
        assert_eq!(first, Some(head.rank), "{waiter:?} has another head");
    }
    let reserved = state.nodes.values().filter(|node| node.reservation().is_some()).count();
    assert_eq!(reserved, held.nodes.len(), "a reservation is not listed");
}
