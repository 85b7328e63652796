//! What must hold of the state between any two inputs.
//!
//! Tests and the simulator check after every step; a violation is a bug in the engine, never in
//! what came from outside.

use api_types::execution::{ComputeState, DesiredState};
use api_types::quantity::Resources;

use super::Engine;

/// Panics with a sentence when the state contradicts itself.
pub fn check(engine: &Engine) {
    check_nodes(engine);
    check_jobs(engine);
    check_queue(engine);
}

/// Panics when more was placed on a node than it has. This holds as long as no node rejoins with
/// less capacity than what it was given before.
pub fn check_capacity(engine: &Engine) {
    for (id, node) in &engine.nodes {
        assert!(
            node.used.fits_in(&node.capacity),
            "node {id} has {} and was given {}",
            node.capacity,
            node.used
        );
    }
}

fn check_nodes(engine: &Engine) {
    for (id, node) in &engine.nodes {
        let mut used = Resources::ZERO;
        let mut running = 0;
        for execution in &node.executions {
            let row = engine
                .executions
                .get(execution)
                .unwrap_or_else(|| panic!("node {id} holds {execution}, which is not live"));
            assert_eq!(row.node, *id, "execution {execution} is held by another node");
            assert!(!row.compute.is_terminal(), "execution {execution} is over and still held");
            used = used.plus(&row.resources);
            running += u64::from(row.compute == ComputeState::BidAccepted);
        }
        assert_eq!(node.used, used, "what node {id} holds is not what was debited");
        assert_eq!(node.running, running, "node {id} miscounts what it runs");
        assert_eq!(node.load, node.present_load(), "the load of node {id} is out of date");
        assert!(
            node.row.connection == api_types::node::Connection::Connected
                || node.executions.is_empty(),
            "node {id} is disconnected and holds executions"
        );
        for (rank, index) in &node.pinned {
            let job = &engine.jobs[&rank.job];
            let slot = &job.pending[index];
            assert_eq!(slot.pinned, Some(*id), "slot {index} of {} is pinned elsewhere", rank.job);
            assert_eq!(slot.due, None, "slot {index} of {} is not ready", rank.job);
        }
    }
}

fn check_jobs(engine: &Engine) {
    let mut held = 0;
    for (id, job) in &engine.jobs {
        held += job.executions.len();
        let mut indices: Vec<u32> = job.pending.keys().copied().collect();
        for execution in &job.executions {
            let row = &engine.executions[execution];
            assert_eq!(row.job, *id, "execution {execution} belongs to another job");
            assert!(
                !job.is_terminal() || row.desired == DesiredState::Stopped,
                "job {id} is over and execution {execution} is still wanted"
            );
            indices.push(row.index);
        }
        assert!(
            !job.is_terminal() || !job.executions.is_empty(),
            "job {id} is over and still live"
        );
        assert_eq!(job.class.is_none(), job.is_terminal(), "job {id} is in a class or over");
        let slots = indices.len();
        indices.sort_unstable();
        indices.dedup();
        assert_eq!(indices.len(), slots, "a slot of job {id} is taken twice");
        assert!(
            indices.last().is_none_or(|last| *last < job.row.fresh),
            "job {id} has a slot that was never handed out"
        );
        if !job.is_terminal() && job.plan.job_type == api_types::job::JobType::Batch {
            let known = u64::try_from(slots).unwrap_or(u64::MAX)
                + u64::from(job.row.completed)
                + u64::from(job.row.slots - job.row.fresh);
            assert_eq!(known, u64::from(job.row.slots), "job {id} lost a slot");
        }
    }
    assert_eq!(held, engine.executions.len(), "an execution belongs to no live job");
}

fn check_queue(engine: &Engine) {
    for (id, class) in engine.queue.classes() {
        for rank in &class.waiting {
            let job = engine.jobs.get(&rank.job).unwrap_or_else(|| panic!("{} waits", rank.job));
            assert_eq!(job.class, Some(*id), "job {} waits in a class of others", rank.job);
            assert!(job.has_ready_slot(), "job {} waits for nothing", rank.job);
        }
        assert_eq!(
            engine.queue.is_waiting(*id),
            !class.waiting.is_empty(),
            "a class is not listed as it waits"
        );
        if class.blocked {
            assert!(!class.waiting.is_empty(), "a class is blocked in which no job waits");
            for (_, node) in &engine.queue.pool(class.pool).nodes {
                assert!(
                    engine.backlog.nodes.contains(node)
                        || !engine.nodes[node].has_room(&class.demand),
                    "jobs wait although node {node} has room"
                );
            }
        }
    }
    for job in engine.jobs.values() {
        if let Some(class) = job.class {
            assert_eq!(
                job.has_ready_slot(),
                engine.queue.class(class).waiting.contains(&job.plan.rank),
                "job {} and its queue disagree on whether it waits",
                job.id()
            );
        }
    }
    for (id, pool) in engine.queue.pools() {
        for (node_id, node) in &engine.nodes {
            let listed = pool.nodes.contains(&(node.load, *node_id));
            assert_eq!(listed, pool.fits(node), "pool {id:?} and node {node_id} disagree");
            assert_eq!(listed, node.pools.contains(id), "node {node_id} misses its pools");
        }
        assert!(
            pool.nodes.iter().all(|(_, node)| engine.nodes.contains_key(node)),
            "pool {id:?} lists a node that is gone"
        );
    }
}
