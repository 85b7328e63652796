//! A scheduler restored from the store decides as the one before it would have.

use std::time::Duration;

use api_types::NodeId;
use api_types::execution::ComputeState;
use api_types::job::{JobStateType, JobType};
use api_types::node::Connection;

use scheduler::input::Input;

use crate::specs::{batch, job, node, with_cpu, with_retries};
use crate::world::{LEASE, SETTINGS, World};

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn queued_work_survives_a_restart_in_its_order() {
    let mut world = World::new();
    let jobs: Vec<_> = (0..3).map(|_| world.submit(&with_cpu(batch(1), "4"))).collect();
    world.restart();
    let only = world.join_node(&node(4.0, 4_000_000_000, &[]));
    for job in jobs {
        let execution = world.only_live(job);
        assert_eq!(world.on_node(only), 1);
        world.complete(execution);
        assert_eq!(world.state(job), JobStateType::Completed);
    }
}

#[test]
fn running_work_survives_a_restart_and_no_node_is_lost_by_it() {
    let (mut world, nodes) = World::with_nodes(2);
    let job = world.submit(&batch(4));
    let live = world.live(job);
    world.run(live[0]);
    world.now = world.now + LEASE * 20;
    world.restart();
    for execution in &live[1..] {
        world.report(*execution, ComputeState::AskForBidAccepted);
    }
    world.pass(LEASE - Duration::from_secs(1));
    for node in &nodes {
        assert_eq!(world.store.nodes[node].connection, Connection::Connected);
    }
    assert_eq!(world.live(job), live);
    world.report(live[0], ComputeState::Completed);
    for execution in &live[1..] {
        world.complete(*execution);
    }
    assert_eq!(world.state(job), JobStateType::Completed);
}

#[test]
fn a_retry_timer_survives_a_restart() {
    let (mut world, nodes) = World::with_nodes(1);
    let job = world.submit(&with_retries(batch(1), 3));
    let execution = world.only_live(job);
    world.fail(execution);
    world.restart();
    world.pass_with(Duration::from_millis(900), &nodes);
    assert!(world.live(job).is_empty());
    world.pass_with(Duration::from_millis(200), &nodes);
    let next = world.only_live(job);
    assert_eq!(world.row(next).tries.attempt, 2);
}

#[test]
fn timeouts_survive_a_restart() {
    let (mut world, nodes) = World::with_nodes(1);
    let mut spec = with_cpu(batch(1), "8");
    spec.tasks[0].timeouts.queue_timeout = 10;
    let queued = world.submit(&spec);
    let mut spec = batch(1);
    spec.tasks[0].timeouts.total_timeout = 20;
    let running = world.submit(&spec);
    world.pass_with(Duration::from_secs(5), &nodes);
    world.restart();
    world.pass_with(Duration::from_secs(6), &nodes);
    assert_eq!(world.state(queued), JobStateType::Failed);
    assert_eq!(world.state(running), JobStateType::Pending);
    world.pass_with(Duration::from_secs(10), &nodes);
    assert_eq!(world.state(running), JobStateType::Failed);
}

/// A retry comes due as the service starts, and looks at its job before the queue is.
#[test]
fn a_job_that_still_waits_keeps_its_timeout_although_its_retry_is_due_at_the_start() {
    let (mut world, nodes) = World::with_nodes(1);
    let mut spec = with_retries(with_cpu(batch(5), "2"), 3);
    spec.tasks[0].timeouts.queue_timeout = 30;
    let job = world.submit(&spec);
    world.submit(&with_cpu(batch(1), "2"));
    world.fail(world.live(job)[0]);
    for execution in world.live(job) {
        world.run(execution);
    }
    let waits = world.store.jobs[&job].waiting_since;
    assert!(waits.is_some());
    world.now = world.now + Duration::from_secs(2);
    for early in [false, true] {
        world.restart_before_the_first_tick(SETTINGS);
        if early {
            // A report of another execution comes first.
            world.report(world.live(job)[0], ComputeState::Completed);
        }
        world.handle(Input::Tick);
        assert_eq!(world.store.jobs[&job].waiting_since, waits);
    }
    world.pass_with(Duration::from_secs(40), &nodes);
    assert_eq!(world.state(job), JobStateType::Failed);
}

