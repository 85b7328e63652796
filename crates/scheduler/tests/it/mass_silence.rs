//! A mass silence during which the orchestrator restarts.

use std::time::Duration;

use api_types::{ExecutionId, NodeId};

use crate::specs::{batch, node};
use crate::world::{LEASE, World};

const SECOND: Duration = Duration::from_secs(1);

/// Nodes with a run each.
fn running(count: u32) -> (World, Vec<NodeId>, Vec<ExecutionId>) {
    let (mut world, nodes) = World::with_nodes(count as usize);
    let id = world.submit(&batch(count));
    let runs = world.live(id);
    for run in &runs {
        world.run(*run);
    }
    (world, nodes, runs)
}

/// Three of them fall silent together, and the orchestrator restarts when the first has lost its lease.
fn interrupted() -> (World, Vec<NodeId>, Vec<ExecutionId>) {
    let (mut world, nodes, runs) = running(3);
    world.pass(LEASE * 3 / 10);
    heard(&mut world, &nodes[1..]);
    world.pass(LEASE * 8 / 10);
    world.restart();
    (world, nodes, runs)
}

fn are_waited_for(world: &World, runs: &[ExecutionId]) -> bool {
    runs.iter().all(|run| !world.row(*run).compute.is_terminal())
}

#[test]
fn nodes_that_fall_silent_around_a_restart_fall_silent_together() {
    let (mut world, _, runs) = interrupted();
    world.pass(100 * SECOND);
    assert!(world.scheduler.is_mass_silence());
    assert!(are_waited_for(&world, &runs));
    world.pass(90 * SECOND);
    assert!(!are_waited_for(&world, &runs), "no job waits for ever");
}

#[test]
fn nodes_follow_one_that_is_back_before_the_leases_end_that_a_restart_renewed() {
    let (mut world, nodes, runs) = interrupted();
    let record = node(4.0, 4_000_000_000, &[]);
    world.pass(LEASE - 2 * SECOND);
    world.rejoin(nodes[0], &record);
    world.pass(4 * SECOND);
    for member in &nodes[1..] {
        world.rejoin(*member, &record);
    }
    world.pass_with(LEASE, &nodes);
    assert!(are_waited_for(&world, &runs));
}

#[test]
fn one_silent_node_is_no_mass_after_a_restart() {
    let (mut world, nodes, runs) = interrupted();
    world.pass_with(LEASE + 5 * SECOND, &nodes[1..]);
    let run = runs.iter().find(|run| world.row(**run).node == nodes[0]).expect("one on each node");
    assert!(world.row(*run).compute.is_terminal());
}

fn heard(world: &mut World, nodes: &[NodeId]) {
    for node in nodes {
        world.heartbeat(*node);
    }
}

/// All but the first node were heard just before their leases ended, the first one is just after.
fn the_first_follows(mut world: World, nodes: &[NodeId], runs: &[ExecutionId]) {
    world.pass_with(LEASE - SECOND, &nodes[1..]);
    assert!(are_waited_for(&world, runs));
    world.rejoin(nodes[0], &node(4.0, 4_000_000_000, &[]));
    world.pass_with(LEASE, nodes);
    assert!(are_waited_for(&world, runs));
}

#[test]
fn the_last_of_many_that_were_silent_follows_those_that_lost_no_lease() {
    let (mut world, nodes, runs) = interrupted();
    world.pass(LEASE - 2 * SECOND);
    heard(&mut world, &nodes[1..]);
    the_first_follows(world, &nodes, &runs);
}

#[test]
fn the_last_of_many_that_were_silent_follows_without_a_restart_too() {
    let (mut world, nodes, runs) = running(3);
    world.pass_with(2 * LEASE, &nodes);
    heard(&mut world, &nodes);
    for pause in [SECOND, LEASE - 2 * SECOND] {
        world.pass(pause);
        heard(&mut world, &nodes[1..]);
    }
    the_first_follows(world, &nodes, &runs);
}

#[test]
fn the_last_of_many_that_does_not_follow_is_given_up() {
    let (mut world, nodes, runs) = interrupted();
    world.pass(LEASE - 2 * SECOND);
    heard(&mut world, &nodes[1..]);
    world.pass_with(2 * LEASE, &nodes[1..]);
    assert!(!are_waited_for(&world, &runs));
}

/// Three nodes are heard too rarely all the time, and a fourth one comes and goes.
#[test]
fn nodes_that_come_and_go_hold_up_the_work_of_a_dead_one_for_no_longer_than_a_mass_silence() {
    let (mut world, nodes, runs) = running(5);
    let record = node(4.0, 4_000_000_000, &[]);
    for _ in 0..6 {
        for _ in 0..2 {
            world.pass(LEASE - 2 * SECOND);
            heard(&mut world, &nodes[1..4]);
        }
        world.rejoin(nodes[4], &record);
    }
    let run = runs.iter().find(|run| world.row(**run).node == nodes[0]).expect("one on each node");
    assert!(world.row(*run).compute.is_terminal());
}
