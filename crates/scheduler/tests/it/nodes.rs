//! Sessions, leases, and operator actions on nodes.

use std::time::Duration;

use api_types::execution::{ComputeState, DesiredState};
use api_types::job::{JobStateType, JobType};
use api_types::node::{Connection, NodeAction};
use api_types::protocol::FailureCause;
use scheduler::input::{Answer, Input, Refusal};

use crate::specs::{batch, job, node};
use crate::world::{LEASE, World};

#[test]
fn a_lost_node_frees_its_executions_within_a_second_of_the_lease() {
    let (mut world, nodes) = World::with_nodes(2);
    let job = world.submit(&batch(1));
    let lost = world.only_live(job);
    world.run(lost);
    let (dead, alive) = match world.row(lost).node == nodes[0] {
        true => (nodes[0], nodes[1]),
        false => (nodes[1], nodes[0]),
    };
    world.pass_with(LEASE - Duration::from_secs(1), &[alive]);
    assert_eq!(world.only_live(job), lost);
    world.pass_with(Duration::from_secs(2), &[alive]);
    let replacement = world.only_live(job);
    assert_eq!(world.row(replacement).node, alive);
    assert_eq!(world.row(replacement).previous, Some(lost));
    assert_eq!(world.store.successors[&lost], replacement);
    assert_eq!(world.row(lost).compute, ComputeState::Failed);
    assert!(world.row(lost).compute_message.contains("no heartbeat for 30 s"));
    assert_eq!(world.row(lost).followup, Some(world.row(replacement).evaluation));
    assert_eq!(world.store.nodes[&dead].connection, Connection::Disconnected);
    assert_eq!(world.on_node(dead), 0);
}

#[test]
fn a_late_report_of_a_lost_execution_changes_nothing() {
    let (mut world, nodes) = World::with_nodes(1);
    let job = world.submit(&batch(1));
    let lost = world.only_live(job);
    world.run(lost);
    world.pass(LEASE + Duration::from_secs(1));
    let refused =
        world.send_report(nodes[0], lost, ComputeState::Completed, FailureCause::Task, "");
    assert_eq!(world.refusal(refused), Refusal::LeaseExpired(nodes[0]));
    world.rejoin(nodes[0], &node(4.0, 4_000_000_000, &[]));
    let replacement = world.only_live(job);
    let wanted: Vec<_> = world.snapshot(nodes[0]).iter().map(|a| a.execution).collect();
    assert_eq!(wanted, [replacement], "the lost one is not among what is desired");
    let before = world.store.events.len();
    world.report(lost, ComputeState::Completed);
    assert_eq!(world.store.events.len(), before);
    world.complete(replacement);
    assert_eq!(world.state(job), JobStateType::Completed);
}

#[test]
fn a_pause_of_the_orchestrator_costs_no_lease() {
    let (mut world, nodes) = World::with_nodes(2);
    let job = world.submit(&batch(2));
    for execution in world.live(job) {
        world.run(execution);
    }
    world.now = world.now + LEASE * 10;
    world.handle(Input::MissedHeartbeats(LEASE * 10));
    world.handle(Input::Tick);
    assert_eq!(world.store.nodes[&nodes[0]].connection, Connection::Connected);
    world.pass(LEASE - Duration::from_secs(1));
    assert_eq!(world.live(job).len(), 2);
    assert!(matches!(world.heartbeat(nodes[0]), Answer::Renewed { .. }));
    world.pass(Duration::from_secs(2));
    assert_eq!(world.store.nodes[&nodes[1]].connection, Connection::Disconnected);
}

#[test]
fn an_older_session_is_refused() {
    let (mut world, nodes) = World::with_nodes(1);
    let session = 1;
    world.rejoin(nodes[0], &node(4.0, 4_000_000_000, &[]));
    let answer = world.handle(Input::OpenAssignments { node: nodes[0], session });
    assert_eq!(
        world.refusal(answer),
        Refusal::StaleSession { node: nodes[0], came: 1, current: 2 }
    );
    let unknown = api_types::NodeId::from_uuid(world.id());
    let answer = world.handle(Input::OpenAssignments { node: unknown, session: 1 });
    assert_eq!(world.refusal(answer), Refusal::NoSuchNode(unknown));
}

