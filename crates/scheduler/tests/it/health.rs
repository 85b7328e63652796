//! Broken nodes and broken jobs: which budget each failure is charged to.

use std::collections::BTreeSet;
use std::time::Duration;

use api_types::execution::ComputeState;
use api_types::job::{JobStateType, JobType};
use api_types::protocol::FailureCause;
use api_types::{ExecutionId, NodeId};

use crate::specs::{batch, job, node, with_cpu, with_retries};
use crate::world::World;

/// Offers to the node that it has not answered yet.
fn offered(world: &World, on: NodeId) -> Vec<ExecutionId> {
    let rows = world.store.executions.values();
    rows.filter(|row| row.node == on && row.compute == ComputeState::AskForBid)
        .map(|row| row.id)
        .collect()
}

#[test]
fn a_broken_node_backs_off_and_a_backlog_completes_elsewhere() {
    let (mut world, nodes) = World::with_nodes(2);
    let [broken, good] = [nodes[0], nodes[1]];
    let jobs: Vec<_> = (0..100).map(|_| world.submit(&with_cpu(batch(1), "4"))).collect();
    for _ in 0..2000 {
        for execution in offered(&world, broken) {
            world.report_as(execution, ComputeState::Failed, FailureCause::Node, "docker: 500");
        }
        for execution in offered(&world, good) {
            world.run(execution);
        }
        let now = world.now;
        let rows = world.store.executions.values();
        let done: Vec<_> = rows
            .filter(|row| row.compute == ComputeState::BidAccepted)
            .filter(|row| row.started_at.is_some_and(|at| now.since(at).as_secs() >= 3))
            .map(|row| row.id)
            .collect();
        for execution in done {
            world.report(execution, ComputeState::Completed);
        }
        world.pass_with(Duration::from_secs(1), &nodes);
    }
    for job in jobs {
        assert_eq!(world.state(job), JobStateType::Completed, "{}", world.message(job));
    }
    let tries = world.store.executions.values().filter(|row| row.node == broken).count();
    assert!(tries < 40, "{tries} executions went to the broken node");
}

#[test]
fn what_failed_on_a_node_waits_for_another_one_that_is_busy() {
    let (mut world, nodes) = World::with_nodes(2);
    let [bad, busy] = [nodes[0], nodes[1]];
    let filler = world.submit(&with_cpu(batch(2), "4"));
    for execution in world.live(filler) {
        world.run(execution);
    }
    let waiting = world.submit(&with_cpu(batch(1), "4"));
    let on_bad = *world.live(filler).iter().find(|id| world.row(**id).node == bad).unwrap();
    world.report(on_bad, ComputeState::Completed);
    let first = world.only_live(waiting);
    world.report_as(first, ComputeState::Failed, FailureCause::Node, "docker: 500");
    assert!(world.live(waiting).is_empty(), "it does not go back to where it failed");
    assert_eq!(world.state(waiting), JobStateType::Queued);
    assert!(world.message(waiting).contains("docker: 500"), "{}", world.message(waiting));
    let on_busy = world.live(filler)[0];
    assert_eq!(world.row(on_busy).node, busy);
    world.report(on_busy, ComputeState::Completed);
    assert_eq!(world.row(world.only_live(waiting)).node, busy);
}

#[test]
fn a_misspelt_image_fails_its_own_job_and_no_node() {
    let (mut world, nodes) = World::with_nodes(5);
    let array = world.submit(&batch(1000));
    let good: Vec<_> = (0..20).map(|_| world.submit(&batch(1))).collect();
    for _ in 0..400 {
        for id in &nodes {
            for execution in offered(&world, *id) {
                if world.row(execution).job == array {
                    world.report(execution, ComputeState::AskForBidAccepted);
                    let why = "pull of 'busibox' failed: not found";
                    world.report_as(execution, ComputeState::Failed, FailureCause::Fetch, why);
                } else {
                    world.complete(execution);
                }
            }
        }
        world.pass_with(Duration::from_secs(1), &nodes);
    }
    assert_eq!(world.state(array), JobStateType::Failed);
    assert!(world.message(array).contains("busibox"), "{}", world.message(array));
    for job in good {
        assert_eq!(world.state(job), JobStateType::Completed);
    }
    for row in world.store.nodes.values() {
        assert!(row.health.is_well(), "{:?}", row.health);
    }
    let tries = world.executions(array).len();
    assert!(tries < 60, "the job is tried with one execution at a time, not {tries}");
}

#[test]
fn a_job_with_a_misspelt_image_is_still_tried_one_by_one_after_a_restart() {
    let (mut world, nodes) = World::with_nodes(5);
    let array = world.submit(&batch(1000));
    let fail = |world: &mut World, execution| {
        let why = "pull of 'busibox' failed: not found";
        world.report_as(execution, ComputeState::Failed, FailureCause::Fetch, why);
    };
    for execution in world.live(array) {
        fail(&mut world, execution);
    }
    world.restart();
    world.pass_with(Duration::from_secs(2), &nodes);
    let probe = world.only_live(array);
    world.restart();
    world.pass_with(Duration::from_secs(2), &nodes);
    assert_eq!(world.only_live(array), probe, "what is under way is the probe");
    fail(&mut world, probe);
    world.pass_with(Duration::from_secs(5), &nodes);
    let probe = world.only_live(array);
    world.run(probe);
    assert!(world.live(array).len() > 1, "the image can be had now");
}

