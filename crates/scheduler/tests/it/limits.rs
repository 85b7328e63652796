//! Limits: how many executions of a job are live at the same time.

use std::time::Duration;

use api_types::execution::ComputeState;
use api_types::gate::GateType;
use api_types::job::{JobSpec, JobStateType, JobType};
use api_types::node::NodeAction;
use api_types::{ExecutionId, JobId, NodeId};
use scheduler::Held;
use scheduler::plan::JobPlan;

use crate::specs::{batch, job, with_cpu, with_retries};
use crate::world::{SETTINGS, World};

const SECOND: Duration = Duration::from_secs(1);

fn limited(max_running: u32, spec: JobSpec) -> JobSpec {
    JobSpec { max_running, ..spec }
}

fn gates(world: &World, job: JobId) -> Vec<Held> {
    world.scheduler.standing(job).expect("the job is live").gates
}

fn gated(world: &World) -> u64 {
    world.scheduler.waiting(world.now).gated.values().sum()
}

fn node_of(world: &World, execution: ExecutionId) -> NodeId {
    world.row(execution).node
}

#[test]
fn an_array_runs_as_many_executions_as_it_allows_and_all_in_the_end() {
    let (mut world, nodes) = World::with_nodes(2);
    let job = world.submit(&limited(2, batch(5)));
    for left in (0..5_usize).rev() {
        let live = world.live(job);
        assert_eq!(live.len(), 2.min(left + 1));
        if left == 2 {
            world.restart();
            assert_eq!(world.live(job), live);
        }
        world.complete(live[0]);
    }
    assert_eq!(world.state(job), JobStateType::Completed);
    world.pass_with(SECOND, &nodes);
    assert_eq!(gated(&world), 0);
}

#[test]
fn a_job_at_its_limit_says_so_with_numbers_and_its_history_does_once() {
    let (mut world, _) = World::with_nodes(2);
    let job = world.submit(&limited(2, batch(5)));
    let says = "2 of 2 executions run, as MaxRunning allows";
    assert_eq!(world.message(job), says);
    let held = gates(&world, job);
    let [Held { gate_type: GateType::MaxRunning, slots: 3, message, .. }] = &*held else {
        panic!("{held:?}")
    };
    assert_eq!(message.to_string(), says);
    assert_eq!(gated(&world), 1);
    let since = held[0].since;
    world.complete(world.live(job)[0]);
    world.pass(SECOND);
    world.complete(world.live(job)[0]);
    let held = gates(&world, job);
    assert_eq!((held[0].slots, held[0].since), (1, since), "it has held slots all the time");
    world.complete(world.live(job)[0]);
    assert!(gates(&world, job).is_empty());
    assert_eq!(world.message(job), "");
    let comments = world.comments(job);
    let of_gate = |comment: &&String| comment.contains("MaxRunning");
    let of_gate: Vec<_> = comments.iter().filter(of_gate).map(String::as_str).collect();
    let waits = format!("waits: {says}");
    assert_eq!(of_gate, [&*waits, "no slot waits for MaxRunning any more"], "{comments:?}");
}

#[test]
fn slots_that_a_limit_holds_back_do_not_wait_for_room() {
    let (mut world, nodes) = World::with_nodes(1);
    let mut spec = limited(1, with_cpu(batch(3), "2"));
    spec.priority = 90;
    spec.tasks[0].timeouts.queue_timeout = 10;
    let high = world.submit(&spec);
    let low = world.submit(&with_cpu(batch(1), "2"));
    assert_eq!((world.live(high).len(), world.live(low).len()), (1, 1));
    let last = world.submit(&with_cpu(batch(1), "2"));
    let standing = world.scheduler.standing(last).expect("it waits");
    assert_eq!(standing.waits.expect("it waits for room").ahead.jobs, 0);
    assert!(world.scheduler.standing(high).expect("it is live").waits.is_none());
    // Neither its queue timeout nor its starvation begins.
    for job in [high, low] {
        world.run(world.only_live(job));
    }
    world.pass_with(Duration::from_secs(100), &nodes);
    assert_eq!(world.state(high), JobStateType::Running);
    let reserved_for = |job: JobId| world.comments(job).iter().any(|it| it.contains("reserved"));
    assert!(!reserved_for(high), "{:?}", world.comments(high));
    assert!(reserved_for(last), "{:?}", world.comments(last));
    // The place that it leaves is offered by rank, so that its own next slot comes first.
    world.report(world.only_live(high), ComputeState::Completed);
    assert_eq!((world.live(high).len(), world.live(last).len()), (1, 0));
}

#[test]
fn a_job_that_may_run_more_than_fits_waits_for_room_instead() {
    let (mut world, _) = World::with_nodes(1);
    let job = world.submit(&limited(3, with_cpu(batch(6), "2")));
    assert_eq!(world.live(job).len(), 2);
    assert!(world.message(job).contains("not enough CPU (in use)"), "{}", world.message(job));
    assert!(gates(&world, job).is_empty());
    let small = world.join_node(&crate::specs::node(2.0, 4_000_000_000, &[]));
    assert_eq!(world.live(job).len(), 3);
    assert_eq!(node_of(&world, world.live(job)[2]), small);
    assert_eq!(world.message(job), "3 of 3 executions run, as MaxRunning allows");
}

