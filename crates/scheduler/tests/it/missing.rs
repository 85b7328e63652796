//! Jobs that name a secret or credentials which do not exist.

use std::time::Duration;

use api_types::JobId;
use api_types::execution::ComputeState;
use api_types::job::{JobSpec, JobStateType, JobType};
use api_types::node::NodeAction;
use api_types::protocol::FailureCause;
use api_types::secret::TaskSecret;
use scheduler::input::Input;

use crate::specs::{batch, job};
use crate::world::World;

/// The job, which names a secret of this namespace.
fn naming(mut spec: JobSpec, namespace: &str) -> JobSpec {
    namespace.clone_into(&mut spec.namespace);
    let path = "/run/secrets/db".to_owned();
    let secret = TaskSecret { name: "db".to_owned(), path, env: String::new() };
    spec.tasks[0].secrets.push(secret);
    spec
}

/// Every execution of the job that is to start finds nothing; returns how many.
fn find_nothing(world: &mut World, job: JobId) -> usize {
    let live = world.live(job);
    for execution in &live {
        world.report(*execution, ComputeState::AskForBidAccepted);
        let message = "secret 'db' does not exist";
        world.report_as(*execution, ComputeState::Failed, FailureCause::Missing, message);
    }
    live.len()
}

fn provide(world: &mut World, namespace: &str) {
    world.handle(Input::Provided { namespace: namespace.to_owned() });
    world.handle(Input::Tick);
}

#[test]
fn a_job_waits_for_what_does_not_exist_however_long_and_no_node_is_avoided() {
    let (mut world, nodes) = World::with_nodes(1);
    let job = world.submit(&naming(batch(3), "prod"));
    assert_eq!(find_nothing(&mut world, job), 3);
    // One at a time, after the delays of its policy: 1 s, doubled up to 60 s.
    let mut probes = 0;
    for _ in 0..3600 {
        world.pass_with(Duration::from_secs(1), &nodes);
        let live = find_nothing(&mut world, job);
        assert!(live <= 1, "{live} at the same time");
        probes += live;
    }
    assert!((60..70).contains(&probes), "{probes} probes in an hour");
    assert_eq!(world.state(job), JobStateType::Pending);
    let message = world.message(job);
    assert!(message.contains("secret 'db' does not exist (1 node, "), "{message}");
    let slots: Vec<_> = world.store.pending_slots.values().map(|slot| slot.tries.clone()).collect();
    assert!(slots.iter().all(|tries| tries.infra_failures == 0 && tries.exclusions.0.is_empty()));

    // And starts as a whole once one of them found it.
    while world.live(job).is_empty() {
        world.pass_with(Duration::from_secs(1), &nodes);
    }
    world.run(world.only_live(job));
    assert_eq!(world.live(job).len(), 3);
}

#[test]
fn what_appears_starts_the_jobs_of_its_namespace_at_once() {
    let (mut world, nodes) = World::with_nodes(2);
    let jobs = ["prod", "test"].map(|namespace| world.submit(&naming(batch(2), namespace)));
    let plain = world.submit(&batch(1));
    for round in 0..6 {
        for job in jobs {
            find_nothing(&mut world, job);
        }
        world.pass_with(Duration::from_secs(1 << round), &nodes);
    }
    for job in jobs {
        find_nothing(&mut world, job);
    }
    provide(&mut world, "prod");
    let started = world.only_live(jobs[0]);
    assert!(world.live(jobs[1]).is_empty(), "nothing has appeared in its namespace");
    world.run(started);
    assert_eq!(world.live(jobs[0]).len(), 2);
    assert_eq!(world.live(plain).len(), 1);
    // A job that has ended waits for nothing.
    world.handle(Input::Stop { job: jobs[1], reason: String::new() });
    provide(&mut world, "test");
    assert!(world.live(jobs[1]).is_empty());
}

#[test]
fn a_job_on_every_node_waits_and_starts_on_each() {
    for job_type in [JobType::Ops, JobType::Daemon] {
        let (mut world, nodes) = World::with_nodes(3);
        let job = world.submit(&naming(job(job_type), "prod"));
        for round in 0..8 {
            assert_eq!(find_nothing(&mut world, job), 3, "round {round}");
            assert!(world.live(job).is_empty(), "not immediately again");
            world.pass_with(Duration::from_secs((1 << round).min(60)), &nodes);
        }
        find_nothing(&mut world, job);
        assert!(world.live(job).is_empty());
        provide(&mut world, "prod");
        assert_eq!(world.live(job).len(), 3, "{job_type:?}");
    }
}

