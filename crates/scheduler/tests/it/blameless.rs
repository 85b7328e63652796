//! What is no one's failure: it costs neither a slot its tries nor a node its health.

use std::time::Duration;

use api_types::execution::ComputeState;
use api_types::job::{JobStateType, JobType};
use api_types::node::NodeAction;
use api_types::protocol::FailureCause;
use api_types::{ExecutionId, NodeId};
use scheduler::Settings;
use scheduler::health::Health;
use scheduler::input::{Answer, Input};

use crate::specs::{batch, job, node, with_cpu, with_retries};
use crate::world::{LEASE, SETTINGS, World};

/// Longer than an offer waits for its answer.
const OFFER: Duration = Duration::from_secs(16);
const SECOND: Duration = Duration::from_secs(1);

/// A lease that ends before offers do.
const SHORT: Settings = Settings { lease: Duration::from_secs(10), ..SETTINGS };

fn offers(world: &World) -> Vec<ExecutionId> {
    let rows = world.store.executions.values();
    rows.filter(|row| row.compute == ComputeState::AskForBid).map(|row| row.id).collect()
}

/// Fails executions of several jobs on the node until it backs off.
fn break_node(world: &mut World, broken: NodeId) {
    for _ in 0..3 {
        let id = world.submit(&batch(1));
        let execution = world.only_live(id);
        assert_eq!(world.row(execution).node, broken);
        world.report_as(execution, ComputeState::Failed, FailureCause::Node, "docker: 500");
        world.stop(id);
    }
    assert!(matches!(world.store.nodes[&broken].health, Health::BackingOff { .. }));
}

#[test]
fn offers_that_are_out_while_the_orchestrator_is_paused_wait_as_long_again() {
    let (mut world, nodes) = World::with_nodes(2);
    let jobs: Vec<_> = (0..4).map(|_| world.submit(&batch(1))).collect();
    let offered = offers(&world);
    assert_eq!(offered.len(), 4);
    world.now = world.now + OFFER;
    world.handle(Input::MissedHeartbeats(OFFER));
    world.handle(Input::Tick);
    assert_eq!(offers(&world), offered, "the answers may have come during the pause");
    world.pass_with(OFFER, &nodes);
    assert!(jobs.iter().all(|job| world.executions(*job).len() > 1), "now no node answered");
}

#[test]
fn offers_that_left_late_because_of_a_slow_commit_wait_as_long_again() {
    let (mut world, _) = World::with_nodes(1);
    let id = world.submit(&batch(1));
    let decided = world.now;
    world.now = decided + OFFER;
    world.scheduler.held_up(world.now, OFFER);
    world.handle(Input::Tick);
    assert_eq!(offers(&world), world.live(id));
    world.complete(world.only_live(id));
    assert_eq!(world.executions(id).len(), 1);
}

#[test]
fn an_offer_that_is_out_over_a_restart_is_taken_back_in_time() {
    let (mut world, nodes) = World::with_nodes(2);
    let id = world.submit(&batch(1));
    let offered = world.only_live(id);
    world.restart();
    world.pass_with(OFFER, &nodes);
    assert_eq!(world.row(offered).compute, ComputeState::Cancelled);
    assert_ne!(world.row(world.only_live(id)).node, world.row(offered).node);
}

#[test]
fn an_ops_job_waits_for_a_silent_node_that_had_not_answered_its_offer() {
    let (mut world, nodes) = World::with_nodes(2);
    world.restart_with(SHORT);
    let id = world.submit(&job(JobType::Ops));
    let [silent, alive] = [nodes[0], nodes[1]];
    let on = |world: &World, node| {
        world.live(id).into_iter().find(|execution| world.row(*execution).node == node)
    };
    world.complete(on(&world, alive).expect("one on each node"));
    world.pass_with(Duration::from_secs(500), &[alive]);
    assert_eq!(world.state(id), JobStateType::Queued, "{}", world.message(id));
    world.rejoin(silent, &node(4.0, 4_000_000_000, &[]));
    world.complete(on(&world, silent).expect("it is offered again"));
    assert_eq!(world.state(id), JobStateType::Completed);

    let id = world.submit(&job(JobType::Ops));
    let on_alive = world.live(id).into_iter().find(|id| world.row(*id).node == alive);
    world.complete(on_alive.expect("one on each node"));
    world.pass_with(Duration::from_secs(620), &[alive]);
    assert_eq!(world.state(id), JobStateType::Failed, "no job waits for ever");
}

