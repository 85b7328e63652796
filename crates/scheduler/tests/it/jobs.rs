//! The lifecycle of a job.

use std::time::Duration;

use api_types::execution::{ComputeState, DesiredState};
use api_types::job::{JobStateType, JobType};
use api_types::protocol::FailureCause;
use scheduler::input::{Answer, Refusal};

use crate::specs::{batch, job, node, with_cpu, with_retries};
use crate::world::World;

/// A slow fetch is an event without a state change; a repeat changes nothing, and no trace of it
/// remains once the task runs.
#[test]
fn the_progress_of_a_fetch_is_recorded_in_the_history() {
    let (mut world, _) = World::with_nodes(1);
    let job = world.submit(&batch(1));
    let execution = world.only_live(job);
    let tell = |world: &mut World, message: &str| {
        let (state, cause) = (ComputeState::AskForBidAccepted, FailureCause::Task);
        world.report_as(execution, state, cause, message);
    };
    world.report(execution, ComputeState::AskForBidAccepted);
    for message in ["half", "half", "whole", ""] {
        tell(&mut world, message);
    }
    assert_eq!(world.row(execution).compute_message, "whole");
    world.report(execution, ComputeState::BidAccepted);
    assert_eq!(world.row(execution).compute_message, "");
    tell(&mut world, "too late");
    assert_eq!(
        world.steps(execution),
        [(1, 1, 1), (1, 2, 2), (2, 3, 3), (3, 3, 4), (3, 3, 5), (3, 3, 6), (3, 5, 7)]
    );
}

#[test]
fn an_execution_that_goes_well_has_six_steps() {
    let (mut world, _) = World::with_nodes(1);
    let job = world.submit(&batch(1));
    let execution = world.only_live(job);
    assert_eq!(world.state(job), JobStateType::Pending);
    world.report(execution, ComputeState::AskForBidAccepted);
    assert_eq!(world.desired(execution), DesiredState::Running);
    world.report(execution, ComputeState::BidAccepted);
    assert_eq!(world.state(job), JobStateType::Running);
    world.report(execution, ComputeState::Completed);
    assert_eq!(world.state(job), JobStateType::Completed);
    assert_eq!(
        world.steps(execution),
        [(1, 1, 1), (1, 2, 2), (2, 3, 3), (3, 3, 4), (3, 5, 5), (5, 7, 6)]
    );
    assert_eq!(
        world.job_steps(job),
        [JobStateType::Pending, JobStateType::Running, JobStateType::Completed]
    );
    assert_eq!(world.desired(execution), DesiredState::Stopped);
    assert_eq!(world.scheduler.live_jobs(), 0);
    assert_eq!(world.scheduler.live_executions(), 0);
}

#[test]
fn revisions_of_a_job_count_its_events_from_one() {
    let (mut world, _) = World::with_nodes(1);
    let job = world.submit(&batch(1));
    let execution = world.only_live(job);
    world.complete(execution);
    let revisions: Vec<_> = world
        .store
        .history(job, api_types::history::EventType::JobLevel)
        .iter()
        .map(|event| event.revision)
        .collect();
    assert_eq!(revisions, [1, 2, 3]);
    assert_eq!(world.store.jobs[&job].revision, 3);
}

#[test]
fn a_batch_is_completed_when_all_of_it_is() {
    let (mut world, _) = World::with_nodes(2);
    let job = world.submit(&batch(3));
    let live = world.live(job);
    assert_eq!(live.len(), 3);
    let mut indices: Vec<_> = live.iter().map(|id| world.row(*id).index).collect();
    indices.sort_unstable();
    assert_eq!(indices, [0, 1, 2]);
    world.complete(live[0]);
    world.complete(live[1]);
    assert_eq!(world.state(job), JobStateType::Running);
    world.complete(live[2]);
    assert_eq!(world.state(job), JobStateType::Completed);
}

