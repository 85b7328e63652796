//! Nodes whose agents say whether they can run tasks.

use std::time::Duration;

use api_types::NodeId;
use api_types::history::NodeStateType;
use api_types::node::{HealthState, NodeAction};
use api_types::protocol::ProbeOutcome;
use scheduler::health::Health;
use scheduler::input::Answer;

use crate::specs::{batch, node, probed_node, with_cpu};
use crate::world::{LEASE, World};

const SECOND: Duration = Duration::from_secs(1);

/// Longer than an agent has for its answer.
const NO_ANSWER: Duration = Duration::from_secs(121);

/// Fails executions on the node until it backs off, and leaves no job.
fn break_node(world: &mut World, broken: NodeId) {
    for _ in 0..3 {
        let id = world.submit(&batch(1));
        let execution = world.only_live(id);
        assert_eq!(world.row(execution).node, broken);
        world.report_defect(execution);
        world.stop(id);
    }
    assert_eq!(back_off(world, broken), Some(10));
}

/// The length of the node's back-off in seconds, while it lasts.
fn back_off(world: &World, node: NodeId) -> Option<u64> {
    match &world.store.nodes[&node].health {
        Health::BackingOff { length, .. } => Some(length.as_secs()),
        _ => None,
    }
}

/// What the answer to a heartbeat asks for.
fn request(world: &mut World, node: NodeId) -> Option<u64> {
    match world.heartbeat(node) {
        Answer::Renewed { probe, .. } => probe,
        other => panic!("{other:?}"),
    }
}

/// The agent answers this request.
fn answer(world: &mut World, node: NodeId, probe: u64, failure: Option<&str>) {
    let failure = failure.map(ToOwned::to_owned);
    world.heartbeat_with(node, Some(ProbeOutcome { probe, failure }));
}

#[test]
fn a_node_that_was_mended_takes_work_with_its_first_probe_although_no_job_waits() {
    let (mut world, nodes) = World::with_probed_nodes(1);
    let node = nodes[0];
    break_node(&mut world, node);
    assert_eq!(request(&mut world, node), None, "not during the back-off");
    world.pass_with(Duration::from_secs(11), &nodes);
    let probe = request(&mut world, node).expect("the agent is asked");
    assert_eq!(request(&mut world, node), Some(probe), "until it has answered");
    let late = world.submit(&batch(1));
    assert!(world.live(late).is_empty(), "no job serves as a probe");
    assert!(world.message(late).contains("being probed"), "{}", world.message(late));
    answer(&mut world, node, probe, None);
    assert!(world.store.nodes[&node].health.is_well());
    assert_eq!(request(&mut world, node), None);
    world.complete(world.only_live(late));
}

#[test]
fn a_probe_that_fails_doubles_the_back_off_and_says_why() {
    let (mut world, nodes) = World::with_probed_nodes(1);
    let node = nodes[0];
    break_node(&mut world, node);
    for length in [20, 40, 80, 160, 300, 300] {
        let ends = Duration::from_secs(back_off(&world, node).expect("it backs off") + 1);
        world.pass_with(ends, &nodes);
        let probe = request(&mut world, node).expect("the agent is asked");
        answer(&mut world, node, probe, Some("no network for containers"));
        assert_eq!(back_off(&world, node), Some(length));
    }
    assert_eq!(world.back_offs, 7, "the first one, and each failed probe");
    let health = &world.store.nodes[&node].health;
    let reason = health.trouble().map(|trouble| trouble.reason.to_string());
    assert_eq!(reason.as_deref(), Some("no network for containers"));
}

#[test]
fn an_agent_that_never_answers_is_not_waited_for() {
    let (mut world, nodes) = World::with_probed_nodes(1);
    let node = nodes[0];
    break_node(&mut world, node);
    world.pass_with(Duration::from_secs(11), &nodes);
    let first = request(&mut world, node).expect("the agent is asked");
    world.pass_with(NO_ANSWER, &nodes);
    assert_eq!(back_off(&world, node), Some(20));
    world.pass_with(Duration::from_secs(21), &nodes);
    let second = request(&mut world, node).expect("it is asked again");
    assert_ne!(first, second);
    answer(&mut world, node, first, None);
    assert!(!world.store.nodes[&node].health.is_well(), "that answer comes too late");
    answer(&mut world, node, second, None);
    assert!(world.store.nodes[&node].health.is_well());
}

#[test]
fn an_agent_that_answers_falsely_backs_off_for_longer_with_each_lie() {
    let (mut world, nodes) = World::with_probed_nodes(1);
    let node = nodes[0];
    break_node(&mut world, node);
    for length in [20, 40, 80] {
        let ends = Duration::from_secs(back_off(&world, node).expect("it backs off") + 1);
        world.pass_with(ends, &nodes);
        let probe = request(&mut world, node).expect("the agent is asked");
        answer(&mut world, node, probe, None);
        for _ in 0..3 {
            let id = world.submit(&batch(1));
            world.report_defect(world.only_live(id));
            world.stop(id);
        }
        assert_eq!(back_off(&world, node), Some(length));
    }
}