#[test]
fn a_task_that_ends_machines_ends_however_long_each_silence_is_waited_for() {
    let (mut world, nodes) = World::with_nodes(1);
    let mut spec = batch(1);
    spec.tasks[0].timeouts.lost_after = 60;
    let id = world.submit(&spec);
    for _ in 0..6 {
        assert_eq!(world.executions(id).iter().filter(|row| !row.compute.is_terminal()).count(), 1);
        world.run(world.only_live(id));
        world.pass(Duration::from_secs(70));
        world.rejoin(nodes[0], &node(4.0, 4_000_000_000, &[]));
    }
    assert_eq!(world.state(id), JobStateType::Failed, "{}", world.message(id));
}

#[test]
fn an_operator_who_rejects_or_forgets_nodes_costs_no_tries() {
    let mut world = World::new();
    let mut id = None;
    for round in 0..7 {
        let record = node(4.0, 4_000_000_000, &[]);
        let member = world.join_node(&record);
        let id = *id.get_or_insert_with(|| world.submit(&batch(1)));
        world.run(world.only_live(id));
        if round % 2 == 0 {
            world.act(member, NodeAction::Reject);
        } else {
            world.pass(LEASE + SECOND);
            let answer = world.handle(Input::ForgetNode { node: member, now: true });
            assert_eq!(answer, Answer::Done);
        }
    }
    let id = id.expect("submitted");
    assert_eq!(world.state(id), JobStateType::Queued, "{}", world.message(id));
}

#[test]
fn what_an_operator_has_given_up_stays_so_over_a_restart() {
    const MANY: u32 = 600;
    let mut world = World::new();
    let large = node(1000.0, 1_000_000_000_000, &[]);
    let [rejected, forgotten] = [0, 1].map(|_| world.join_node(&large));
    let id = world.submit(&with_cpu(batch(2 * MANY), "0.1"));
    world.pass(SECOND);
    for execution in world.live(id) {
        world.run(execution);
    }
    world.pass_with(LEASE + SECOND, &[rejected]);
    world.act(rejected, NodeAction::Reject);
    let answer = world.handle(Input::ForgetNode { node: forgotten, now: true });
    assert_eq!(answer, Answer::Done);
    assert!(!world.live(id).is_empty(), "a turn gives up a part");
    world.restart();
    world.pass(SECOND);
    assert!(world.live(id).is_empty(), "{} are left", world.live(id).len());
    assert!(!world.store.nodes.contains_key(&forgotten));
}

#[test]
fn a_try_on_a_probed_node_costs_nothing_unless_the_job_is_to_blame() {
    for (cause, ends) in [(FailureCause::Node, false), (FailureCause::Fetch, true)] {
        let (mut world, nodes) = World::with_nodes(1);
        break_node(&mut world, nodes[0]);
        let id = world.submit(&batch(1));
        for _ in 0..10 {
            while world.live(id).is_empty() && world.state(id) == JobStateType::Queued {
                world.pass_with(SECOND, &nodes);
            }
            for execution in world.live(id) {
                world.report_as(execution, ComputeState::Failed, cause, "no");
            }
        }
        assert_eq!(world.state(id) == JobStateType::Failed, ends, "{}", world.message(id));
    }
}

#[test]
fn daemons_cover_a_node_that_was_being_probed_when_they_were_submitted() {
    let (mut world, nodes) = World::with_nodes(1);
    break_node(&mut world, nodes[0]);
    let [first, second] = [0, 1].map(|_| world.submit(&job(JobType::Daemon)));
    world.pass_with(OFFER, &nodes);
    let probe = world.only_live(first);
    let late = world.submit(&job(JobType::Daemon));
    assert_eq!(offers(&world), [probe]);
    world.run(probe);
    world.pass_with(OFFER, &nodes);
    for id in [second, late] {
        assert_eq!(world.live(id).len(), 1, "{}", world.message(id));
    }
}

