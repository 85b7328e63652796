//! The history of nodes: one event for each change, and none that repeats.

use std::time::Duration;

use api_types::execution::ComputeState;
use api_types::history::EventType;
use api_types::node::{HealthState, NodeAction};
use api_types::protocol::FailureCause;
use api_types::{NodeId, Timestamp};
use scheduler::change::EventSubject;
use scheduler::input::Input;
use scheduler::node_event::History;
use scheduler::silence::HeartbeatArrival;

use crate::specs::{batch, node};
use crate::world::{LEASE, World};

/// The changes in the history of a node, from its event `from` on.
fn changes(world: &World, id: NodeId, from: usize) -> Vec<(&'static str, &'static str)> {
    let events = world.store.node_history(id).into_iter().skip(from);
    let changes = events.map(|event| match event.subject {
        EventSubject::Node { previous, new, .. } => (previous.as_str(), new.as_str()),
        EventSubject::Job { .. } | EventSubject::Execution { .. } => panic!("{event:?}"),
    });
    changes.collect()
}

/// The comment of the last event.
fn last(world: &World, id: NodeId) -> String {
    world.store.node_history(id).last().expect("the node has joined").comment.to_string()
}

fn act(world: &mut World, node: NodeId, action: NodeAction, message: &str) {
    world.handle(Input::NodeAction { node, action, message: message.to_owned() });
}

fn beat(world: &mut World, node: NodeId, stalled: Duration) {
    let session = world.store.nodes[&node].session;
    let (at, granted, kept, probed) = (world.now, LEASE, None, None);
    let heard = HeartbeatArrival { node, session, at, stalled, granted, kept, probed };
    world.handle(Input::Heard(vec![heard]));
}

#[test]
fn a_node_joins_falls_silent_comes_back_and_is_forgotten() {
    let (mut world, nodes) = World::with_nodes(1);
    let id = nodes[0];
    assert_eq!(last(&world, id), "joined for the first time");
    world.rejoin(id, &node(4.0, 4_000_000_000, &[]));
    assert_eq!(last(&world, id), "joined again, with session 2");
    world.pass_with(LEASE * 3, &nodes);
    assert_eq!(world.store.node_history(id).len(), 2, "heartbeats are no events");
    world.pass(LEASE + Duration::from_secs(1));
    assert_eq!(last(&world, id), "its lease ended: no heartbeat for 30 s");
    world.rejoin(id, &node(4.0, 4_000_000_000, &[]));
    assert_eq!(last(&world, id), "is back, with session 3");
    world.pass(LEASE + Duration::from_secs(1));
    world.handle(Input::ForgetNode { node: id, now: false });
    assert_eq!(last(&world, id), "forgotten by an operator");
    let expected = [
        ("UNKNOWN", "CONNECTED"),
        ("CONNECTED", "CONNECTED"),
        ("CONNECTED", "DISCONNECTED"),
        ("DISCONNECTED", "CONNECTED"),
        ("CONNECTED", "DISCONNECTED"),
        ("DISCONNECTED", "UNKNOWN"),
    ];
    assert_eq!(changes(&world, id, 0), expected);
    let revisions = world.store.node_history(id).into_iter().map(|event| event.revision);
    assert!(revisions.eq(1..=6));

    // A new node under the old ID.
    world.rejoin(id, &node(4.0, 4_000_000_000, &[]));
    assert_eq!(changes(&world, id, 6), [("UNKNOWN", "CONNECTED")]);
    assert_eq!(world.store.nodes[&id].history.revision, 1);
    world.pass(LEASE + Duration::from_hours(1) + LEASE);
    assert_eq!(last(&world, id), "forgotten after it was away for 3630 s");
}

