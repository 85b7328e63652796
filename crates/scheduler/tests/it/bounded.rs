//! No input holds the driver for long: what it brings about is spread over several turns.

use std::time::Duration;

use api_types::execution::{ComputeState, DesiredState};
use api_types::job::{JobSpec, JobStateType, JobType};
use api_types::node::NodeAction;
use scheduler::input::{Answer, Input};
use scheduler::invariants;

use crate::specs::{batch, job, node, with_constraint, with_cpu};
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
    assert_eq!(world.state(job), JobStateType::Stopped, "the answer holds immediately");
    let wanted = |world: &World| {
        let rows = world.executions(job).into_iter();
        rows.filter(|row| row.desired != DesiredState::Stopped).count()
    };
    let left = wanted(&world);
    assert!((1..EXECUTIONS as usize).contains(&left), "{left}");
    // An offer that is accepted in between gets no run request.
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
    assert!(world.scheduler.next_wake(world.now) <= world.now, "the rest is due immediately");
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

/// More than are compared or searched in one step.
const KINDS: usize = 9_000;

/// Jobs wait of which each demands another label, the last one of the lowest rank.
fn many_kinds(cpu: &str) -> (World, Vec<api_types::JobId>) {
    let (mut world, nodes) = World::with_nodes(1);
    world.submit(&with_cpu(batch(1), "4"));
    world.pass_with(Duration::from_secs(1), &nodes);
    world.is_checked = false;
    let kind = |number| with_constraint(with_cpu(batch(1), cpu), "zone", &format!("z{number}"));
    let jobs = (0..KINDS).map(|number| world.submit(&kind(number))).collect();
    (world, jobs)
}

#[test]
fn a_node_is_compared_with_thousands_of_kinds_of_work_over_several_turns() {
    let (mut world, jobs) = many_kinds("1");
    let last = jobs[KINDS - 1];
    let label = format!("z{}", KINDS - 1);
    let joined = world.join_node(&node(4.0, 4_000_000_000, &[("zone", &label)]));
    assert!(world.live(last).is_empty(), "that takes longer than one turn");
    world.pass(Duration::from_secs(1));
    assert_eq!(world.row(world.only_live(last)).node, joined);
    invariants::check(&world.scheduler);
    // Its labels change, and its place among thousands of sets with them.
    world.rejoin(joined, &node(4.0, 4_000_000_000, &[("zone", "z0")]));
    world.pass(Duration::from_secs(1));
    assert_eq!(world.row(world.only_live(jobs[0])).node, joined);
    world.pass_with(Duration::from_secs(1), &[joined]);
    invariants::check(&world.scheduler);
    for job in jobs {
        world.stop(job);
    }
    // There are few sets again, and their places may be taken.
    let next = world.join_node(&node(4.0, 4_000_000_000, &[("zone", "z1")]));
    world.rejoin(joined, &node(4.0, 4_000_000_000, &[("zone", "z2")]));
    let of = |zone| with_constraint(with_cpu(batch(1), "1"), "zone", zone);
    world.is_checked = true;
    for (zone, on) in [("z1", next), ("z2", joined)] {
        let job = world.submit(&of(zone));
        assert_eq!(world.row(world.only_live(job)).node, on);
    }
}

#[test]
fn work_is_found_behind_thousands_of_kinds_that_do_not_fit() {
    let (mut world, _) = World::with_nodes(0);
    world.is_checked = false;
    let kind = |number| {
        let mut kind = with_cpu(batch(1), if number == KINDS { "1" } else { "4" });
        kind.constraints.push(api_types::job::Constraint {
            key: "zone".to_owned(),
            operator: "!=".to_owned(),
            values: vec![format!("z{number}")],
        });
        kind
    };
    let small = world.join_node(&node(2.0, 4_000_000_000, &[]));
    let running = world.submit(&with_cpu(batch(1), "2"));
    world.run(world.only_live(running));
    let jobs: Vec<_> = (0..=KINDS).map(|number| world.submit(&kind(number))).collect();
    world.complete(world.only_live(running));
    assert!(world.live(jobs[KINDS]).is_empty(), "the search takes longer than one turn");
    world.pass_with(Duration::from_secs(1), &[small]);
    assert_eq!(world.row(world.only_live(jobs[KINDS])).node, small);
    invariants::check(&world.scheduler);
}
