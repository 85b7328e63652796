//! Shares of namespaces: whose turn it is at the same priority.

use std::time::Duration;

use api_types::execution::ComputeState;
use api_types::job::{JobSpec, JobType};
use api_types::node::NodeAction;
use api_types::{ExecutionId, JobId};
use scheduler::Entitlement;

use crate::specs::{batch, in_namespace, job, node, with_constraint, with_cpu};
use crate::world::World;

const SECOND: Duration = Duration::from_secs(1);

fn weigh(world: &mut World, namespace: &str, weight: u64) {
    world.entitle(namespace, Entitlement { weight, ..Entitlement::default() });
}

fn at(priority: u32, spec: JobSpec) -> JobSpec {
    JobSpec { priority, ..spec }
}

fn ahead(world: &World, job: JobId) -> u32 {
    world.scheduler.standing(job).expect("it is live").waits.expect("it waits").ahead.jobs
}

fn live(world: &World, jobs: &[JobId]) -> Vec<usize> {
    jobs.iter().map(|job| world.live(*job).len()).collect()
}

/// The execution that was placed first of those of these jobs.
fn oldest(world: &World, jobs: &[JobId]) -> ExecutionId {
    let live = jobs.iter().flat_map(|job| world.live(*job));
    live.min_by_key(|id| world.store.executions[id].offered_at).expect("one is live")
}

#[test]
fn a_smaller_share_comes_before_age_and_after_priority() {
    let (mut world, _) = World::with_nodes(1);
    let first = world.submit(&in_namespace("a", batch(4)));
    let old = world.submit(&in_namespace("a", batch(1)));
    let young = world.submit(&in_namespace("b", batch(1)));
    let other = world.submit(&in_namespace("c", batch(1)));
    let urgent = world.submit(&at(60, in_namespace("a", batch(1))));
    let all = [old, young, other, urgent];
    assert_eq!(all.map(|job| ahead(&world, job)), [3, 1, 2, 0]);
    for expected in [[0, 0, 0, 1], [0, 1, 0, 1], [0, 1, 1, 1], [1, 1, 1, 1]] {
        world.complete(world.live(first)[0]);
        assert_eq!(live(&world, &all), expected);
    }
}

#[test]
fn two_namespaces_with_a_backlog_share_the_cluster_by_their_weights() {
    let (mut world, _) = World::with_nodes(4);
    weigh(&mut world, "b", 3);
    let mut noop = with_cpu(batch(1), "500m");
    "100MB".clone_into(&mut noop.tasks[0].resources.memory);
    let jobs_of = |world: &mut World, namespace: &str| -> Vec<JobId> {
        world.is_checked = false;
        let jobs =
            (0..1000).map(|_| world.submit(&in_namespace(namespace, noop.clone()))).collect();
        world.is_checked = true;
        jobs
    };
    let (a, b) = (jobs_of(&mut world, "a"), jobs_of(&mut world, "b"));
    let placed = |world: &World, jobs: &[JobId]| {
        jobs.iter().filter(|job| !world.store.executions_of(**job).is_empty()).count()
    };
    assert_eq!((placed(&world, &a), placed(&world, &b)), (32, 0));
    let all: Vec<_> = a.iter().chain(&b).copied().collect();
    let mut begun = (0, 0);
    for end in 0..400 {
        if end == 50 {
            // What was placed before `b` came has ended.
            begun = (placed(&world, &a), placed(&world, &b));
        }
        if end == 200 {
            world.restart();
        }
        let ending = oldest(&world, &all);
        // What is placed later ends later.
        world.now = world.now + Duration::from_millis(1);
        world.is_checked = end % 20 == 0;
        world.complete(ending);
    }
    let [of_a, of_b] = [placed(&world, &a) - begun.0, placed(&world, &b) - begun.1];
    assert_eq!(of_a + of_b, 350);
    assert!((270..=330).contains(&(100 * of_b / of_a)), "{of_a} to {of_b}");
    assert_eq!((world.scheduler.share("a"), world.scheduler.share("b")), (250_000, 750_000));
}

#[test]
fn a_large_job_of_the_larger_share_still_gets_a_node_reserved() {
    let (mut world, nodes) = World::with_nodes(2);
    let running = world.submit(&in_namespace("a", batch(8)));
    let large = world.submit(&in_namespace("a", with_cpu(batch(1), "4")));
    let small: Vec<_> = (0..40).map(|_| world.submit(&in_namespace("b", batch(1)))).collect();
    for _ in 0..4 {
        world.complete(world.live(running)[0]);
        assert_eq!(world.live(large).len(), 0);
    }
    assert!(world.reserved().is_empty());
    for job in small.iter().chain([&running]) {
        for execution in world.live(*job) {
            world.run(execution);
        }
    }
    world.pass_with(90 * SECOND, &nodes);
    let reserved = world.reserved();
    assert_eq!(reserved.len(), 1, "the large job waits for longer than all others");
    let all: Vec<_> = small.iter().copied().chain([running]).collect();
    for _ in 0..12 {
        if world.live(large).is_empty() {
            let ending = oldest(&world, &all);
            if world.store.executions[&ending].started_at.is_none() {
                world.run(ending);
            }
            world.report(ending, ComputeState::Completed);
        }
    }
    let on = world.store.executions[&world.only_live(large)].node;
    assert_eq!(vec![on], reserved);
}

