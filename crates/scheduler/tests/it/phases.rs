//! What follows from an event, and in which order.

use api_types::execution::{ComputeState, DesiredState};
use api_types::job::{JobSpec, JobStateType};
use api_types::protocol::FailureCause;
use scheduler::change::Effect;

use crate::specs::{batch, with_cpu, with_retries};
use crate::world::World;

fn with_priority(spec: JobSpec, priority: u32) -> JobSpec {
    JobSpec { priority, ..spec }
}

#[test]
fn freed_room_goes_to_the_best_rank_and_not_to_the_slot_that_freed_it() {
    let (mut world, _) = World::with_nodes(1);
    let mut again = with_retries(with_cpu(batch(1), "4"), 3);
    again.retry_policy.delay = 0;
    let again = world.submit(&again);
    world.run(world.only_live(again));
    let better = world.submit(&with_priority(with_cpu(batch(1), "4"), 90));
    assert!(world.live(better).is_empty(), "the node is full");
    let failed = world.only_live(again);
    world.report_as(failed, ComputeState::Failed, FailureCause::Task, "exit code 1");
    assert!(world.live(again).is_empty(), "it waits for its next attempt");
    world.complete(world.only_live(better));
    world.complete(world.only_live(again));
    assert_eq!(world.state(again), JobStateType::Completed);
}

#[test]
fn stops_are_sent_before_offers() {
    let (mut world, _) = World::with_nodes(1);
    let stopped = world.submit(&with_cpu(batch(2), "2"));
    let [first, second] = world.live(stopped).try_into().expect("both are placed");
    world.run(first);
    world.run(second);
    let next = world.submit(&with_cpu(batch(1), "2"));
    world.effects.clear();
    world.report_as(first, ComputeState::Failed, FailureCause::Timeout, "too long");
    let offered = world.only_live(next);
    let sent: Vec<_> = world
        .effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Assign { change, .. } => Some((change.execution, change.desired)),
            Effect::CloseStream { .. } => None,
        })
        .collect();
    assert_eq!(sent, [(second, DesiredState::Stopped), (offered, DesiredState::Pending)]);
}

#[test]
fn a_job_whose_start_is_reported_with_its_end_was_running_in_between() {
    let (mut world, _) = World::with_nodes(1);
    let job = world.submit(&batch(1));
    let execution = world.only_live(job);
    world.report(execution, ComputeState::AskForBidAccepted);
    world.report(execution, ComputeState::Completed);
    let states = world.job_steps(job);
    assert_eq!(states[states.len() - 2..], [JobStateType::Running, JobStateType::Completed]);
}

#[test]
fn several_changes_of_a_job_by_one_event_are_one_entry_in_its_history() {
    let (mut world, _) = World::with_nodes(2);
    let job = world.submit(&with_cpu(batch(8), "1"));
    assert_eq!(world.live(job).len(), 8);
    assert_eq!(world.comments(job), ["submitted"], "eight placements change nothing of the job");
    for execution in world.live(job) {
        world.run(execution);
    }
    assert_eq!(world.comments(job), ["submitted", "an execution runs"]);
}
