//! Containers that nodes refuse, although they run others.

use std::time::Duration;

use api_types::execution::ComputeState;
use api_types::job::{JobStateType, JobType};
use api_types::protocol::FailureCause;
use api_types::{ExecutionId, JobId, NodeId};

use crate::specs::{batch, in_namespace, job, with_cpu, with_retries};
use crate::world::World;

const SECOND: Duration = Duration::from_secs(1);

const WHY: &str = "mkdir /etc/passwd: not a directory";

fn refuse(world: &mut World, execution: ExecutionId) {
    world.report(execution, ComputeState::AskForBidAccepted);
    world.report_as(execution, ComputeState::Failed, FailureCause::Refused, WHY);
}

fn refuse_only(world: &mut World, job: JobId) {
    let execution = world.only_live(job);
    refuse(world, execution);
}

fn offered(world: &World) -> Vec<ExecutionId> {
    let rows = world.store.executions.values();
    rows.filter(|row| row.compute == ComputeState::AskForBid).map(|row| row.id).collect()
}

/// Lets time pass until it is so.
fn until<T>(world: &mut World, nodes: &[NodeId], wanted: impl Fn(&World) -> Option<T>) -> T {
    for _ in 0..600 {
        if let Some(found) = wanted(world) {
            return found;
        }
        world.pass_with(SECOND, nodes);
    }
    panic!("it does not happen");
}

fn all_are_well(world: &World) {
    for row in world.store.nodes.values() {
        assert!(row.health.is_well(), "{:?}", row.health);
    }
}

/// How often each slot was tried.
fn tries(world: &World, job: JobId) -> Vec<usize> {
    let rows = world.executions(job);
    let slots = rows.iter().map(|row| row.index).max().map_or(0, |last| last + 1);
    (0..slots).map(|slot| rows.iter().filter(|row| row.index == slot).count()).collect()
}

#[test]
fn a_container_that_two_nodes_refuse_is_the_failure_of_its_task() {
    let (mut world, _) = World::with_probed_nodes(3);
    let id = world.submit(&batch(1));
    let first = world.only_live(id);
    refuse(&mut world, first);
    let message = world.message(id).to_owned();
    let second = world.only_live(id);
    assert_ne!(world.row(first).node, world.row(second).node, "{message}");
    refuse(&mut world, second);
    assert_eq!(world.state(id), JobStateType::Failed);
    assert!(world.message(id).contains(WHY), "{}", world.message(id));
    assert!(world.message(id).starts_with("[0] on "), "{}", world.message(id));
    assert_eq!(world.executions(id).len(), 2);
    all_are_well(&world);
}

#[test]
fn without_another_node_that_fits_it_fails_at_its_first_refusal() {
    let (mut world, nodes) = World::with_probed_nodes(2);
    let small = crate::specs::node(1.0, 4_000_000_000, &[]);
    world.rejoin(nodes[1], &small);
    let id = world.submit(&with_cpu(batch(1), "4"));
    refuse_only(&mut world, id);
    assert_eq!(world.state(id), JobStateType::Failed, "{}", world.message(id));
    assert_eq!(world.executions(id).len(), 1);
}

#[test]
fn each_pair_of_refusals_uses_one_attempt() {
    let (mut world, nodes) = World::with_probed_nodes(2);
    let id = world.submit(&with_retries(batch(1), 3));
    for _ in 0..600 {
        for execution in offered(&world) {
            refuse(&mut world, execution);
        }
        world.pass_with(SECOND, &nodes);
    }
    assert_eq!(world.state(id), JobStateType::Failed, "{}", world.message(id));
    let attempts: Vec<_> = world.executions(id).iter().map(|row| row.tries.attempt).collect();
    assert_eq!(attempts, [1, 1, 2, 2, 3, 3]);
    assert!(world.message(id).contains("3 of 3"), "{}", world.message(id));
}

#[test]
fn an_array_that_no_node_can_create_fails_after_two_executions_of_one_slot() {
    let (mut world, nodes) = World::with_probed_nodes(2);
    let array = world.submit(&in_namespace("bad", with_cpu(batch(1000), "0.5")));
    let placed = world.live(array).len();
    let mut good = Vec::new();
    for _ in 0..20 {
        good.push(world.submit(&in_namespace("good", with_cpu(batch(1), "0.5"))));
        for execution in offered(&world) {
            match world.row(execution).compute.is_terminal() {
                true => {}
                false if world.row(execution).job == array => refuse(&mut world, execution),
                false => world.complete(execution),
            }
        }
        world.pass_with(SECOND, &nodes);
    }
    assert_eq!(world.state(array), JobStateType::Failed, "{}", world.message(array));
    assert_eq!(tries(&world, array).iter().max(), Some(&2));
    let executions = world.executions(array).len();
    assert!(executions <= placed + 1, "{executions} executions, of which {placed} came first");
    for job in good {
        assert_eq!(world.state(job), JobStateType::Completed, "{}", world.message(job));
    }
    all_are_well(&world);
}

