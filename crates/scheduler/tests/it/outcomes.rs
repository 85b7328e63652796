//! Slots that fail: how many a job allows, what it says meanwhile, and what is kept of each.

use std::time::Duration;

use api_types::execution::{ComputeState, DesiredState};
use api_types::job::{JobSpec, JobStateType, JobType};
use api_types::protocol::FailureCause;
use api_types::{ExecutionId, JobId};
use scheduler::outcomes::Tally;

use crate::specs::{batch, job, with_cpu, with_retries};
use crate::world::World;

fn tolerant(count: u32, max_failed: i32) -> JobSpec {
    JobSpec { max_failed, ..batch(count) }
}

/// The live execution of a slot.
fn slot(world: &World, job: JobId, index: u32) -> ExecutionId {
    let live = world.live(job);
    *live.iter().find(|id| world.row(**id).index == index).expect("the slot runs")
}

/// What is stored of the outcomes, and what the row counts.
fn stored(world: &World, job: JobId) -> (Tally, String) {
    let row = &world.store.jobs[&job];
    let outcomes = world.store.outcomes_of(job);
    let tally = outcomes.tally(&row.slots);
    assert_eq!((tally.completed, tally.failed), (row.completed, row.failed_slots));
    (tally, outcomes.failed_text(4096))
}

#[test]
fn a_job_that_allows_failures_runs_to_its_end_and_names_the_first() {
    let (mut world, nodes) = World::with_nodes(2);
    let job = world.submit(&tolerant(4, 100));
    for (index, fails) in [(1, true), (0, false), (3, true)] {
        let execution = slot(&world, job, index);
        if fails {
            world.fail(execution)
        } else {
            world.complete(execution)
        }
        assert_eq!(world.state(job), JobStateType::Running);
    }
    let first = world.message(job).strip_prefix("first failed index: ").unwrap().to_owned();
    assert!(first.starts_with("[1] on node") && first.ends_with(": exit code 1"), "{first}");
    let comments = world.comments(job);
    let of_failures: Vec<_> = comments.iter().filter(|text| text.contains("failed")).collect();
    assert_eq!(of_failures, [&format!("first failed index: {first}; the job goes on")]);
    let last = slot(&world, job, 2);
    world.complete(last);
    assert_eq!(world.state(job), JobStateType::Failed);
    assert_eq!(world.message(job), format!("2 of 4 indexes failed; the first, {first}"));
    let tally = Tally { total: 4, completed: 2, failed: 2 };
    assert_eq!(stored(&world, job), (tally, "1,3".to_owned()));
    assert_eq!(world.on_node(nodes[0]) + world.on_node(nodes[1]), 0);
}

#[test]
fn a_job_ends_early_once_it_has_more_failures_than_it_allows() {
    let (mut world, _) = World::with_nodes(2);
    let job = world.submit(&tolerant(6, 1));
    let (first, second, other) = (slot(&world, job, 2), slot(&world, job, 5), slot(&world, job, 0));
    world.run(other);
    world.fail(first);
    assert_eq!(world.state(job), JobStateType::Running);
    world.fail(second);
    assert_eq!(world.state(job), JobStateType::Failed);
    let expected = "2 of 6 indexes failed, more than MaxFailed (1); the first, [2] on ";
    assert!(world.message(job).starts_with(expected), "{}", world.message(job));
    assert_eq!(world.desired(other), DesiredState::Stopped);
    assert_eq!(stored(&world, job).1, "2,5");
    // What ends later is no outcome any more.
    world.report(other, ComputeState::Completed);
    assert_eq!(stored(&world, job).0, Tally { total: 6, completed: 0, failed: 2 });
}

#[test]
fn without_max_failed_the_first_failure_ends_the_job_and_is_its_message() {
    let (mut world, _) = World::with_nodes(1);
    let job = world.submit(&batch(3));
    let execution = slot(&world, job, 1);
    world.fail(execution);
    assert_eq!(world.state(job), JobStateType::Failed);
    assert!(world.message(job).starts_with("[1] on "), "{}", world.message(job));
    assert_eq!(stored(&world, job).1, "1");
}

