//! No input holds the driver for long: what it brings about is spread over several turns.

use std::time::Duration;

use api_types::execution::{ComputeState, DesiredState};
use api_types::job::{JobSpec, JobStateType, JobType};
use api_types::node::NodeAction;
use scheduler::input::{Answer, Input};

use crate::specs::{batch, job, node, with_cpu};
use crate::world::{LEASE, World};

/// Records that one turn may write; each execution that ends, is placed or is asked to stop writes
/// a few.
const RECORDS_PER_TURN: usize = 512 * 6;

/// One turn has no budget for so many, and the tests check all of them after each input.
const EXECUTIONS: u32 = 1_100;

fn many() -> JobSpec {
    let mut many = with_cpu(batch(EXECUTIONS), "1m");
    many.tasks[0].resources.memory = "1kb".to_owned();
    many
}

/// A node that runs all executions of a job.
fn crowded() -> (World, api_types::JobId, api_types::NodeId) {
    let mut world = World::new();
    world.bound = Some(RECORDS_PER_TURN);
    let crowded = world.join_node(&node(20.0, 10_000_000_000, &[]));
    let job = world.submit(&many());
    world.pass_with(Duration::from_secs(1), &[crowded]);
    assert_eq!(world.on_node(crowded), EXECUTIONS as usize);
    (world, job, crowded)
}

#[test]
fn a_large_job_is_stopped_over_several_turns() {
    let (mut world, job, node) = crowded();
    world.stop(job);
    assert_eq!(world.state(job), JobStateType::Stopped, "the answer holds at once");
    let wanted = |world: &World| {
        let rows = world.executions(job).into_iter();
        rows.filter(|row| row.desired != DesiredState::Stopped).count()
    };
    let left = wanted(&world);
    assert!((1..EXECUTIONS as usize).contains(&left), "{left}");
    // An offer that is accepted meanwhile is not told to run.
    let offered =
        world.executions(job).into_iter().find(|row| row.desired == DesiredState::Pending);
    let offered = offered.unwrap().id;
    world.report(offered, ComputeState::AskForBidAccepted);
    assert_eq!(world.desired(offered), DesiredState::Stopped);
    // What is left survives a restart.
    world.restart();
    world.pass_with(Duration::from_secs(1), &[node]);
    assert_eq!(wanted(&world), 0);
}

#[test]
fn the_executions_of_a_lost_node_are_given_up_over_several_turns() {
    let (mut world, job, _) = crowded();
    world.pass(LEASE * 3);
    assert!(world.live(job).is_empty(), "none is left behind");
    assert_eq!(world.state(job), JobStateType::Queued);
}

#[test]
fn a_rejected_or_forgotten_node_is_abandoned_over_several_turns() {
    let (mut world, job, node) = crowded();
    world.act(node, NodeAction::Reject);
    let left = world.on_node(node);
    assert!((1..EXECUTIONS as usize).contains(&left), "{left}");
    assert_eq!(world.handle(Input::ForgetNode { node, now: true }), Answer::Done);
    world.pass(Duration::from_secs(1));
    assert!(world.live(job).is_empty());
    assert!(!world.store.nodes.contains_key(&node), "it is forgotten once nothing is left");
}

#[test]
fn many_delays_that_end_at_once_are_handled_over_several_turns() {
    let (mut world, nodes) = World::with_nodes(1);
    world.bound = Some(RECORDS_PER_TURN);
    let mut bounded = with_cpu(batch(1), "100");
    bounded.tasks[0].timeouts.total_timeout = 60;
    let jobs: Vec<_> = (0..600).map(|_| world.submit(&bounded)).collect();
    world.pass_with(Duration::from_secs(55), &nodes);
    world.now = world.now + Duration::from_secs(10);
    world.handle(Input::Tick);
    let left = |world: &World| jobs.iter().filter(|job| !world.state(**job).is_terminal()).count();
    assert!((1..600).contains(&left(&world)), "{}", left(&world));
    assert!(world.scheduler.next_wake(world.now) <= world.now, "the rest is due at once");
    world.handle(Input::Tick);
    assert_eq!(left(&world), 0);
}

#[test]
fn a_daemon_covers_many_nodes_over_several_turns() {
    let mut world = World::new();
    let record = node(4.0, 4_000_000_000, &[]);
    let nodes: Vec<_> = (0..600).map(|_| world.join_node(&record)).collect();
    world.bound = Some(RECORDS_PER_TURN);
    let daemon = world.submit(&job(JobType::Daemon));
    world.pass_with(Duration::from_secs(1), &nodes[..1]);
    assert_eq!(world.live(daemon).len(), 600);
}

#[test]
fn jobs_that_say_already_that_they_wait_are_not_visited_one_by_one_after_a_restart() {
    let mut world = World::new();
    for _ in 0..2000 {
        world.submit(&batch(1));
    }
    world.restart();
    let mut turns = 0;
    while world.scheduler.next_wake(world.now) <= world.now {
        world.handle(Input::Tick);
        turns += 1;
    }
    assert!(turns <= 1, "{turns} turns follow the first");
}