#[test]
fn a_rejoin_keeps_what_the_node_runs() {
    let (mut world, nodes) = World::with_nodes(1);
    let job = world.submit(&batch(1));
    let execution = world.only_live(job);
    world.run(execution);
    world.rejoin(nodes[0], &node(4.0, 4_000_000_000, &[]));
    let snapshot = world.snapshot(nodes[0]);
    assert_eq!(snapshot.len(), 1);
    assert_eq!(snapshot[0].desired, DesiredState::Running);
    assert_eq!(snapshot[0].compute, ComputeState::BidAccepted);
    assert!(snapshot[0].work.is_some());
    world.report(execution, ComputeState::Completed);
    assert_eq!(world.state(job), JobStateType::Completed);
}

#[test]
fn a_cordoned_node_keeps_its_work_and_gets_no_more() {
    let (mut world, nodes) = World::with_nodes(1);
    let first = world.submit(&batch(1));
    world.act(nodes[0], NodeAction::Cordon);
    let second = world.submit(&batch(1));
    assert_eq!(world.message(second), "1 of 1 node: cordoned");
    let execution = world.only_live(first);
    world.complete(execution);
    assert_eq!(world.live(second).len(), 0);
    world.act(nodes[0], NodeAction::Uncordon);
    assert_eq!(world.live(second).len(), 1);
}

#[test]
fn a_drain_moves_services_and_lets_batch_work_finish() {
    let (mut world, nodes) = World::with_nodes(1);
    let service = world.submit(&job(JobType::Service));
    let finite = world.submit(&batch(1));
    let (moving, staying) = (world.only_live(service), world.only_live(finite));
    world.run(moving);
    world.run(staying);
    let refuge = world.join_node(&node(4.0, 4_000_000_000, &[]));
    world.act(nodes[0], NodeAction::Drain);
    assert_eq!(world.desired(moving), DesiredState::Stopped);
    assert_eq!(world.desired(staying), DesiredState::Running);
    world.report(moving, ComputeState::Cancelled);
    let moved = world.only_live(service);
    assert_eq!(world.row(moved).node, refuge);
    assert_eq!(world.row(moved).tries.attempt, 1, "a move costs no attempt");
    world.run(moved);
    world.pass_with(Duration::from_secs(3601), &[nodes[0], refuge]);
    assert_eq!(world.desired(staying), DesiredState::Stopped, "the deadline has passed");
    world.report(staying, ComputeState::Cancelled);
    assert_eq!(world.row(world.only_live(finite)).node, refuge);
}

#[test]
fn a_rejected_node_loses_its_work_and_may_not_return() {
    let (mut world, nodes) = World::with_nodes(2);
    world.submit(&batch(2));
    world.act(nodes[0], NodeAction::Reject);
    assert_eq!((world.on_node(nodes[0]), world.on_node(nodes[1])), (0, 2));
    let request = Box::new(node(4.0, 4_000_000_000, &[]));
    let answer = world.handle(Input::Join { node: nodes[0], request });
    assert_eq!(world.refusal(answer), Refusal::NodeRejected(nodes[0]));
    world.act(nodes[0], NodeAction::Approve);
    world.rejoin(nodes[0], &node(4.0, 4_000_000_000, &[]));
}

#[test]
fn only_a_disconnected_node_is_forgotten() {
    let (mut world, nodes) = World::with_nodes(1);
    let daemon = world.submit(&job(JobType::Daemon));
    let answer = world.handle(Input::ForgetNode { node: nodes[0], now: false });
    assert_eq!(world.refusal(answer), Refusal::NodeConnected(nodes[0]));
    world.pass(LEASE + Duration::from_secs(1));
    assert_eq!(world.handle(Input::ForgetNode { node: nodes[0], now: false }), Answer::Done);
    assert!(world.store.nodes.is_empty());
    assert!(world.store.pending_slots.is_empty());
    let answer = world.handle(Input::ForgetNode { node: nodes[0], now: false });
    assert_eq!(world.refusal(answer), Refusal::NoSuchNode(nodes[0]));
    let back = world.join_node(&node(4.0, 4_000_000_000, &[]));
    assert_eq!(world.on_node(back), 1);
    assert_eq!(world.live(daemon).len(), 1);
}