#[test]
fn an_operators_decisions_are_told_with_their_reasons() {
    let (mut world, nodes) = World::with_nodes(1);
    let id = nodes[0];
    act(&mut world, id, NodeAction::Cordon, "new disk");
    assert_eq!(last(&world, id), "cordoned: new disk");
    act(&mut world, id, NodeAction::Cordon, "new disk");
    act(&mut world, id, NodeAction::Uncordon, " ");
    assert_eq!(last(&world, id), "takes new work again");
    act(&mut world, id, NodeAction::Approve, "");
    act(&mut world, id, NodeAction::Reject, "stolen");
    assert_eq!(last(&world, id), "its session ended, because it was rejected");
    act(&mut world, id, NodeAction::Approve, "found");
    assert_eq!(last(&world, id), "approved: found");
    let expected = [
        ("ELIGIBLE", "CORDONED"),
        ("CORDONED", "ELIGIBLE"),
        ("APPROVED", "REJECTED"),
        ("CONNECTED", "DISCONNECTED"),
        ("REJECTED", "APPROVED"),
    ];
    assert_eq!(changes(&world, id, 1), expected, "what changes nothing is no event");
    assert_eq!(world.store.node_history(id)[3].comment, "rejected: stolen");
}

#[test]
fn a_drain_ends_with_the_last_execution() {
    let (mut world, nodes) = World::with_nodes(1);
    let id = nodes[0];
    let job = world.submit(&batch(1));
    let execution = world.only_live(job);
    world.run(execution);
    act(&mut world, id, NodeAction::Drain, "moves");
    assert_eq!(last(&world, id), "draining: moves");
    world.restart();
    world.report(execution, ComputeState::Completed);
    assert_eq!(last(&world, id), "no execution is left on it");
    act(&mut world, id, NodeAction::Uncordon, "");
    act(&mut world, id, NodeAction::Drain, "empty");
    let expected = [
        ("ELIGIBLE", "DRAINING"),
        ("DRAINING", "DRAINED"),
        ("DRAINED", "ELIGIBLE"),
        ("ELIGIBLE", "DRAINING"),
        ("DRAINING", "DRAINED"),
    ];
    assert_eq!(changes(&world, id, 1), expected);
}

#[test]
fn a_node_that_backs_off_is_told_without_the_words_of_any_execution() {
    let (mut world, nodes) = World::with_nodes(1);
    let id = nodes[0];
    for _ in 0..3 {
        let job = world.submit(&batch(1));
        let execution = world.only_live(job);
        let secret = "docker: no space for registry.example.com/secret:1";
        world.report_as(execution, ComputeState::Failed, FailureCause::Node, secret);
        world.stop(job);
    }
    let backs_off = "executions failed in a row through the node's fault; \
        it gets no new work for 10 s, then it is probed";
    assert_eq!(last(&world, id), backs_off);
    world.pass_with(Duration::from_secs(11), &nodes);
    let job = world.submit(&batch(1));
    let probe = world.only_live(job);
    world.report_as(probe, ComputeState::Failed, FailureCause::Node, "again");
    assert!(last(&world, id).starts_with("its probe failed"), "{}", last(&world, id));
    world.pass_with(Duration::from_secs(35), &nodes);
    let probe = world.only_live(job);
    world.complete(probe);
    let expected = [
        ("HEALTHY", "BACKING_OFF"),
        ("BACKING_OFF", "PROBING"),
        ("PROBING", "BACKING_OFF"),
        ("BACKING_OFF", "PROBING"),
        ("PROBING", "HEALTHY"),
    ];
    assert_eq!(changes(&world, id, 1), expected);
    let mut history = world.store.node_history(id).into_iter();
    assert!(history.all(|event| !event.comment.contains("secret")));
}

#[test]
fn a_stalled_agent_is_told_until_it_goes_on() {
    let (mut world, nodes) = World::with_nodes(1);
    let id = nodes[0];
    beat(&mut world, id, Duration::from_secs(6));
    beat(&mut world, id, Duration::from_secs(7));
    beat(&mut world, id, Duration::ZERO);
    assert_eq!(changes(&world, id, 1), [("HEALTHY", "STALLED"), ("STALLED", "HEALTHY")]);
    // It hangs while the orchestrator restarts, and is well when it joins again.
    beat(&mut world, id, Duration::from_secs(6));
    world.restart();
    world.rejoin(id, &node(4.0, 4_000_000_000, &[]));
    let expected = [("HEALTHY", "STALLED"), ("CONNECTED", "CONNECTED"), ("STALLED", "HEALTHY")];
    assert_eq!(changes(&world, id, 3), expected);
}

