//! Invariants of the state between any two inputs.
//!
//! Tests and the simulator check them after every step; a violation is a bug in the scheduler,
//! never the effect of bad input.

use alloc::vec::Vec;

use api_types::execution::{ComputeState, DesiredState};
use api_types::quantity::Resources;

use crate::{Scheduler, node_event};

/// Panics with a description when the state contradicts itself.
pub fn check(scheduler: &Scheduler) {
    check_nodes(scheduler);
    check_jobs(scheduler);
    check_queue(scheduler);
    scheduler.check_reservations();
}

/// Panics when more is placed on a node than fits. This holds as long as no node rejoins with less
/// capacity than is already reserved on it.
pub fn check_capacity(scheduler: &Scheduler) {
    for (id, node) in &scheduler.nodes {
        assert!(
            node.used.fits_in(&node.capacity),
            "node {id} has {} and was given {}",
            node.capacity,
            node.used
        );
    }
}

fn check_nodes(scheduler: &Scheduler) {
    for (id, node) in &scheduler.nodes {
        let mut used = Resources::ZERO;
        let mut unending = Resources::ZERO;
        let mut running = 0;
        for execution in &node.executions {
            let row = scheduler
                .executions
                .get(execution)
                .unwrap_or_else(|| panic!("node {id} holds {execution}, which is not live"));
            assert_eq!(row.node, *id, "execution {execution} is held by another node");
            assert!(!row.compute.is_terminal(), "execution {execution} is over and still held");
            used = used.plus(&row.held());
            if !scheduler.jobs[&row.job].plan.job_type.is_finite() {
                unending = unending.plus(&row.held());
            }
            running += u64::from(row.compute == ComputeState::BidAccepted);
        }
        assert_eq!(node.used, used, "what node {id} holds is not what was debited");
        assert_eq!(node.unending, unending, "what services and daemons have of node {id}");
        assert_eq!(node.running, running, "node {id} miscounts what it runs");
        let load = node.takes_work().then(|| node.present_load());
        assert_eq!(scheduler.queue.load_of(node), load, "the load of node {id} is out of date");
        assert_eq!(
            node.row.connection == api_types::node::Connection::Disconnected,
            node.row.silent_since.is_some(),
            "node {id} is silent without a beginning, or connected and silent"
        );
        node_event::check(node);
        assert!(
            !scheduler.waits_without_timer(*id),
            "something on the silent node {id} would never be given up"
        );
        for (rank, index) in &node.pinned {
            let job = &scheduler.jobs[&rank.job];
            let slot = job.extras.pending.get(*index).expect("a pinned slot is pending");
            assert_eq!(slot.pinned, Some(*id), "slot {index} of {} is pinned elsewhere", rank.job);
            assert_eq!(slot.due, None, "slot {index} of {} is not ready", rank.job);
        }
    }
}

fn check_jobs(scheduler: &Scheduler) {
    let mut held = 0;
    for (id, job) in scheduler.jobs.iter() {
        held += job.executions.len();
        let mut running = 0;
        let mut indices: Vec<u32> = job.extras.pending.iter().map(|slot| slot.index).collect();
        for execution in &job.executions {
            let row = &scheduler.executions[execution];
            assert_eq!(row.job, *id, "execution {execution} belongs to another job");
            assert!(
                !job.is_terminal()
                    || row.desired == DesiredState::Stopped
                    || scheduler.backlog.stops.contains_key(id),
                "job {id} is over and execution {execution} is still wanted"
            );
            indices.push(row.index);
            running += u32::from(row.compute == ComputeState::BidAccepted);
        }
        assert_eq!(job.row.running, running, "job {id} miscounts what it runs");
        assert!(running == 0 || job.row.start_time.is_some(), "job {id} runs and never started");
        assert!(
            !job.is_terminal() || !job.executions.is_empty(),
            "job {id} is over and still live"
        );
        assert_eq!(
            job.class.is_none(),
            job.is_terminal() || scheduler.backlog.damaged.contains_key(id),
            "job {id} is in a class or over"
        );
        let slots = indices.len();
        indices.sort_unstable();
        indices.dedup();
        assert_eq!(indices.len(), slots, "a slot of job {id} is taken twice");
        for index in &indices {
            assert!(job.row.slots.contains(*index), "job {id} has no slot {index}");
        }
        assert!(
            indices.last().is_none_or(|last| *last < job.row.fresh),
            "job {id} has a slot that was never handed out"
        );
        if !job.is_terminal() && job.plan.job_type == api_types::job::JobType::Batch {
            let known = u64::try_from(slots).unwrap_or(u64::MAX)
                + u64::from(job.row.completed)
                + u64::from(job.untried_slots());
            assert_eq!(known, u64::from(job.row.slots.len()), "job {id} lost a slot");
        }
    }
    assert_eq!(held, scheduler.executions.len(), "an execution belongs to no live job");
}