#[test]
fn what_appears_starts_nothing_where_a_node_has_just_failed() {
    for job_type in [JobType::Ops, JobType::Daemon] {
        let (mut world, nodes) = World::with_nodes(3);
        let job = world.submit(&naming(job(job_type), "prod"));
        let broken = world.live(job)[0];
        world.report(broken, ComputeState::AskForBidAccepted);
        world.report_as(broken, ComputeState::Failed, FailureCause::Node, "no Docker");
        assert_eq!(find_nothing(&mut world, job), 2);
        // The new process does not know for what the slots waited.
        world.restart();
        world.pass_with(Duration::from_secs(2), &nodes);
        assert_eq!(find_nothing(&mut world, job), 2, "{job_type:?}");
        provide(&mut world, "prod");
        let started = world.live(job);
        assert_eq!(started.len(), 2, "{job_type:?}");
        started.into_iter().for_each(|execution| world.run(execution));
        for _ in 0..30 {
            world.pass_with(Duration::from_secs(1), &nodes);
        }
        assert_eq!(world.live(job).len(), 3, "{job_type:?}");
    }
}

#[test]
fn what_appears_while_an_execution_looks_for_it_is_noticed() {
    let (mut world, nodes) = World::with_nodes(1);
    let mut spec = naming(batch(1), "prod");
    (spec.retry_policy.delay, spec.retry_policy.max_delay) = (3600, 3600);
    let job = world.submit(&spec);
    // The execution has asked already, and its report is on the way.
    provide(&mut world, "prod");
    assert_eq!(find_nothing(&mut world, job), 1);
    world.pass_with(Duration::from_secs(2), &nodes);
    assert_eq!(find_nothing(&mut world, job), 1, "it looks once more");
    world.pass_with(Duration::from_secs(60), &nodes);
    assert!(world.live(job).is_empty(), "and then waits");
}

#[test]
fn a_job_that_misses_something_is_still_tried_one_by_one_after_a_restart() {
    let (mut world, nodes) = World::with_nodes(5);
    let job = world.submit(&naming(batch(1000), "prod"));
    assert!(find_nothing(&mut world, job) > 1);
    world.restart();
    world.pass_with(Duration::from_secs(2), &nodes);
    assert_eq!(find_nothing(&mut world, job), 1);
    provide(&mut world, "prod");
    world.run(world.only_live(job));
    assert!(world.live(job).len() > 1);
}

#[test]
fn what_appears_before_a_restart_is_noticed_after_it() {
    for job_type in [JobType::Batch, JobType::Ops] {
        let (mut world, nodes) = World::with_nodes(1);
        let mut spec = naming(job(job_type), "prod");
        (spec.retry_policy.delay, spec.retry_policy.max_delay) = (3600, 3600);
        let waiting = world.submit(&spec);
        assert_eq!(find_nothing(&mut world, waiting), 1);
        // The new process does not know which jobs wait for what.
        world.restart();
        world.pass_with(Duration::from_secs(2), &nodes);
        assert_eq!(find_nothing(&mut world, waiting), 1, "{job_type:?}");
        provide(&mut world, "prod");
        assert_eq!(world.live(waiting).len(), 1, "{job_type:?}");
    }
}

/// Another slot of the job may try again before, where there is no room for it.
#[test]
fn what_appears_starts_a_slot_that_waits_on_its_node_longer_than_its_job() {
    for job_type in [JobType::Ops, JobType::Daemon] {
        let (mut world, nodes) = World::with_nodes(2);
        let mut spec = naming(job(job_type), "prod");
        (spec.retry_policy.delay, spec.retry_policy.max_delay) = (3600, 3600);
        let waiting = world.submit(&spec);
        assert_eq!(find_nothing(&mut world, waiting), 2);
        world.act(nodes[1], NodeAction::Cordon);
        world.restart();
        assert_eq!(find_nothing(&mut world, waiting), 1, "something may have appeared");
        world.act(nodes[0], NodeAction::Cordon);
        world.pass(Duration::from_millis(100));
        world.act(nodes[1], NodeAction::Uncordon);
        assert_eq!(find_nothing(&mut world, waiting), 1);
        world.pass_with(Duration::from_secs(2), &nodes);
        provide(&mut world, "prod");
        assert_eq!(world.live(waiting).len(), 1, "{job_type:?}");
        world.act(nodes[0], NodeAction::Uncordon);
        assert_eq!(world.live(waiting).len(), 2, "{job_type:?}");
    }
}

#[test]
fn a_node_that_misses_what_no_job_names_is_avoided() {
    let (mut world, _) = World::with_nodes(2);
    let job = world.submit(&batch(1));
    let lied = world.only_live(job);
    world.report(lied, ComputeState::AskForBidAccepted);
    world.report_as(lied, ComputeState::Failed, FailureCause::Missing, "nothing is there");
    let next = world.only_live(job);
    assert_ne!(world.row(next).node, world.row(lied).node);
    assert_eq!(world.row(next).tries.infra_failures, 1);
}