#[test]
fn a_slot_that_waits_for_a_retry_does_not_count() {
    let (mut world, nodes) = World::with_nodes(1);
    let mut spec = limited(1, with_retries(batch(2), 2));
    spec.retry_policy.delay = 30;
    let job = world.submit(&spec);
    let first = world.only_live(job);
    world.fail(first);
    let second = world.only_live(job);
    assert_ne!(world.row(second).index, world.row(first).index);
    world.run(second);
    world.pass_with(Duration::from_secs(31), &nodes);
    assert_eq!(world.only_live(job), second);
    assert_eq!(gates(&world, job)[0].slots, 1);
    world.report(second, ComputeState::Completed);
    assert_eq!(world.row(world.only_live(job)).index, world.row(first).index);
}

#[test]
fn an_ops_job_goes_from_node_to_node() {
    let (mut world, nodes) = World::with_nodes(3);
    let job = world.submit(&limited(1, job(JobType::Ops)));
    assert_eq!(world.message(job), "1 of 1 execution runs, as MaxRunning allows");
    assert_eq!(gates(&world, job)[0].slots, 2);
    let mut visited = Vec::new();
    for _ in &nodes {
        let execution = world.only_live(job);
        visited.push(node_of(&world, execution));
        world.restart();
        world.complete(execution);
    }
    visited.sort();
    assert_eq!(visited, nodes);
    assert_eq!(world.state(job), JobStateType::Completed);
}

#[test]
fn an_ops_job_that_fails_on_one_node_does_not_go_on() {
    let (mut world, nodes) = World::with_nodes(3);
    let job = world.submit(&limited(1, job(JobType::Ops)));
    world.complete(world.only_live(job));
    world.fail(world.only_live(job));
    world.pass_with(SECOND, &nodes);
    assert_eq!(world.state(job), JobStateType::Failed);
    assert_eq!(world.executions(job).len(), 2, "the third node was never asked");
}

#[test]
fn an_ops_job_skips_a_node_without_room_and_comes_back() {
    let (mut world, nodes) = World::with_nodes(3);
    world.act(nodes[1], NodeAction::Cordon);
    world.act(nodes[2], NodeAction::Cordon);
    let blocker = world.submit(&with_cpu(batch(1), "4"));
    world.act(nodes[1], NodeAction::Uncordon);
    world.act(nodes[2], NodeAction::Uncordon);
    let ops = world.submit(&limited(1, job(JobType::Ops)));
    for _ in 0..2 {
        let execution = world.only_live(ops);
        assert_ne!(node_of(&world, execution), nodes[0]);
        world.complete(execution);
    }
    assert!(world.live(ops).is_empty());
    assert!(world.message(ops).contains("not enough CPU"), "{}", world.message(ops));
    assert!(gates(&world, ops).is_empty());
    world.complete(world.only_live(blocker));
    assert_eq!(node_of(&world, world.only_live(ops)), nodes[0]);
}

#[test]
fn no_node_is_reserved_for_a_slot_that_a_limit_holds_back() {
    let (mut world, nodes) = World::with_nodes(2);
    let full = world.submit(&with_cpu(batch(2), "3"));
    for execution in world.live(full) {
        world.run(execution);
    }
    let held = world.submit(&limited(1, job(JobType::Ops)));
    world.run(world.only_live(held));
    // It waits for the same nodes, and comes after.
    let waits = world.submit(&with_cpu(job(JobType::Ops), "2"));
    world.pass_with(Duration::from_secs(100), &nodes);
    let reserved_for = |job: JobId| world.comments(job).iter().any(|it| it.contains("reserved"));
    assert!(!reserved_for(held), "{:?}", world.comments(held));
    assert!(reserved_for(waits), "{:?}", world.comments(waits));
}

#[test]
fn a_job_that_is_stopped_at_its_limit_is_forgotten_there() {
    let (mut world, _) = World::with_nodes(2);
    let [array, fleet] = [batch(5), job(JobType::Ops)].map(|spec| world.submit(&limited(1, spec)));
    assert_eq!(gated(&world), 2);
    world.restart_before_the_first_tick(SETTINGS);
    assert_eq!(gated(&world), 2);
    world.stop(array);
    world.stop(fleet);
    assert_eq!(gated(&world), 0);
}

#[test]
fn a_large_fleet_is_visited_in_bounded_turns() {
    let (mut world, nodes) = World::with_nodes(1_500);
    world.is_checked = false;
    let job = world.submit(&limited(700, job(JobType::Ops)));
    world.pass_with(Duration::from_millis(10), &nodes);
    world.is_checked = true;
    for _ in 0..10 {
        world.pass(Duration::from_millis(1));
    }
    assert_eq!(world.live(job).len(), 700);
    world.restart();
    world.complete(world.live(job)[0]);
    world.pass(Duration::from_millis(10));
    assert_eq!(world.live(job).len(), 700);
    assert_eq!(gates(&world, job)[0].slots, 799);
}

#[test]
fn a_dry_run_places_no_more_than_the_job_allows() {
    let (world, _) = World::with_nodes(3);
    let chosen = |spec: &JobSpec| {
        let plan = JobPlan::from_spec(spec).expect("a checked job");
        let preview = world.scheduler.preview(&plan, spec.count);
        let nodes = preview.nodes.into_iter();
        nodes.map(|node| (node.chosen, node.reason)).collect::<Vec<_>>()
    };
    let of_array = chosen(&limited(2, batch(9)));
    assert_eq!(of_array.iter().filter(|(chosen, _)| *chosen).count(), 2);
    let of_fleet = chosen(&limited(1, job(JobType::Ops)));
    assert_eq!(of_fleet[0], (true, "would get 1 execution".to_owned()));
    let held = "has room, but a limit holds executions back".to_owned();
    assert_eq!(of_fleet[1..], [(false, held.clone()), (false, held)]);
}
