//! Two agents on copies of one data directory.

use std::time::Duration;

use api_types::execution::ComputeState;
use api_types::job::JobStateType;
use api_types::node::GivenLabels;
use api_types::protocol::{AgentProcess, FailureCause, SessionRequest};
use api_types::{Code, NodeId};
use scheduler::input::{Answer, Input};

use crate::specs::{batch, node};
use crate::world::{LEASE, World};

/// A process of the agent on this machine.
fn process(machine: &str, started: u64) -> SessionRequest {
    boot(machine, "boot", started)
}

fn boot(machine: &str, boot: &str, started: u64) -> SessionRequest {
    let (machine, boot) = (machine.to_owned(), boot.to_owned());
    let process = AgentProcess { machine, boot, started };
    SessionRequest { process: Some(process), ..node(4.0, 4_000_000_000, &[]) }
}

fn join(world: &mut World, id: NodeId, request: &SessionRequest) -> Answer {
    world.handle(Input::Join { node: id, request: Box::new(request.clone()) })
}

fn is_refused(world: &mut World, id: NodeId, request: &SessionRequest) -> bool {
    match join(world, id, request) {
        Answer::Refused(refusal) => {
            assert_eq!(refusal.code(), Code::NodeConflict);
            assert!(refusal.to_string().contains("runs on 'first'"), "{refusal}");
            true
        }
        Answer::Joined { .. } => false,
        answer => panic!("{answer:?}"),
    }
}

fn shown(world: &mut World, id: NodeId) -> Option<String> {
    // A change, so that the node is among those that changed.
    world.handle(Input::LabelNode { node: id, given: GivenLabels::default() });
    let touched = world.scheduler.take_touched_nodes();
    let (_, node) = touched.into_iter().find(|(touched, _)| *touched == id).expect("it changed");
    node.expect("the node is known").refused_agent.map(|refused| refused.machine)
}

#[test]
fn the_later_one_of_two_agents_is_refused_once_the_earlier_one_is_seen_alive() {
    let mut world = World::new();
    let (first, second) = (process("first", 1), process("second", 1));
    let id = world.join_node(&first);
    world.pass_with(LEASE, &[id]);
    world.rejoin(id, &second);
    assert_eq!(shown(&mut world, id), None, "it may be a restart");
    world.rejoin(id, &first);
    assert_eq!(shown(&mut world, id), None, "its request may have been under way for long");
    // It has its new session, so it is alive.
    world.snapshot(id);
    assert_eq!(shown(&mut world, id).as_deref(), Some("second"));
    let last = world.store.node_history(id).last().unwrap().comment.to_string();
    assert!(last.contains("a second agent on 'second' has the identity of this node"), "{last}");
    assert!(is_refused(&mut world, id, &second));
    let events = world.store.node_history(id).len();
    for _ in 0..10 {
        world.pass_with(Duration::from_secs(5), &[id]);
        assert!(is_refused(&mut world, id, &second));
    }
    assert_eq!(shown(&mut world, id).as_deref(), Some("second"));
    assert_eq!(world.store.node_history(id).len(), events, "it is recorded once");
    // No one tries any more.
    world.pass_with(Duration::from_mins(11), &[id]);
    assert_eq!(shown(&mut world, id), None);
}

#[test]
fn a_refused_agent_that_is_started_again_is_refused_without_taking_over() {
    let mut world = World::new();
    let first = process("first", 1);
    let id = world.join_node(&first);
    for request in [&process("second", 1), &first] {
        world.rejoin(id, request);
    }
    world.heartbeat(id);
    for started in 2..5 {
        assert!(is_refused(&mut world, id, &process("second", started)));
    }
    // The first is started again too, and others may follow it on other machines.
    world.rejoin(id, &process("first", 2));
    world.heartbeat(id);
    world.rejoin(id, &process("third", 1));
}