#[test]
fn a_slot_fails_when_its_attempts_are_used_up_or_it_timed_out() {
    let (mut world, nodes) = World::with_nodes(1);
    let job = world.submit(&with_retries(tolerant(3, -1), 2));
    let retried = slot(&world, job, 0);
    world.fail(retried);
    assert_eq!(world.store.jobs[&job].failed_slots, 0, "it has another attempt");
    let slow = slot(&world, job, 1);
    world.run(slow);
    let message = "ran longer than ExecutionTimeout (2 s)";
    world.report_as(slow, ComputeState::Failed, FailureCause::Timeout, message);
    assert_eq!(stored(&world, job).1, "1", "no attempt follows a timeout");
    world.pass_with(Duration::from_secs(5), &nodes);
    let again = slot(&world, job, 0);
    world.fail(again);
    let last = slot(&world, job, 2);
    world.complete(last);
    assert_eq!(world.state(job), JobStateType::Failed);
    let expected = format!("2 of 3 indexes failed; the first, [1] on node: {message}");
    assert_eq!(world.message(job), expected);
}

#[test]
fn outcomes_and_the_first_failure_survive_restarts() {
    let (mut world, nodes) = World::with_nodes(1);
    let job = world.submit(&with_cpu(tolerant(5, 2), "2"));
    let (first, second) = (slot(&world, job, 0), slot(&world, job, 1));
    world.fail(first);
    world.complete(second);
    world.restart();
    world.heartbeat(nodes[0]);
    let third = slot(&world, job, 2);
    world.fail(third);
    assert_eq!(stored(&world, job).1, "0,2");
    while let Some(execution) = world.live(job).first().copied() {
        world.heartbeat(nodes[0]);
        world.complete(execution);
    }
    assert_eq!(world.state(job), JobStateType::Failed);
    let expected = "2 of 5 indexes failed; the first, [0] on ";
    assert!(world.message(job).starts_with(expected), "{}", world.message(job));
    assert_eq!(stored(&world, job).0, Tally { total: 5, completed: 3, failed: 2 });
}

#[test]
fn an_ops_job_goes_on_without_the_nodes_that_failed_or_were_lost() {
    let (mut world, nodes) = World::with_nodes(3);
    let filler = world.submit(&with_cpu(batch(3), "4"));
    let ops = world.submit(&JobSpec { max_failed: 2, ..job(JobType::Ops) });
    assert!(world.live(ops).is_empty(), "every node is full");
    // Its slot waits for a node that is forgotten.
    let held = world.live(filler);
    let lost = world.row(held[0]).node;
    let alive: Vec<_> = nodes.iter().copied().filter(|node| *node != lost).collect();
    for execution in held.into_iter().filter(|id| world.row(*id).node != lost).collect::<Vec<_>>() {
        world.complete(execution);
    }
    for execution in world.live(ops) {
        world.run(execution);
    }
    world.pass_with(Duration::from_secs(2000), &alive);
    assert_eq!(world.store.jobs[&ops].failed_slots, 1);
    assert!(world.message(ops).contains("cannot run: "), "{}", world.message(ops));
    let live = world.live(ops);
    assert_eq!(live.len(), 2);
    world.fail(live[0]);
    world.complete(live[1]);
    assert_eq!(world.state(ops), JobStateType::Failed);
    assert!(world.message(ops).starts_with("2 of 3 indexes failed; the first, ["));
    assert_eq!(stored(&world, ops).0, Tally { total: 3, completed: 1, failed: 2 });
}

/// Until a container starts, slots are tried one at a time; one that fails for good makes way.
#[test]
fn a_refused_container_fails_slot_after_slot() {
    let (mut world, nodes) = World::with_probed_nodes(2);
    let job = world.submit(&with_cpu(tolerant(3, -1), "3"));
    for _ in 0..600 {
        for execution in world.live(job) {
            world.report(execution, ComputeState::AskForBidAccepted);
            let refused = FailureCause::Refused;
            world.report_as(execution, ComputeState::Failed, refused, "no such device");
        }
        world.pass_with(Duration::from_secs(1), &nodes);
    }
    assert_eq!(world.state(job), JobStateType::Failed, "{}", world.message(job));
    assert_eq!(stored(&world, job).1, "0-2");
}

#[test]
fn a_large_array_stores_only_the_chunks_that_a_commit_touched() {
    let (mut world, _) = World::with_nodes(1);
    let job = world.submit(&with_cpu(tolerant(1_000_000, -1), "1"));
    for fails in [true, false, true] {
        let execution = world.live(job)[0];
        if fails { world.fail(execution) } else { world.complete(execution) }
    }
    let chunks: Vec<_> = world.store.outcomes.keys().collect();
    assert_eq!(chunks, [&(job, 0)]);
    assert_eq!(stored(&world, job).0, Tally { total: 1_000_000, completed: 1, failed: 2 });
    assert!(world.message(job).len() < 200, "{}", world.message(job));
}