#[test]
fn a_failed_execution_fails_its_batch_and_stops_the_rest() {
    let (mut world, nodes) = World::with_nodes(1);
    let job = world.submit(&batch(2));
    let live = world.live(job);
    world.run(live[1]);
    world.fail(live[0]);
    assert_eq!(world.state(job), JobStateType::Failed);
    assert!(world.message(job).contains("exit code 1"), "{}", world.message(job));
    assert_eq!(world.desired(live[1]), DesiredState::Stopped);
    assert_eq!(world.scheduler.live_jobs(), 1, "it is live until the last execution is gone");
    world.report(live[1], ComputeState::Cancelled);
    assert_eq!(world.scheduler.live_jobs(), 0);
    assert_eq!(world.on_node(nodes[0]), 0);
}

#[test]
fn a_timeout_fails_the_job_whatever_its_policy() {
    let (mut world, _) = World::with_nodes(1);
    let job = world.submit(&with_retries(batch(1), 5));
    let execution = world.only_live(job);
    world.run(execution);
    let message = "ran longer than ExecutionTimeout (2 s)";
    world.report_as(execution, ComputeState::Failed, FailureCause::Timeout, message);
    assert_eq!(world.state(job), JobStateType::Failed);
    assert!(world.message(job).contains(message), "{}", world.message(job));
}

#[test]
fn a_stopped_job_is_stopped_at_once_and_its_executions_follow() {
    let (mut world, _) = World::with_nodes(1);
    let job = world.submit(&batch(1));
    let execution = world.only_live(job);
    world.run(execution);
    assert!(matches!(world.stop(job), Answer::Stopped { .. }));
    assert_eq!(world.state(job), JobStateType::Stopped);
    assert_eq!(world.message(job), "stopped by request: enough");
    assert_eq!(world.desired(execution), DesiredState::Stopped);
    let again = world.stop(job);
    assert_eq!(world.refusal(again), Refusal::JobFinished { job, state: JobStateType::Stopped });
    world.report(execution, ComputeState::Cancelled);
    let gone = world.stop(job);
    assert_eq!(world.refusal(gone), Refusal::JobNotLive(job));
    assert_eq!(world.steps(execution).last(), Some(&(5, 9, 7)));
}

#[test]
fn an_execution_accepted_after_the_stop_is_not_wanted() {
    let (mut world, nodes) = World::with_nodes(1);
    let job = world.submit(&batch(1));
    let execution = world.only_live(job);
    world.stop(job);
    world.report(execution, ComputeState::AskForBidAccepted);
    assert_eq!(world.steps(execution), [(1, 1, 1), (1, 2, 2), (2, 2, 3), (2, 3, 4), (3, 6, 5)]);
    assert!(world.snapshot(nodes[0]).is_empty());
    assert_eq!(world.scheduler.live_jobs(), 0);
}

#[test]
fn repeated_and_late_reports_change_nothing() {
    let (mut world, _) = World::with_nodes(1);
    let job = world.submit(&batch(1));
    let execution = world.only_live(job);
    world.run(execution);
    let before = world.store.events.len();
    world.report(execution, ComputeState::AskForBidAccepted);
    world.report(execution, ComputeState::BidAccepted);
    assert_eq!(world.store.events.len(), before);
    world.report(execution, ComputeState::Completed);
    let before = world.store.events.len();
    world.report(execution, ComputeState::Failed);
    world.report(execution, ComputeState::Completed);
    assert_eq!(world.store.events.len(), before);
}

#[test]
fn an_ops_job_has_one_execution_on_every_matching_node() {
    let (mut world, nodes) = World::with_nodes(3);
    let ops = world.submit(&job(JobType::Ops));
    let mut placed: Vec<_> = world.executions(ops).iter().map(|row| row.node).collect();
    placed.sort();
    assert_eq!(placed, nodes);
    let late = world.join_node(&node(4.0, 4_000_000_000, &[]));
    assert_eq!(world.on_node(late), 0);
    for execution in world.live(ops) {
        world.complete(execution);
    }
    assert_eq!(world.state(ops), JobStateType::Completed);
}

#[test]
fn an_ops_job_that_no_node_matches_fails() {
    let (mut world, _) = World::with_nodes(1);
    let spec = super::specs::with_constraint(job(JobType::Ops), "zone", "b");
    let ops = world.submit(&spec);
    assert_eq!(world.state(ops), JobStateType::Failed);
    assert_eq!(
        world.message(ops),
        "no node matches when the job is placed: 1 of 1 node: label zone \
         (no node that has joined can ever take it)"
    );
    assert_eq!(world.scheduler.live_jobs(), 0);
}