#[test]
fn daemons_cover_a_node_that_recovered_just_before_a_restart() {
    let (mut world, nodes) = World::with_nodes(1);
    break_node(&mut world, nodes[0]);
    let probing = world.submit(&batch(1));
    world.pass_with(OFFER, &nodes);
    let probe = world.only_live(probing);
    let late = world.submit(&job(JobType::Daemon));
    assert_eq!(offers(&world), [probe]);
    world.complete(probe);
    world.restart();
    assert_eq!(world.live(late).len(), 1, "{}", world.message(late));
}

#[test]
fn a_daemon_covers_a_node_that_was_forgotten_and_is_approved_after_a_restart() {
    let (mut world, nodes) = World::with_nodes(1);
    let id = world.submit(&job(JobType::Daemon));
    world.run(world.only_live(id));
    world.pass(LEASE + SECOND);
    let answer = world.handle(Input::ForgetNode { node: nodes[0], now: true });
    assert_eq!(answer, Answer::Done);
    let settings = Settings { approve_new_nodes: false, ..SETTINGS };
    world.restart_with(settings);
    world.pass(SECOND);
    world.rejoin(nodes[0], &node(4.0, 4_000_000_000, &[]));
    world.restart_with(settings);
    assert!(world.live(id).is_empty());
    world.act(nodes[0], NodeAction::Approve);
    assert_eq!(world.live(id).len(), 1);
}

#[test]
fn a_drain_of_thousands_of_services_goes_on_over_several_turns_and_a_restart() {
    const MANY: u32 = 1200;
    let mut world = World::new();
    let large = node(1000.0, 1_000_000_000_000, &[]);
    let drained = world.join_node(&large);
    let mut spec = with_cpu(job(JobType::Service), "0.1");
    spec.count = MANY;
    let id = world.submit(&spec);
    world.pass(SECOND);
    for execution in world.live(id) {
        world.run(execution);
    }
    world.bound = Some(4 * 512);
    world.act(drained, NodeAction::Drain);
    let wanted = |world: &World| {
        let rows = world.executions(id);
        rows.iter().filter(|row| row.desired != api_types::execution::DesiredState::Stopped).count()
    };
    assert!(wanted(&world) > 0, "a turn stops a part");
    world.restart();
    world.pass(SECOND);
    assert_eq!(wanted(&world), 0);
}

#[test]
fn a_job_in_a_retry_delay_stays_away_from_no_node() {
    let (mut world, nodes) = World::with_nodes(1);
    let mut spec = with_retries(batch(1), 2);
    spec.retry_policy.delay = 60;
    let id = world.submit(&spec);
    world.fail(world.only_live(id));
    let standing = world.scheduler.standing(id).expect("a live job");
    let chance = standing.nodes.iter().find(|chance| chance.node_id == nodes[0]);
    assert_eq!(chance.expect("its chance").reason, "has room");
}

#[test]
fn a_waiting_slot_says_when_it_is_tried_again() {
    let (mut world, nodes) = World::with_nodes(1);
    let id = world.submit(&with_retries(batch(1), 2));
    world.report_as(world.only_live(id), ComputeState::Failed, FailureCause::Fetch, "no image x");
    assert!(world.message(id).contains("no image x; next try at "), "{}", world.message(id));

    world.stop(id);
    let other = world.join_node(&node(1.0, 4_000_000_000, &[]));
    world.pass_with(Duration::from_secs(60), &[nodes[0], other]);
    let filler = world.submit(&with_cpu(batch(1), "4"));
    let id = world.submit(&with_cpu(batch(1), "1"));
    world.report_as(world.only_live(id), ComputeState::AskForBidAccepted, FailureCause::Task, "");
    world.run(world.only_live(filler));
    let small = world.submit(&with_cpu(batch(1), "1"));
    world.report_as(world.only_live(id), ComputeState::Failed, FailureCause::Node, "docker: 500");
    assert!(
        world.message(id).contains("docker: 500; next try on another node, or there from "),
        "{} {small}",
        world.message(id)
    );
}
