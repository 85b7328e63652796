//! A server says that something does not exist or is not allowed: known after two tries.

use std::time::Duration;

use api_types::execution::ComputeState;
use api_types::job::{JobSpec, JobStateType, JobType};
use api_types::protocol::{FailureCause, Report};
use api_types::{ExecutionId, JobId};
use scheduler::input::Input;

use crate::specs::batch;
use crate::world::World;

const MINUTE: Duration = Duration::from_secs(60);

fn refuse(world: &mut World, execution: ExecutionId, definite: bool) {
    world.report(execution, ComputeState::AskForBidAccepted);
    let node = world.row(execution).node;
    let report = Report {
        cause: FailureCause::Fetch,
        definite,
        message: "manifest unknown".to_owned(),
        ..Report::new(execution, 9, ComputeState::Failed)
    };
    let session = world.store.nodes[&node].session;
    world.handle(Input::Reports { node, session, reports: vec![report] });
}

/// Answers every execution like this until the job is over, or for this long.
fn answer(world: &mut World, job: JobId, definite: bool, time: Duration) -> usize {
    let nodes: Vec<_> = world.store.nodes.keys().copied().collect();
    let mut passed = Duration::ZERO;
    while passed < time && !world.state(job).is_terminal() {
        for execution in world.live(job) {
            if world.live(job).contains(&execution) {
                refuse(world, execution, definite);
            }
        }
        world.pass_with(Duration::from_secs(1), &nodes);
        passed += Duration::from_secs(1);
    }
    world.executions(job).len()
}

fn of_type(job_type: JobType, count: u32) -> JobSpec {
    JobSpec { job_type, ..batch(count) }
}

#[test]
fn two_nodes_hear_it_and_the_job_has_failed() {
    let (mut world, _) = World::with_nodes(2);
    let job = world.submit(&batch(1));
    let first = world.only_live(job);
    let node = world.row(first).node;
    refuse(&mut world, first, true);
    let second = world.only_live(job);
    assert_ne!(world.row(second).node, node, "the second try is elsewhere");
    refuse(&mut world, second, true);
    assert_eq!(world.state(job), JobStateType::Failed);
    let message = world.message(job);
    assert!(message.contains("manifest unknown; the answer is definite"), "{message}");
}

#[test]
fn the_only_node_hears_it_twice_within_a_minute() {
    for job_type in [JobType::Batch, JobType::Ops] {
        let (mut world, _) = World::with_nodes(1);
        let job = world.submit(&of_type(job_type, 1));
        let tries = answer(&mut world, job, true, MINUTE);
        assert_eq!((world.state(job), tries), (JobStateType::Failed, 2), "{job_type}");
    }
}

#[test]
fn an_array_fails_as_soon_as_a_single_execution() {
    let (mut world, _) = World::with_nodes(2);
    let job = world.submit(&batch(40));
    answer(&mut world, job, true, MINUTE);
    assert_eq!(world.state(job), JobStateType::Failed);
}

#[test]
fn services_only_wait_and_so_do_answers_that_may_pass() {
    for (job_type, definite) in [
        (JobType::Service, true),
        (JobType::Daemon, true),
        (JobType::Batch, false),
        (JobType::Ops, false),
    ] {
        let (mut world, _) = World::with_nodes(2);
        let job = world.submit(&of_type(job_type, 1));
        answer(&mut world, job, definite, MINUTE);
        assert!(!world.state(job).is_terminal(), "{job_type}: {}", world.message(job));
    }
}

#[test]
fn a_node_that_can_fetch_it_takes_the_place_of_one_that_cannot() {
    let (mut world, _) = World::with_nodes(2);
    let job = world.submit(&batch(1));
    let first = world.only_live(job);
    refuse(&mut world, first, true);
    let second = world.only_live(job);
    world.run(second);
    world.fail(second);
    assert_eq!(world.state(job), JobStateType::Failed, "by its own failure");
    assert!(!world.message(job).contains("definite"), "{}", world.message(job));
}

/// All of its slots need the same, so none of them could complete.
#[test]
fn it_fails_a_batch_job_that_allows_any_number_of_failures() {
    let (mut world, _) = World::with_nodes(2);
    let job = world.submit(&JobSpec { max_failed: -1, ..batch(40) });
    answer(&mut world, job, true, MINUTE);
    assert_eq!(world.state(job), JobStateType::Failed);
    assert!(world.message(job).contains("the answer is definite"), "{}", world.message(job));
    assert_eq!(world.store.jobs[&job].failed_slots, 1);
}