#[test]
fn an_ops_execution_waits_for_its_own_node() {
    let (mut world, nodes) = World::with_nodes(2);
    let filler = world.submit(&with_cpu(batch(1), "4"));
    let full = world.row(world.only_live(filler)).node;
    let ops = world.submit(&job(JobType::Ops));
    assert_eq!(world.live(ops).len(), 1);
    let filling = world.only_live(filler);
    world.complete(filling);
    assert_eq!(world.live(ops).len(), 2);
    assert_eq!(world.on_node(full), 1);
    assert_eq!(nodes.len(), 2);
}

#[test]
fn a_service_keeps_its_count_running() {
    let (mut world, nodes) = World::with_nodes(2);
    let service = world.submit(&api_types::job::JobSpec { count: 2, ..job(JobType::Service) });
    let live = world.live(service);
    world.run(live[1]);
    world.complete(live[0]);
    assert_eq!(world.state(service), JobStateType::Running);
    assert_eq!(world.live(service).len(), 1, "the next run is delayed");
    world.pass_with(Duration::from_secs(2), &nodes);
    assert_eq!(world.live(service).len(), 2);
}

#[test]
fn a_daemon_covers_nodes_that_join_later() {
    let (mut world, _) = World::with_nodes(1);
    let daemon = world.submit(&job(JobType::Daemon));
    assert_eq!(world.live(daemon).len(), 1);
    let late = world.join_node(&node(4.0, 4_000_000_000, &[]));
    assert_eq!(world.on_node(late), 1);
    let rejoined = node(4.0, 4_000_000_000, &[]);
    world.rejoin(late, &rejoined);
    assert_eq!(world.on_node(late), 1);
}

#[test]
fn a_daemon_without_a_node_is_queued() {
    let mut world = World::new();
    let daemon = world.submit(&job(JobType::Daemon));
    assert_eq!(world.state(daemon), JobStateType::Queued);
    assert_eq!(world.message(daemon), "no node has joined");
    world.join_node(&node(4.0, 4_000_000_000, &[]));
    assert_eq!(world.state(daemon), JobStateType::Pending);
}

#[test]
fn total_timeout_ends_a_running_job() {
    let (mut world, nodes) = World::with_nodes(1);
    let mut spec = batch(1);
    spec.tasks[0].timeouts.total_timeout = 60;
    let job = world.submit(&spec);
    let execution = world.only_live(job);
    world.run(execution);
    world.pass_with(Duration::from_secs(59), &nodes);
    assert_eq!(world.state(job), JobStateType::Running);
    world.pass_with(Duration::from_secs(2), &nodes);
    assert_eq!(world.state(job), JobStateType::Failed);
    assert_eq!(world.message(job), "took longer than TotalTimeout (60 s)");
    assert_eq!(world.desired(execution), DesiredState::Stopped);
}

#[test]
fn queue_timeout_bounds_the_wait() {
    let (mut world, nodes) = World::with_nodes(1);
    let mut spec = with_cpu(batch(1), "8");
    spec.tasks[0].timeouts.queue_timeout = 10;
    let job = world.submit(&spec);
    assert_eq!(world.state(job), JobStateType::Queued);
    world.pass_with(Duration::from_secs(11), &nodes);
    assert_eq!(world.state(job), JobStateType::Failed);
    assert!(world.message(job).contains("QueueTimeout (10 s)"), "{}", world.message(job));
}

#[test]
fn an_id_that_is_live_is_taken() {
    let (mut world, _) = World::with_nodes(1);
    let spec = job(JobType::Service);
    let id = world.submit(&spec);
    let submit = scheduler::input::Submit::new(
        id,
        spec.clone().into(),
        control_plane::store::memory::spec_json(&spec),
    );
    let answer = world.handle(scheduler::input::Input::Submit(Box::new(submit)));
    assert_eq!(world.refusal(answer), Refusal::JobExists(id));
}