#[test]
fn a_job_names_the_node_that_is_silent_after_a_restart() {
    let (mut world, nodes) = World::with_nodes(5);
    let job = world.submit(&with_cpu(batch(2), "4"));
    let ran = world.live(job);
    ran.iter().for_each(|execution| world.run(*execution));
    let silent: Vec<_> = ran.iter().map(|execution| world.row(*execution).node).collect();
    world.pass_with(HOUR, &nodes);
    let others: Vec<_> = nodes.into_iter().filter(|node| !silent.contains(node)).collect();
    world.pass_with(LEASE + Duration::from_secs(5), &others);
    let names = |world: &World, node: NodeId| {
        let name = &world.store.nodes[&node].record.name;
        world.message(job).contains(&format!("node {name} has"))
    };
    let (first, second) = match names(&world, silent[0]) {
        true => (silent[0], silent[1]),
        false => (silent[1], silent[0]),
    };
    assert!(names(&world, first) && !names(&world, second), "{}", world.message(job));
    let events = world.comments(job).len();
    world.restart();
    assert!(names(&world, first), "{}", world.message(job));
    world.rejoin(first, &node(4.0, 4_000_000_000, &[]));
    assert!(names(&world, second) && !names(&world, first), "{}", world.message(job));
    assert_eq!(world.comments(job).len(), events, "still one of its nodes is silent");
}

#[test]
fn a_silence_that_a_retry_hides_is_told_after_a_restart() {
    let (mut world, nodes) = World::with_nodes(5);
    let job = world.submit(&with_retries(with_cpu(batch(2), "4"), 3));
    let ran = world.live(job);
    ran.iter().for_each(|execution| world.run(*execution));
    world.pass_with(HOUR, &nodes);
    let silent = world.row(ran[0]).node;
    let others: Vec<_> = nodes.into_iter().filter(|node| *node != silent).collect();
    world.pass_with(LEASE + Duration::from_secs(5), &others);
    world.fail(ran[1]);
    assert!(!world.message(job).contains("silent"), "{}", world.message(job));
    world.restart();
    world.pass_with(Duration::from_secs(5), &others);
    assert_eq!(world.live(job).len(), 2, "it is tried again");
    assert!(world.message(job).contains("has been silent since"), "{}", world.message(job));
}

#[test]
fn a_stop_in_progress_survives_a_restart() {
    let (mut world, nodes) = World::with_nodes(1);
    let job = world.submit(&batch(1));
    let execution = world.only_live(job);
    world.run(execution);
    world.stop(job);
    world.restart();
    let snapshot = world.snapshot(nodes[0]);
    assert_eq!(snapshot[0].desired, api_types::execution::DesiredState::Stopped);
    world.report(execution, ComputeState::Cancelled);
    assert_eq!(world.scheduler.live_jobs(), 0);
    world.restart();
    assert_eq!(world.scheduler.live_jobs(), 0);
}

#[test]
fn a_daemon_remembers_its_nodes() {
    let (mut world, nodes) = World::with_nodes(2);
    let daemon = world.submit(&job(JobType::Daemon));
    world.restart();
    world.rejoin(nodes[0], &node(4.0, 4_000_000_000, &[]));
    assert_eq!(world.executions(daemon).len(), 2);
    let third = world.join_node(&node(4.0, 4_000_000_000, &[]));
    assert_eq!(world.on_node(third), 1);
    let mut indices: Vec<_> = world.executions(daemon).iter().map(|row| row.index).collect();
    indices.sort_unstable();
    assert_eq!(indices, [0, 1, 2]);
}

#[test]
fn pinned_slots_find_their_node_again() {
    let (mut world, _) = World::with_nodes(1);
    let filler = world.submit(&with_cpu(batch(1), "4"));
    let ops = world.submit(&job(JobType::Ops));
    assert!(world.live(ops).is_empty());
    world.restart();
    let filling = world.only_live(filler);
    world.complete(filling);
    assert_eq!(world.live(ops).len(), 1);
}

#[test]
fn sequences_go_on_without_a_gap() {
    let (mut world, _) = World::with_nodes(1);
    let first = world.submit(&batch(1));
    world.restart();
    let second = world.submit(&batch(1));
    for job in [first, second] {
        let execution = world.only_live(job);
        world.complete(execution);
    }
    for (event, expected) in world.store.events.iter().zip(1..) {
        assert_eq!(event.seq, expected);
    }
    assert!(world.store.events.windows(2).all(|pair| pair[0].time <= pair[1].time));
}

#[test]
fn a_node_lost_after_a_restart_was_silent_since_the_restart() {
    let (mut world, _) = World::with_nodes(1);
    let job = world.submit(&batch(1));
    let lost = world.only_live(job);
    world.run(lost);
    world.now = world.now + LEASE * 20;
    world.restart();
    world.pass(LEASE + Duration::from_millis(600));
    assert_eq!(world.row(lost).compute_message, "its node was lost: no heartbeat for 30 s");
}