#[test]
fn a_daemon_waits_for_its_lost_node() {
    let (mut world, nodes) = World::with_nodes(1);
    let daemon = world.submit(&job(JobType::Daemon));
    let first = world.only_live(daemon);
    world.run(first);
    world.pass(LEASE + Duration::from_secs(1));
    world.pass(Duration::from_secs(7200));
    assert_eq!(world.live(daemon), [first], "there is no other node for it");
    assert!(world.message(daemon).contains("silent since"), "{}", world.message(daemon));
    world.rejoin(nodes[0], &node(4.0, 4_000_000_000, &[]));
    assert_eq!(world.live(daemon), [first], "nothing was stopped");
    assert_eq!(world.message(daemon), "");
}

#[test]
fn a_daemon_covers_a_node_again_that_was_forgotten_and_rejoined() {
    for restarted in [false, true] {
        let (mut world, nodes) = World::with_nodes(1);
        let daemon = world.submit(&job(JobType::Daemon));
        let first = world.only_live(daemon);
        world.run(first);
        world.pass(LEASE + Duration::from_secs(1));
        let forgotten = world.handle(Input::ForgetNode { node: nodes[0], now: true });
        assert_eq!(forgotten, Answer::Done);
        if restarted {
            world.restart();
        }
        world.rejoin(nodes[0], &node(4.0, 4_000_000_000, &[]));
        assert_ne!(world.only_live(daemon), first, "restarted: {restarted}");
    }
}

#[test]
fn an_ops_job_fails_with_its_lost_node() {
    let (mut world, nodes) = World::with_nodes(2);
    let ops = world.submit(&job(JobType::Ops));
    for execution in world.live(ops) {
        world.run(execution);
    }
    world.pass_with(Duration::from_secs(590), &nodes[..1]);
    assert_eq!(world.state(ops), JobStateType::Running, "giving up can only fail it");
    world.pass_with(Duration::from_secs(20), &nodes[..1]);
    assert_eq!(world.state(ops), JobStateType::Failed);
    assert!(world.message(ops).contains("an ops job stays on its original nodes"));
}

#[test]
fn a_node_that_stays_away_is_forgotten() {
    let (mut world, nodes) = World::with_nodes(2);
    world.pass_with(LEASE + Duration::from_secs(5), &nodes[..1]);
    assert_eq!(world.store.nodes.len(), 2);
    world.restart();
    let mut passed = Duration::ZERO;
    while passed < Duration::from_hours(1) {
        world.pass_with(Duration::from_secs(20), &nodes[..1]);
        passed += Duration::from_secs(20);
    }
    assert_eq!(world.store.nodes.keys().copied().collect::<Vec<_>>(), &nodes[..1]);
}

#[test]
fn an_ops_slot_that_waits_for_a_lost_node_fails_its_job() {
    let (mut world, nodes) = World::with_nodes(2);
    let filler = world.submit(&super::specs::with_cpu(batch(2), "4"));
    let ops = world.submit(&job(JobType::Ops));
    assert_eq!(world.state(ops), JobStateType::Queued);
    for execution in world.live(filler) {
        world.run(execution);
    }
    world.pass_with(LEASE + Duration::from_secs(5), &nodes[..1]);
    assert_eq!(world.state(ops), JobStateType::Queued);
    world.pass_with(Duration::from_secs(600), &nodes[..1]);
    assert_eq!(world.state(ops), JobStateType::Failed);
    assert!(world.message(ops).contains("an ops job stays on its original nodes"));
    assert!(world.store.pending_slots.values().all(|slot| slot.job == filler));
}

#[test]
fn an_ops_slot_whose_delay_ends_after_its_node_was_lost_fails_its_job() {
    let (mut world, nodes) = World::with_nodes(2);
    let mut spec = super::specs::with_retries(job(JobType::Ops), 2);
    spec.retry_policy.delay = 60;
    let ops = world.submit(&spec);
    let failed = *world.live(ops).iter().find(|id| world.row(**id).node == nodes[1]).unwrap();
    for other in world.live(ops) {
        world.run(other);
    }
    world.fail(failed);
    world.pass_with(Duration::from_secs(595), &nodes[..1]);
    assert_eq!(world.state(ops), JobStateType::Running);
    world.pass_with(Duration::from_secs(10), &nodes[..1]);
    assert_eq!(world.state(ops), JobStateType::Failed);
    assert!(world.message(ops).contains("its node was lost"), "{}", world.message(ops));
}
