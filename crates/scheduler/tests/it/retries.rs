//! The two retry budgets.

use std::time::Duration;

use api_types::execution::ComputeState;
use api_types::job::{JobStateType, JobType};
use api_types::protocol::FailureCause;
use scheduler::health::Health;

use crate::specs::{batch, in_namespace, job, node, with_cpu, with_retries};
use crate::world::World;

#[test]
fn a_failed_run_is_retried_after_a_delay_as_its_policy_says() {
    let (mut world, nodes) = World::with_nodes(1);
    let job = world.submit(&with_retries(batch(1), 3));
    for delay in [1, 2] {
        let failed = world.only_live(job);
        world.fail(failed);
        assert!(world.live(job).is_empty());
        assert_eq!(world.state(job), JobStateType::Running);
        let slot = world.store.pending_slots.values().next().unwrap().clone();
        assert_eq!(slot.due, Some(world.now + Duration::from_secs(delay)));
        assert_eq!(world.row(failed).followup, Some(slot.evaluation));
        world.pass_with(Duration::from_secs(delay), &nodes);
        let next = world.only_live(job);
        assert_eq!(world.row(next).previous, Some(failed));
        assert_eq!(world.row(next).evaluation, slot.evaluation);
    }
    let last = world.only_live(job);
    world.fail(last);
    assert_eq!(world.state(job), JobStateType::Failed);
    assert!(world.message(job).ends_with("exit code 1; no attempts left (3 of 3 used)"));
    assert!(world.store.pending_slots.is_empty());
}

#[test]
fn a_declined_execution_goes_to_another_node_at_once() {
    let (mut world, _) = World::with_nodes(2);
    let job = world.submit(&batch(1));
    let declined = world.only_live(job);
    world.report_as(
        declined,
        ComputeState::AskForBidRejected,
        FailureCause::Node,
        "no docker engine answers",
    );
    let next = world.only_live(job);
    assert_ne!(world.row(next).node, world.row(declined).node);
    assert_eq!(world.row(next).tries.attempt, 1);
    assert_eq!(world.row(next).tries.infra_failures, 1);
    assert_eq!(world.steps(declined).last(), Some(&(2, 4, 3)));
}

#[test]
fn failures_that_are_not_the_tasks_own_have_a_budget_of_their_own() {
    let (mut world, nodes) = World::with_nodes(1);
    // While another namespace has work, these failures say nothing of the node.
    let other = world.submit(&in_namespace("other", batch(1)));
    world.run(world.only_live(other));
    let job = world.submit(&batch(1));
    for round in 0..6 {
        let execution = world.only_live(job);
        assert_eq!(world.row(execution).tries.infra_failures, round);
        world.report(execution, ComputeState::AskForBidAccepted);
        world.report_as(execution, ComputeState::Failed, FailureCause::Node, "no such image");
        // Its exclusion doubles with each failure.
        world.pass_with(Duration::from_secs(30 << round) + Duration::from_secs(2), &nodes);
    }
    assert_eq!(world.state(job), JobStateType::Failed);
    assert!(
        world
            .message(job)
            .contains("no such image; failed 6 times for reasons unrelated to the task"),
        "{}",
        world.message(job)
    );
    assert_eq!(world.executions(job).len(), 6);
}

#[test]
fn on_the_only_node_what_failed_there_is_retried_when_its_exclusion_ends() {
    let (mut world, nodes) = World::with_nodes(1);
    let job = world.submit(&batch(1));
    let execution = world.only_live(job);
    world.report_as(execution, ComputeState::Failed, FailureCause::Node, "no such image");
    world.pass_with(Duration::from_secs(29), &nodes);
    assert!(world.live(job).is_empty());
    assert!(world.message(job).contains("no such image"), "{}", world.message(job));
    world.pass_with(Duration::from_secs(2), &nodes);
    assert_eq!(world.live(job).len(), 1);
}

#[test]
fn a_container_that_was_stopped_by_hand_is_tried_elsewhere() {
    let (mut world, _) = World::with_nodes(2);
    let job = world.submit(&batch(1));
    let execution = world.only_live(job);
    world.run(execution);
    world.report(execution, ComputeState::Cancelled);
    let next = world.only_live(job);
    assert_ne!(world.row(next).node, world.row(execution).node);
}