#[test]
fn an_agent_on_another_machine_changes_nothing_while_the_earlier_one_may_be_alive() {
    let mut world = World::new();
    let (first, second) = (process("first", 1), process("second", 1));
    let id = world.join_node(&first);
    let job = world.submit(&batch(1));
    let execution = world.only_live(job);
    world.run(execution);
    world.rejoin(id, &second);
    // It has no such container.
    let lost = |world: &mut World| {
        world.send_report(id, execution, ComputeState::Failed, FailureCause::Node, "it is gone")
    };
    let answer = lost(&mut world);
    assert_eq!(world.refusal(answer).code(), Code::TooManyRequests);
    world.rejoin(id, &first);
    world.heartbeat(id);
    assert!(is_refused(&mut world, id, &second));
    assert_eq!(world.live(job), [execution]);
    world.complete(execution);
    assert_eq!(world.state(job), JobStateType::Completed);
}

#[test]
fn a_machine_that_restarts_within_its_lease_reports_half_a_lease_later() {
    let mut world = World::new();
    let id = world.join_node(&process("first", 1));
    let job = world.submit(&batch(1));
    let execution = world.only_live(job);
    world.run(execution);
    let rebooted = boot("first", "another boot", 1);
    world.rejoin(id, &rebooted);
    let lost = |world: &mut World| {
        world.send_report(id, execution, ComputeState::Failed, FailureCause::Node, "it is gone")
    };
    assert!(matches!(lost(&mut world), Answer::Refused(_)));
    world.pass_with(LEASE / 2, &[id]);
    assert!(matches!(lost(&mut world), Answer::Acknowledged(_)));
    assert_eq!(shown(&mut world, id), None);
    // One that was silent for longer does not wait, nor does an upgrade.
    world.pass(LEASE + Duration::from_secs(1));
    world.rejoin(id, &boot("first", "a third boot", 1));
    assert!(matches!(lost(&mut world), Answer::Acknowledged(_)));
    world.rejoin(id, &boot("first", "a third boot", 2));
    assert!(matches!(lost(&mut world), Answer::Acknowledged(_)));
}

#[test]
fn a_refused_agent_joins_when_the_other_one_has_gone() {
    let mut world = World::new();
    let (first, second) = (process("first", 1), process("second", 1));
    let id = world.join_node(&first);
    for request in [&second, &first] {
        world.rejoin(id, request);
    }
    world.heartbeat(id);
    assert!(is_refused(&mut world, id, &second));
    world.pass(LEASE + Duration::from_secs(1));
    assert!(!is_refused(&mut world, id, &second));
    assert_eq!(shown(&mut world, id), None);
}

#[test]
fn an_agent_that_restarts_is_never_refused() {
    let mut world = World::new();
    let id = world.join_node(&process("first", 0));
    for started in 1..20 {
        let request = process("first", started);
        world.rejoin(id, &request);
        // Its record changes.
        world.rejoin(id, &request);
        world.snapshot(id);
        world.heartbeat(id);
        if started % 5 == 0 {
            world.restart();
        }
        assert_eq!(shown(&mut world, id), None);
    }
    // A request of an earlier process arrives late; that process is dead.
    let dead = process("first", 18);
    assert!(!is_refused(&mut world, id, &dead));
    world.rejoin(id, &process("first", 19));
    world.heartbeat(id);
    assert_eq!(shown(&mut world, id), None);
    assert!(!is_refused(&mut world, id, &process("first", 20)));
}

#[test]
fn a_machine_that_was_suspended_for_long_is_the_later_one() {
    let mut world = World::new();
    let (suspended, successor) = (process("suspended", 1), process("first", 2));
    let id = world.join_node(&suspended);
    world.rejoin(id, &successor);
    world.pass_with(Duration::from_mins(11), &[id]);
    world.rejoin(id, &suspended);
    world.heartbeat(id);
    world.rejoin(id, &successor);
    world.heartbeat(id);
    assert_eq!(shown(&mut world, id).as_deref(), Some("suspended"));
    assert!(is_refused(&mut world, id, &suspended));
}

#[test]
fn agents_of_older_releases_are_taken_for_one() {
    let mut world = World::new();
    let id = world.join_node(&node(4.0, 4_000_000_000, &[]));
    for request in [process("first", 1), node(4.0, 4_000_000_000, &[]), process("first", 1)] {
        world.rejoin(id, &request);
        world.heartbeat(id);
        assert_eq!(shown(&mut world, id), None);
    }
}