fn check_queue(scheduler: &Scheduler) {
    for (id, class) in scheduler.queue.classes() {
        for rank in &class.waiting {
            let job = scheduler.jobs.get(&rank.job).unwrap_or_else(|| panic!("{} waits", rank.job));
            assert!(job.classes().contains(id), "job {} waits in a class of others", rank.job);
            assert!(job.has_ready_slot(*id), "job {} waits for nothing", rank.job);
        }
        assert_eq!(
            scheduler.queue.is_waiting(*id),
            !class.waiting.is_empty(),
            "a class is not listed as it waits"
        );
        if class.blocked {
            assert!(!class.waiting.is_empty(), "a class is blocked in which no job waits");
            for node in scheduler.queue.nodes_of(class.pool) {
                assert!(
                    scheduler.backlog.nodes.contains_key(&node)
                        || !class.admits(node)
                        || scheduler.nodes[&node].reservation.is_some()
                        || !scheduler.nodes[&node].has_room(&class.demand),
                    "jobs wait although node {node} has room"
                );
            }
        }
    }
    for job in scheduler.jobs.values() {
        for class in job.classes() {
            assert_eq!(
                job.has_ready_slot(class),
                scheduler.queue.class(class).waiting.contains(&job.plan.rank),
                "job {} and its queue disagree on whether it waits",
                job.row.id
            );
        }
        let waiting = job.extras.ready.len()
            + job.extras.aside.values().map(|slots| slots.len()).sum::<usize>();
        let ready =
            job.extras.pending.iter().filter(|slot| slot.due.is_none() && slot.pinned.is_none());
        assert_eq!(ready.count(), waiting, "a slot of job {} is in no queue", job.row.id);
    }
    for (id, pool) in scheduler.queue.pools() {
        for (node_id, node) in &scheduler.nodes {
            let is_member = node.place.is_some_and(|place| pool.members.contains(place));
            let will_be = scheduler.backlog.comparisons.contains_key(node_id);
            assert!(
                is_member == pool.suits(node) || (will_be && !is_member),
                "pool {id:?} and node {node_id} disagree"
            );
        }
        let listed: Vec<_> = scheduler.queue.nodes_of(*id).collect();
        let mut fits: Vec<_> = scheduler.nodes.values().filter(|node| pool.fits(node)).collect();
        fits.retain(|node| node.place.is_some_and(|place| pool.members.contains(place)));
        fits.sort_by_key(|node| (node.present_load(), node.id()));
        assert!(
            listed.iter().copied().eq(fits.iter().map(|node| node.id())),
            "pool {id:?} lists other nodes than it has"
        );
        let best = pool.heads.best();
        assert_eq!(scheduler.queue.best_of(*id), best, "pool {id:?} is out of order");
    }
    assert_eq!(scheduler.queue.nodes(), scheduler.nodes.len(), "a node that is gone has a place");
}