#[test]
fn a_heartbeat_alone_changes_no_record_and_wakes_nobody_up() {
    let (mut world, nodes) = World::with_nodes(1);
    let lease_began = world.now;
    let id = nodes[0];
    world.scheduler.take_touched_nodes();
    world.scheduler.take_heard_nodes();
    world.now = world.now + Duration::from_secs(1);
    beat(&mut world, id, Duration::ZERO);
    assert_eq!(world.scheduler.take_touched_nodes(), []);
    let heard = world.scheduler.take_heard_nodes();
    assert_eq!(heard.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [id]);
    assert_eq!(world.scheduler.take_heard_nodes(), []);
    let without = lease_began + LEASE;
    assert!(world.scheduler.next_wake(without) > without, "the lease has been renewed");
}

#[test]
fn a_stalled_agent_has_been_so_since_it_began_to_hang() {
    let (mut world, nodes) = World::with_nodes(1);
    let id = nodes[0];
    world.scheduler.take_touched_nodes();
    let wall = Timestamp(world.wall + world.now.0.cast_signed());
    let began = wall - Duration::from_secs(6);
    beat(&mut world, id, Duration::from_secs(6));
    world.now = world.now + Duration::from_secs(3);
    beat(&mut world, id, Duration::from_secs(9));
    let touched = world.scheduler.take_touched_nodes();
    let health = &touched[0].1.as_ref().expect("it is there").health;
    assert_eq!((health.state, &health.since), (HealthState::Stalled, &began.rfc3339()));
}

#[test]
fn a_restart_knows_which_agents_stall_until_they_say_otherwise() {
    let (mut world, nodes) = World::with_nodes(1);
    let id = nodes[0];
    beat(&mut world, id, Duration::from_secs(6));
    world.restart();
    let job = world.submit(&batch(1));
    beat(&mut world, id, Duration::from_secs(8));
    assert_eq!(world.executions(job), [], "a stalled node is offered nothing");
    beat(&mut world, id, Duration::ZERO);
    assert_eq!(world.executions(job).len(), 1);
    assert_eq!(changes(&world, id, 1), [("HEALTHY", "STALLED"), ("STALLED", "HEALTHY")]);
}

#[test]
fn a_restart_repeats_nothing_and_a_mass_silence_is_no_event_of_its_own() {
    let (mut world, nodes) = World::with_nodes(5);
    world.restart();
    world.pass(LEASE * 2);
    assert!(world.scheduler.is_mass_silence());
    world.restart();
    world.pass(LEASE * 10);
    for id in nodes {
        let expected = [("UNKNOWN", "CONNECTED"), ("CONNECTED", "DISCONNECTED")];
        assert_eq!(changes(&world, id, 0), expected);
        let said = last(&world, id);
        assert!(said.contains("; most nodes fell silent together, so nothing is"), "{said}");
    }
    let mut kinds = world.store.events.iter().map(|event| event.event_type());
    assert!(kinds.all(|kind| kind == EventType::NodeLevel));
    let sequences = world.store.events.iter().map(|event| event.seq);
    assert!(sequences.eq(1..=10));
}

#[test]
fn the_history_of_a_node_never_goes_back_in_time() {
    let (mut world, nodes) = World::with_nodes(1);
    world.wall -= 3_600_000_000_000;
    act(&mut world, nodes[0], NodeAction::Cordon, "");
    world.restart();
    act(&mut world, nodes[0], NodeAction::Uncordon, "");
    let times: Vec<_> =
        world.store.node_history(nodes[0]).into_iter().map(|event| event.time).collect();
    assert!(times.is_sorted(), "{times:?}");
}

#[test]
fn a_node_of_an_older_release_begins_its_history_with_what_happens_next() {
    let (mut world, nodes) = World::with_nodes(1);
    let id = nodes[0];
    let known = world.store.events.len();
    world.store.nodes.get_mut(&id).unwrap().history = History::default();
    world.restart();
    assert_eq!(world.store.events.len(), known);
    act(&mut world, id, NodeAction::Cordon, "");
    assert_eq!(changes(&world, id, 1), [("ELIGIBLE", "CORDONED")]);
    assert_eq!(world.store.nodes[&id].history.revision, 1);
}