#[test]
fn other_slots_wait_until_one_that_was_refused_starts() {
    let (mut world, nodes) = World::with_probed_nodes(2);
    let array = world.submit(&with_cpu(batch(1000), "4"));
    let on = |world: &World, node: NodeId| {
        let live = world.live(array);
        live.into_iter().find(|id| world.row(*id).node == node)
    };
    let [damaged, good] = [nodes[0], nodes[1]];
    let refused = on(&world, damaged).expect("one on each");
    refuse(&mut world, refused);
    assert_eq!(on(&world, damaged), None, "no other slot is tried there");
    world.restart();
    world.pass_with(SECOND, &nodes);
    assert_eq!(on(&world, damaged), None, "nor after a restart");
    let first = on(&world, good).expect("one on each");
    world.complete(first);
    assert!(on(&world, damaged).is_some(), "the container can be created");
}

#[test]
fn a_damaged_image_on_one_node_costs_no_job_and_no_node() {
    let (mut world, nodes) = World::with_probed_nodes(2);
    let [damaged, good] = [nodes[0], nodes[1]];
    let jobs: Vec<_> = (0..100).map(|_| world.submit(&batch(1))).collect();
    for _ in 0..400 {
        for execution in offered(&world) {
            match world.row(execution).node {
                node if node == damaged => refuse(&mut world, execution),
                _ => world.run(execution),
            }
        }
        world.pass_with(SECOND, &nodes);
        let now = world.now;
        let rows = world.store.executions.values();
        let running = rows.filter(|row| row.compute == ComputeState::BidAccepted);
        let over = running.filter(|row| {
            row.started_at.is_some_and(|started| now.since(started) >= Duration::from_secs(10))
        });
        for execution in over.map(|row| row.id).collect::<Vec<_>>() {
            world.report(execution, ComputeState::Completed);
        }
    }
    for job in jobs {
        assert_eq!(world.state(job), JobStateType::Completed, "{}", world.message(job));
        let rows = world.executions(job);
        assert_eq!(rows.last().map(|row| row.node), Some(good));
        assert!(rows.iter().all(|row| row.tries.infra_failures == 0));
    }
    all_are_well(&world);
}

#[test]
fn a_service_is_tried_again_with_its_delays() {
    let (mut world, nodes) = World::with_probed_nodes(2);
    let mut spec = job(JobType::Service);
    spec.count = 100;
    let id = world.submit(&spec);
    let first = world.live(id).len();
    for _ in 0..120 {
        for execution in offered(&world) {
            refuse(&mut world, execution);
        }
        world.pass_with(SECOND, &nodes);
    }
    assert!(!world.state(id).is_terminal(), "{}", world.message(id));
    assert!(world.message(id).contains(WHY), "{}", world.message(id));
    let executions = world.executions(id).len();
    assert!(executions < first * 30, "{executions} executions in two minutes");
    assert!(tries(&world, id).len() <= first, "no further slot is tried");
    all_are_well(&world);
}

#[test]
fn a_slot_that_is_bound_to_its_node_fails_there() {
    let (mut world, nodes) = World::with_probed_nodes(2);
    let ops = world.submit(&job(JobType::Ops));
    let refused = world.live(ops)[0];
    refuse(&mut world, refused);
    assert_eq!(world.state(ops), JobStateType::Failed, "{}", world.message(ops));
    let daemon = world.submit(&job(JobType::Daemon));
    let of_daemon = |world: &World| {
        let live = world.live(daemon);
        live.into_iter().find(|id| world.row(*id).node == nodes[0])
    };
    let refused = of_daemon(&world).expect("one on each node");
    refuse(&mut world, refused);
    assert_eq!(of_daemon(&world), None, "it has a delay");
    let again = until(&mut world, &nodes, of_daemon);
    assert_eq!(world.row(again).tries.infra_failures, 0);
    all_are_well(&world);
}

#[test]
fn a_first_refusal_is_known_after_a_restart() {
    let (mut world, nodes) = World::with_probed_nodes(2);
    let id = world.submit(&batch(1));
    refuse_only(&mut world, id);
    world.restart();
    world.pass_with(SECOND, &nodes);
    refuse_only(&mut world, id);
    assert_eq!(world.state(id), JobStateType::Failed, "{}", world.message(id));
}

#[test]
fn a_start_in_between_begins_the_count_anew() {
    let (mut world, nodes) = World::with_probed_nodes(2);
    let id = world.submit(&with_retries(batch(1), 2));
    refuse_only(&mut world, id);
    world.fail(world.only_live(id));
    until(&mut world, &nodes, |world| world.live(id).pop());
    refuse_only(&mut world, id);
    let last = until(&mut world, &nodes, |world| world.live(id).pop());
    world.complete(last);
    assert_eq!(world.state(id), JobStateType::Completed, "{}", world.message(id));
}

#[test]
fn a_refusal_of_what_is_not_wanted_any_more_moves_the_slot() {
    let (mut world, nodes) = World::with_probed_nodes(2);
    let mut spec = job(JobType::Service);
    spec.count = 1;
    let id = world.submit(&spec);
    let execution = world.only_live(id);
    let node = world.row(execution).node;
    world.report(execution, ComputeState::AskForBidAccepted);
    world.act(node, api_types::node::NodeAction::Drain);
    world.report_as(execution, ComputeState::Failed, FailureCause::Refused, WHY);
    let next = world.only_live(id);
    assert_ne!(world.row(next).node, node);
    assert_eq!(world.row(next).tries, world.row(execution).tries);
    assert_eq!(nodes.len(), 2);
}