#[test]
fn a_node_that_was_mended_takes_work_with_its_next_probe() {
    let (mut world, nodes) = World::with_nodes(1);
    let jobs: Vec<_> = (0..3).map(|_| world.submit(&with_retries(batch(1), 0))).collect();
    for job in &jobs {
        let execution = world.only_live(*job);
        world.report_as(execution, ComputeState::Failed, FailureCause::Node, "docker: 500");
    }
    let late = world.submit(&batch(1));
    assert!(world.live(late).is_empty());
    assert!(world.message(late).contains("backing off"), "{}", world.message(late));
    world.pass_with(Duration::from_secs(11), &nodes);
    let probe = world.only_live(late);
    world.complete(probe);
    assert!(world.store.nodes[&nodes[0]].health.is_well());
    world.pass_with(Duration::from_secs(20), &nodes);
    assert!(jobs.iter().all(|job| world.live(*job).len() == 1), "what failed is tried again");
}

#[test]
fn the_back_off_of_a_node_outlives_a_restart() {
    let (mut world, nodes) = World::with_nodes(1);
    for _ in 0..3 {
        let job = world.submit(&batch(1));
        let execution = world.only_live(job);
        world.report_as(execution, ComputeState::Failed, FailureCause::Node, "docker: 500");
    }
    world.restart();
    let late = world.submit(&batch(1));
    assert!(world.live(late).is_empty());
    world.pass_with(Duration::from_secs(11), &nodes);
    assert_eq!(world.live(late).len(), 1);
}

#[test]
fn results_that_cannot_be_published_fail_the_slot_and_run_nothing_again() {
    let (mut world, _) = World::with_nodes(2);
    let job = world.submit(&with_retries(batch(1), 3));
    let execution = world.only_live(job);
    world.run(execution);
    world.report_as(execution, ComputeState::Failed, FailureCause::Publish, "no such bucket");
    assert_eq!(world.state(job), JobStateType::Failed);
    assert_eq!(world.executions(job).len(), 1);
}

#[test]
fn each_execution_of_an_ops_job_gets_the_number_of_executions() {
    let (mut world, nodes) = World::with_nodes(3);
    world.submit(&job(JobType::Ops));
    for id in nodes {
        let counts: Vec<_> =
            world.snapshot(id).iter().filter_map(|change| Some(change.work?.count)).collect();
        assert_eq!(counts, [3]);
    }
    let counts = world.effects.iter().filter_map(|effect| match effect {
        scheduler::change::Effect::Assign { change, .. } => Some(change.work?.count),
        scheduler::change::Effect::CloseStream { .. } => None,
    });
    assert!(counts.collect::<Vec<_>>().iter().all(|count| *count == 3));
}

/// It matches; what keeps it from work passes by itself.
#[test]
fn an_ops_job_runs_on_a_node_that_backs_off_once_it_takes_work_again() {
    let (mut world, nodes) = World::with_nodes(1);
    let broken = nodes[0];
    for _ in 0..3 {
        world.submit(&batch(1));
        for execution in offered(&world, broken) {
            world.report_as(execution, ComputeState::Failed, FailureCause::Node, "docker: 500");
        }
    }
    let good = world.join_node(&node(4.0, 4_000_000_000, &[]));
    let ops = world.submit(&job(JobType::Ops));
    assert_eq!(world.row(world.only_live(ops)).node, good, "{}", world.message(ops));
    assert!(world.message(ops).contains("backing off"), "{}", world.message(ops));
    world.complete(world.only_live(ops));
    assert_eq!(world.state(ops), JobStateType::Queued, "it waits for the other node");
    world.pass_with(Duration::from_secs(11), &[broken, good]);
    for execution in offered(&world, broken) {
        world.complete(execution);
    }
    world.pass_with(Duration::from_secs(1), &[broken, good]);
    let ran: BTreeSet<_> = world.executions(ops).iter().map(|row| row.node).collect();
    assert_eq!(ran, BTreeSet::from([broken, good]));
}

#[test]
fn an_approval_keeps_the_deadline_of_a_drain() {
    let (mut world, nodes) = World::with_nodes(1);
    world.act(nodes[0], api_types::node::NodeAction::Drain);
    let deadline = world.store.nodes[&nodes[0]].drain_deadline;
    assert!(deadline.is_some());
    world.act(nodes[0], api_types::node::NodeAction::Approve);
    assert_eq!(world.store.nodes[&nodes[0]].drain_deadline, deadline);
    world.rejoin(nodes[0], &node(4.0, 4_000_000_000, &[]));
}