#[test]
fn a_limited_service_fails_when_its_attempts_are_used_up() {
    let (mut world, nodes) = World::with_nodes(1);
    let service = world.submit(&with_retries(job(JobType::Service), 2));
    let execution = world.only_live(service);
    world.fail(execution);
    world.pass_with(Duration::from_secs(2), &nodes);
    let execution = world.only_live(service);
    world.complete(execution);
    assert_eq!(world.state(service), JobStateType::Failed);
}

#[test]
fn a_service_with_unlimited_attempts_outlives_any_number_of_node_failures() {
    let (mut world, nodes) = World::with_nodes(3);
    let service = world.submit(&with_retries(job(JobType::Service), 0));
    for _ in 0..20 {
        let execution = world.only_live(service);
        world.run(execution);
        world.report_as(execution, ComputeState::Failed, FailureCause::Node, "docker is gone");
        let end = world.now + Duration::from_secs(1200);
        while world.live(service).is_empty() && world.now < end {
            world.pass_with(Duration::from_secs(5), &nodes);
        }
    }
}

#[test]
fn a_good_run_of_a_service_makes_the_next_delay_short_again() {
    let (mut world, nodes) = World::with_nodes(1);
    let service = world.submit(&job(JobType::Service));
    for delay in [1, 2, 4] {
        let execution = world.only_live(service);
        world.fail(execution);
        let due = world.store.pending_slots.values().next().unwrap().due;
        assert_eq!(due, Some(world.now + Duration::from_secs(delay)));
        world.pass_with(Duration::from_secs(delay), &nodes);
    }
    let execution = world.only_live(service);
    world.run(execution);
    world.pass_with(Duration::from_secs(61), &nodes);
    world.report(execution, ComputeState::Failed);
    let due = world.store.pending_slots.values().next().unwrap().due;
    assert_eq!(due, Some(world.now + Duration::from_secs(1)));
}

#[test]
fn a_job_that_ends_drops_the_retries_that_wait() {
    let (mut world, nodes) = World::with_nodes(1);
    let job = world.submit(&with_retries(batch(2), 2));
    let failed = world.live(job)[0];
    world.fail(failed);
    world.stop(job);
    assert!(world.store.pending_slots.is_empty());
    world.pass_with(Duration::from_secs(5), &nodes);
    assert_eq!(world.executions(job).len(), 2);
}

/// It holds what a task needs for one that the orchestrator has given up.
#[test]
fn what_a_node_has_no_room_for_runs_on_another_one_at_once() {
    let (mut world, nodes) = World::with_nodes(2);
    let small = world.submit(&with_cpu(batch(1), "1"));
    world.run(world.only_live(small));
    let fuller = world.row(world.only_live(small)).node;
    let job = world.submit(&with_cpu(batch(1), "2"));
    let offer = world.only_live(job);
    assert_ne!(world.row(offer).node, fuller, "emptier nodes come first");
    let (declined, room) = (ComputeState::AskForBidRejected, FailureCause::Room);
    world.report_as(offer, declined, room, "1 of its 2 GPUs are free");
    assert_eq!(world.row(world.only_live(job)).node, fuller);
    // Where there is no other node, the first is asked again a second later.
    world.report_as(world.only_live(job), declined, room, "none is free");
    assert!(world.live(job).is_empty());
    for _ in 0..20 {
        world.pass_with(Duration::from_secs(1), &nodes);
        world.report_as(world.only_live(job), declined, room, "none is free");
    }
    world.pass_with(Duration::from_secs(1), &nodes);
    world.complete(world.only_live(job));
    assert_eq!(world.state(job), JobStateType::Completed);
}

#[test]
fn no_slot_ends_agents_for_ever() {
    for job_type in [JobType::Batch, JobType::Service, JobType::Daemon] {
        let (mut world, nodes) = World::with_nodes(1);
        let id = world.submit(&job(job_type));
        for round in 0..6_u32 {
            let execution = world.only_live(id);
            world.run(execution);
            // A good run makes it no better.
            world.pass_with(Duration::from_secs(120), &nodes);
            world.ends_its_agent(execution);
            let health = &world.store.nodes[&nodes[0]].health;
            assert!(matches!(health, Health::Well), "{health:?}");
            world.pass_with(Duration::from_secs(30 << round) + Duration::from_secs(2), &nodes);
        }
        assert!(world.live(id).is_empty(), "{job_type}");
        assert_eq!(world.executions(id).len(), 6);
        let last = world.executions(id).pop().expect("six executions");
        assert_eq!(&*last.compute_message, "its agent ended");
        if job_type != JobType::Daemon {
            assert_eq!(world.state(id), JobStateType::Failed);
        }
        world.pass_with(Duration::from_secs(3600), &nodes);
        assert!(world.live(id).is_empty(), "{job_type}");
    }
}