#[test]
fn a_request_and_a_recovery_outlive_a_restart() {
    let (mut world, nodes) = World::with_probed_nodes(1);
    let node = nodes[0];
    break_node(&mut world, node);
    world.restart();
    assert_eq!(request(&mut world, node), None);
    world.pass_with(Duration::from_secs(11), &nodes);
    let probe = request(&mut world, node).expect("the agent is asked");
    world.restart();
    assert_eq!(request(&mut world, node), Some(probe));
    answer(&mut world, node, probe, None);
    world.restart();
    for _ in 0..3 {
        let id = world.submit(&batch(1));
        world.report_defect(world.only_live(id));
        world.stop(id);
    }
    assert_eq!(back_off(&world, node), Some(20), "the back-off continues to double");
}

#[test]
fn a_node_that_is_silent_when_it_would_be_asked_is_asked_when_it_is_back() {
    for passes in [LEASE + SECOND, Duration::from_mins(20)] {
        let (mut world, nodes) = World::with_probed_nodes(1);
        let node = nodes[0];
        break_node(&mut world, node);
        world.pass(passes);
        world.rejoin(node, &probed_node());
        world.pass_with(SECOND, &nodes);
        assert_eq!(back_off(&world, node), None, "its silence is no failed probe");
        assert!(request(&mut world, node).is_some());
    }
}

#[test]
fn a_node_that_falls_silent_over_its_probe_is_asked_anew() {
    let (mut world, nodes) = World::with_probed_nodes(1);
    let node = nodes[0];
    break_node(&mut world, node);
    world.pass_with(Duration::from_secs(11), &nodes);
    let first = request(&mut world, node).expect("the agent is asked");
    world.pass(NO_ANSWER);
    world.rejoin(node, &probed_node());
    world.pass_with(SECOND, &nodes);
    let second = request(&mut world, node).expect("it is asked again");
    assert_ne!(first, second);
    answer(&mut world, node, second, Some("no"));
    assert_eq!(back_off(&world, node), Some(20), "one failed probe");
}

#[test]
fn a_rejected_node_is_asked_when_it_is_back() {
    let (mut world, nodes) = World::with_probed_nodes(1);
    let node = nodes[0];
    break_node(&mut world, node);
    world.pass_with(Duration::from_secs(11), &nodes);
    assert!(request(&mut world, node).is_some());
    world.act(node, NodeAction::Reject);
    world.pass(NO_ANSWER);
    world.act(node, NodeAction::Approve);
    world.rejoin(node, &probed_node());
    world.pass_with(SECOND, &nodes);
    assert!(request(&mut world, node).is_some());
}

#[test]
fn an_agent_of_another_release_is_probed_in_its_own_way() {
    let (mut world, nodes) = World::with_probed_nodes(1);
    let id = nodes[0];
    break_node(&mut world, id);
    world.pass_with(Duration::from_secs(11), &nodes);
    assert!(request(&mut world, id).is_some());
    let waiting = world.submit(&batch(1));
    let older = node(4.0, 4_000_000_000, &[]);
    world.rejoin(id, &older);
    assert_eq!(request(&mut world, id), None);
    let probe = world.only_live(waiting);
    assert!(world.store.nodes[&id].health.trouble().is_some());
    world.rejoin(id, &probed_node());
    let asked = request(&mut world, id).expect("the agent is asked again");
    world.complete(probe);
    assert!(!world.store.nodes[&id].health.is_well(), "the agent decides");
    answer(&mut world, id, asked, None);
    assert!(world.store.nodes[&id].health.is_well());
}

#[test]
fn what_runs_on_a_node_that_backs_off_does_not_end_the_back_off() {
    let (mut world, nodes) = World::with_probed_nodes(1);
    let node = nodes[0];
    let jobs: Vec<_> = (0..4).map(|_| world.submit(&with_cpu(batch(1), "0.5"))).collect();
    world.report_defect(world.only_live(jobs[0]));
    let later = world.submit(&with_cpu(batch(1), "0.5"));
    world.run(world.only_live(later));
    world.report_defect(world.only_live(jobs[1]));
    world.report_defect(world.only_live(jobs[2]));
    assert_eq!(back_off(&world, node), Some(10));
    world.report(world.only_live(later), api_types::execution::ComputeState::Completed);
    assert_eq!(back_off(&world, node), Some(10), "only a probe ends it");
}

#[test]
fn the_record_and_the_history_of_a_node_say_what_is_asked() {
    let (mut world, nodes) = World::with_probed_nodes(1);
    let id = nodes[0];
    break_node(&mut world, id);
    world.pass_with(Duration::from_secs(11), &nodes);
    let touched = world.scheduler.take_touched_nodes();
    let (_, record) = touched.into_iter().find(|(node, _)| *node == id).expect("it changed");
    let health = record.expect("it is there").health;
    assert_eq!((health.state, &*health.reason), (HealthState::Probing, "docker: 500"));
    let last = *world.store.node_history(id).last().expect("it has one");
    assert!(last.comment.starts_with("its agent is asked"), "{}", last.comment);
    let probe = request(&mut world, id).expect("the agent is asked");
    answer(&mut world, id, probe, None);
    let states: Vec<_> = world
        .store
        .node_history(id)
        .into_iter()
        .filter_map(|event| match event.subject {
            scheduler::change::EventSubject::Node { new, .. } => Some(new),
            _ => None,
        })
        .collect();
    let expected =
        [NodeStateType::BackingOff, NodeStateType::Probing, NodeStateType::Healthy].as_slice();
    assert!(states.ends_with(expected), "{states:?}");
}