#[test]
fn what_does_not_fit_or_may_not_run_there_is_passed_over() {
    let mut world = World::new();
    let ours = world.join_node(&node(4.0, 4_000_000_000, &[("pool", "a")]));
    world.join_node(&node(64.0, 4_000_000_000, &[("pool", "b")]));
    let in_pool = |pool, spec| with_constraint(spec, "pool", pool);
    let blocks = world.submit(&in_namespace("x", in_pool("b", with_cpu(batch(1), "64"))));
    let running = world.submit(&in_namespace("a", in_pool("a", batch(4))));
    // Smaller shares, of which none fits.
    for namespace in ["c", "d"] {
        world.submit(&in_namespace(namespace, with_cpu(batch(1), "3")));
        world.submit(&in_namespace(namespace, in_pool("b", batch(1))));
    }
    let old = world.submit(&in_namespace("a", batch(1)));
    let young = world.submit(&in_namespace("y", batch(1)));
    world.complete(world.live(running)[0]);
    assert_eq!(live(&world, &[old, young]), [0, 1]);
    world.complete(world.live(running)[0]);
    assert_eq!(live(&world, &[old, young]), [1, 1]);
    assert_eq!(world.live(blocks).len(), 1);
    assert_eq!(world.on_node(ours), 4);
}

#[test]
fn what_a_turn_did_not_place_is_not_waited_for_by_a_smaller_share() {
    let mut small = with_cpu(batch(1_100), "10m");
    "6mib".clone_into(&mut small.tasks[0].resources.memory);
    let mut world = World::new();
    let only = world.join_node(&node(11.0, 10_000_000_000, &[]));
    let large = world.submit(&in_namespace("a", small.clone()));
    assert!((1..1_100).contains(&world.on_node(only)), "one turn does not place all of it");
    let other = world.submit(&in_namespace("b", JobSpec { count: 300, ..small }));
    world.pass_with(SECOND, &[only]);
    assert_eq!(live(&world, &[large, other]), [800, 300]);
}

#[test]
fn slots_that_are_bound_to_their_node_take_turns_as_well() {
    let (mut world, _) = World::with_nodes(1);
    let first = world.submit(&in_namespace("a", batch(4)));
    let mut ops = |namespace| world.submit(&in_namespace(namespace, job(JobType::Ops)));
    let (old, young) = (ops("a"), ops("b"));
    let batch = world.submit(&in_namespace("c", batch(1)));
    for expected in [[0, 1, 0], [0, 1, 1], [1, 1, 1]] {
        world.complete(world.live(first)[0]);
        assert_eq!(live(&world, &[old, young, batch]), expected);
    }
}

#[test]
fn shares_are_of_the_scarcest_resource_of_the_nodes_in_service() {
    let mut world = World::new();
    let small = world.join_node(&node(4.0, 8_000_000_000, &[]));
    let large = world.join_node(&node(12.0, 8_000_000_000, &[]));
    let mut of = |namespace: &str, cpu: &str, memory: &str| {
        let mut spec = in_namespace(namespace, with_cpu(batch(1), cpu));
        memory.clone_into(&mut spec.tasks[0].resources.memory);
        world.submit(&spec)
    };
    let [cpu, memory] = [of("a", "4", "1GB"), of("b", "1", "6GB")];
    let shares = |world: &World| ["a", "b", "c"].map(|name| world.scheduler.share(name));
    assert_eq!(shares(&world), [250_000, 375_000, 0]);
    assert_eq!(live(&world, &[cpu, memory]), [1, 1]);
    world.act(small, NodeAction::Cordon);
    assert_eq!(shares(&world), [333_333, 750_000, 0]);
    world.act(large, NodeAction::Cordon);
    assert_eq!(shares(&world), [0, 0, 0], "no node is in service");
    world.act(small, NodeAction::Uncordon);
    assert_eq!(shares(&world), [1_000_000, 750_000, 0]);
}

#[test]
fn work_that_waits_for_its_turn_after_a_restart_is_placed_by_shares() {
    let (mut world, nodes) = World::with_nodes(2);
    weigh(&mut world, "c", 2);
    for id in &nodes {
        world.act(*id, NodeAction::Cordon);
    }
    let jobs = ["a", "b", "c"].map(|namespace| {
        let spec = in_namespace(namespace, batch(1));
        (0..8).map(|_| world.submit(&spec)).collect::<Vec<_>>()
    });
    world.restart();
    for id in &nodes {
        world.act(*id, NodeAction::Uncordon);
    }
    world.pass(SECOND);
    let live = jobs.map(|jobs| live(&world, &jobs).iter().sum::<usize>());
    assert_eq!(live, [2, 2, 4]);
}