#[test]
fn a_failure_names_the_index_and_the_node_and_equal_ones_are_counted() {
    let mut world = World::new();
    let named = |name: &str| {
        let record = node(1.0, 4_000_000_000, &[]);
        api_types::protocol::SessionRequest { name: name.to_owned(), ..record }
    };
    let nodes = ["node-a", "node-b", "node-c"].map(|name| world.join_node(&named(name)));
    let once = world.submit(&with_retries(with_cpu(batch(1), "1"), 1));
    world.fail(world.only_live(once));
    let message = world.message(once).to_owned();
    assert!(message.starts_with("[0] on node-") && message.ends_with(": exit code 1"), "{message}");

    let job = world.submit(&with_cpu(batch(3), "1"));
    let why = "cannot pull 'ghcr.io/acme/render:2.4': ghcr.io does not resolve";
    let mut message = String::new();
    for execution in world.live(job) {
        world.report_as(execution, ComputeState::Failed, FailureCause::Fetch, why);
        message = world.message(job).to_owned();
    }
    let counted = format!("{why} (3 nodes, 3 tries); next try ");
    assert!(message.starts_with(&counted), "{message}");
    assert_eq!(nodes.len(), 3);
}

/// A service whose process ends with 0 has ended all the same.
#[test]
fn a_service_that_ends_with_0_says_so_and_does_not_call_it_a_failure() {
    let (mut world, _) = World::with_nodes(1);
    let service = world.submit(&job(JobType::Service));
    let execution = world.only_live(service);
    world.complete(execution);
    let message = world.message(service);
    assert!(message.contains("ended with exit code 0"), "{message}");
    assert!(!message.contains("failed"), "{message}");
}

/// How often, since when, why, and what comes next: also while it runs until it fails again.
#[test]
fn a_service_in_a_crash_loop_says_so_until_a_run_lasts() {
    let (mut world, nodes) = World::with_nodes(1);
    let service = world.submit(&job(JobType::Service));
    for delay in [1, 2] {
        world.fail(world.only_live(service));
        world.pass_with(Duration::from_secs(delay), &nodes);
    }
    let running = world.only_live(service);
    let looping = world.message(service).to_owned();
    assert!(looping.starts_with("[0]: exit code 1 (1 node, 2 tries since 20"), "{looping}");
    assert!(looping.ends_with("Z); it is tried again"), "{looping}");
    world.run(running);
    assert_eq!(world.message(service), looping);
    world.report_as(running, ComputeState::Failed, FailureCause::Task, "exit code 1");
    let message = world.message(service);
    assert!(
        message.contains("3 tries since 20") && message.contains("; next try at "),
        "{message}"
    );
    world.pass_with(Duration::from_secs(4), &nodes);
    world.run(world.only_live(service));
    world.restart();
    assert!(world.message(service).contains("3 tries since 20"), "{}", world.message(service));
    world.pass_with(Duration::from_secs(59), &nodes);
    assert!(world.message(service).contains("3 tries since 20"), "{}", world.message(service));
    world.pass_with(Duration::from_secs(2), &nodes);
    assert_eq!(world.message(service), "", "the run has lasted");
    // Its next failure is the first of others.
    world.fail(world.only_live(service));
    let message = world.message(service);
    assert!(message.starts_with("[0] on ") && !message.contains("tries"), "{message}");
}

/// What an orchestrator counted before its restart is in the tries of the slot.
#[test]
fn a_crash_loop_is_counted_on_after_a_restart() {
    let (mut world, nodes) = World::with_nodes(1);
    let service = world.submit(&job(JobType::Service));
    for delay in [1, 2, 4] {
        world.fail(world.only_live(service));
        world.pass_with(Duration::from_secs(delay), &nodes);
    }
    world.restart();
    world.fail(world.only_live(service));
    assert!(world.message(service).contains("(1 node, 4 tries); "), "{}", world.message(service));
}

/// Its executions end anyway, and its message says what it waits for.
#[test]
fn a_batch_job_that_is_tried_again_has_nothing_to_say_while_it_runs() {
    let (mut world, nodes) = World::with_nodes(1);
    let job = world.submit(&with_retries(batch(1), 5));
    for delay in [1, 2, 4] {
        world.fail(world.only_live(job));
        world.pass_with(Duration::from_secs(delay), &nodes);
    }
    world.run(world.only_live(job));
    assert_eq!(world.message(job), "");
}
