//! Silent nodes: what the scheduler waits for, and for how long.

use std::time::Duration;

use api_types::execution::ComputeState;
use api_types::job::{JobStateType, JobType};
use api_types::node::Connection;
use api_types::{ExecutionId, JobId, NodeId};
use scheduler::Settings;
use scheduler::change::Effect;
use scheduler::input::{Input, Refusal};
use scheduler::silence::HeartbeatArrival;

use crate::specs::{batch, job, node};
use crate::world::{LEASE, SETTINGS, World};

const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);
/// A disk that stalls for a moment.
const PAUSE: Duration = Duration::from_millis(700);

#[test]
fn a_run_of_an_hour_outlives_a_minute_of_silence_and_ends_once() {
    let (mut world, nodes) = World::with_nodes(2);
    let long = world.submit(&batch(1));
    let execution = world.only_live(long);
    world.run(execution);
    world.pass_with(HOUR, &nodes);
    let silent = world.row(execution).node;
    let others: Vec<_> = nodes.iter().copied().filter(|other| *other != silent).collect();
    world.pass_with(MINUTE, &others);
    assert_eq!(world.store.nodes[&silent].connection, Connection::Disconnected);
    assert_eq!(world.live(long), [execution], "72 seconds are its patience");
    assert!(world.message(long).contains("silent since"), "{}", world.message(long));
    world.rejoin(silent, &node(4.0, 4_000_000_000, &[]));
    assert_eq!(world.message(long), "");
    world.report(execution, ComputeState::Completed);
    assert_eq!(world.state(long), JobStateType::Completed);
    assert_eq!(world.executions(long).len(), 1);
}

#[test]
fn a_job_that_says_so_is_replaced_sooner() {
    let (mut world, nodes) = World::with_nodes(2);
    let mut spec = batch(1);
    spec.tasks[0].timeouts.lost_after = 10;
    let long = world.submit(&spec);
    let execution = world.only_live(long);
    world.run(execution);
    world.pass_with(HOUR, &nodes);
    let silent = world.row(execution).node;
    let others: Vec<_> = nodes.iter().copied().filter(|other| *other != silent).collect();
    world.pass_with(LEASE + Duration::from_secs(6), &others);
    assert_ne!(world.only_live(long), execution);
}

#[test]
fn an_offer_that_a_silent_node_never_answered_is_not_waited_for() {
    let (mut world, nodes) = World::with_nodes(1);
    let ops = world.submit(&batch(1));
    let offered = world.only_live(ops);
    world.pass(Duration::from_secs(16));
    assert_eq!(world.row(offered).compute, ComputeState::Cancelled);
    let is_asked = world.effects.iter().any(
        |effect| matches!(effect, Effect::Assign { change, .. } if change.execution == offered),
    );
    assert!(is_asked, "its node is asked to stop it");
    world.report(offered, ComputeState::AskForBidAccepted);
    assert_eq!(world.row(offered).compute, ComputeState::Cancelled, "too late");
    assert_eq!(world.store.nodes[&nodes[0]].connection, Connection::Connected);
}

#[test]
fn unwanted_work_ends_with_the_lease() {
    let (mut world, nodes) = World::with_nodes(1);
    let long = world.submit(&batch(1));
    let execution = world.only_live(long);
    world.run(execution);
    world.pass_with(HOUR, &nodes);
    world.stop(long);
    world.pass(LEASE + Duration::from_secs(1));
    assert_eq!(world.row(execution).compute, ComputeState::Cancelled);
    assert!(!world.store.jobs[&long].live);
}

#[test]
fn a_silent_node_is_forgotten_only_when_its_work_is_given_up() {
    let (mut world, nodes) = World::with_nodes(1);
    let daemon = world.submit(&job(JobType::Daemon));
    let execution = world.only_live(daemon);
    world.run(execution);
    world.pass(LEASE + Duration::from_secs(1));
    let refused = world.handle(Input::ForgetNode { node: nodes[0], now: false });
    let busy = Refusal::NodeBusy { node: nodes[0], executions: 1 };
    assert_eq!(world.refusal(refused), busy);
    world.handle(Input::ForgetNode { node: nodes[0], now: true });
    assert_eq!(world.row(execution).compute, ComputeState::Failed);
    for restarts in [false, true] {
        if restarts {
            world.restart();
        }
        world.rejoin(nodes[0], &node(4.0, 4_000_000_000, &[]));
        assert_eq!(world.live(daemon).len(), 1, "a node that rejoins gets the daemon again");
    }
}

#[test]
fn nothing_is_given_up_before_nodes_could_be_heard_for_a_whole_lease_after_a_restart() {
    let (mut world, nodes) = World::with_nodes(1);
    let long = world.submit(&batch(1));
    let execution = world.only_live(long);
    world.run(execution);
    world.pass_with(HOUR, &nodes);
    world.pass(LEASE + Duration::from_secs(10));
    world.now = world.now + HOUR;
    world.restart();
    world.pass(LEASE - Duration::from_secs(1));
    assert_eq!(world.live(long), [execution]);
    world.pass(Duration::from_secs(2));
    assert_eq!(world.row(execution).compute, ComputeState::Failed);
}

#[test]
fn nodes_that_fall_silent_together_are_waited_for() {
    let (mut world, nodes) = World::with_nodes(10);
    let jobs: Vec<_> = (0..10).map(|_| world.submit(&batch(1))).collect();
    for job in &jobs {
        let execution = world.only_live(*job);
        world.run(execution);
    }
    world.pass(MINUTE);
    assert!(world.scheduler.is_mass_silence());
    for job in &jobs {
        assert_eq!(world.live(*job).len(), 1, "the orchestrator takes itself for cut off");
    }
    // The nodes reconnect one after the other, and the last ones still find their work.
    for back in 1..=nodes.len() {
        world.rejoin(nodes[back - 1], &node(4.0, 4_000_000_000, &[]));
        world.pass_with(Duration::from_millis(100), &nodes[..back]);
    }
    assert!(!world.scheduler.is_mass_silence());
    for job in &jobs {
        assert_eq!(world.executions(*job).len(), 1, "nothing was stopped");
    }
}

#[test]
fn a_mass_silence_is_not_waited_for_for_ever() {
    let (mut world, _) = World::with_nodes(4);
    let short = world.submit(&batch(1));
    let execution = world.only_live(short);
    world.run(execution);
    world.pass(LEASE + Duration::from_secs(125));
    assert_eq!(world.row(execution).compute, ComputeState::Failed);
}

#[test]
fn a_mass_silence_that_is_over_shortens_no_later_one() {
    let (mut world, nodes) = World::with_nodes(4);
    // A node comes back while the heartbeats of all others are overdue.
    let (back, others) = (nodes[0], &nodes[1..]);
    world.pass_with(LEASE * 2, others);
    world.pass(LEASE * 6 / 10);
    world.rejoin(back, &node(4.0, 4_000_000_000, &[]));
    assert!(world.scheduler.is_mass_silence());
    world.pass_with(Duration::from_secs(110), &nodes);
    let job = world.submit(&batch(1));
    let execution = world.only_live(job);
    world.run(execution);
    world.pass(LEASE + Duration::from_secs(15));
    assert_eq!(world.live(job), [execution], "it is waited for anew");
}

/// A node with a job, and the others; from now on it is silent.
struct Dead {
    job: JobId,
    execution: ExecutionId,
    others: Vec<NodeId>,
}

impl Dead {
    fn among(count: usize) -> (World, Self) {
        let (mut world, nodes) = World::with_nodes(count);
        let job = world.submit(&batch(1));
        let execution = world.only_live(job);
        world.run(execution);
        let dead = world.row(execution).node;
        let others = nodes.into_iter().filter(|node| *node != dead).collect();
        (world, Self { job, execution, others })
    }

    fn is_waited_for(&self, world: &World) -> bool {
        world.only_live(self.job) == self.execution
    }

    /// The heartbeats of all others are overdue when its lease ends.
    fn and_a_hiccup(&self, world: &mut World) {
        world.pass(LEASE * 4 / 10);
        for node in &self.others {
            world.heartbeat(*node);
        }
        world.pass(LEASE * 6 / 10 + Duration::from_secs(1));
        assert!(world.scheduler.is_mass_silence());
    }
}

#[test]
fn a_hiccup_of_the_others_holds_a_dead_nodes_work_for_no_longer_than_it_lasts() {
    let (mut world, dead) = Dead::among(4);
    dead.and_a_hiccup(&mut world);
    world.pass_with(LEASE * 2, &dead.others);
    assert!(!world.scheduler.is_mass_silence(), "one node of four is silent");
    assert!(!dead.is_waited_for(&world), "its work runs elsewhere");
}

/// The lease of another node ends while the silence is taken for one of most, and shows that it is
/// none.
#[test]
fn a_mass_silence_that_another_node_ends_holds_no_work_any_longer() {
    let (mut world, dead) = Dead::among(5);
    dead.and_a_hiccup(&mut world);
    world.pass_with(LEASE * 2, &dead.others[1..]);
    assert!(!world.scheduler.is_mass_silence(), "two nodes of five are silent");
    assert!(!dead.is_waited_for(&world), "its work runs elsewhere");
}

/// What a whole lease must pass for is time to be heard, and each pause takes a little of it.
#[test]
fn pauses_that_recur_hold_a_dead_nodes_work_for_little_longer() {
    for every in [9, 10, 30, 31] {
        let (mut world, dead) = Dead::among(3);
        let began = world.now;
        while dead.is_waited_for(&world) {
            assert!(world.now.since(began) < LEASE * 5, "pauses every {every} s");
            world.pass_with(Duration::from_secs(every) - PAUSE, &dead.others);
            world.now = world.now + PAUSE;
            world.handle(Input::MissedHeartbeats(PAUSE));
        }
    }
}

#[test]
fn a_lease_grows_with_the_number_of_nodes_and_in_steps() {
    let (mut world, _) = World::with_nodes(3);
    assert_eq!(world.scheduler.lease(), LEASE);
    // 600 nodes send a thousand heartbeats a second when each sends three in 1.8 seconds.
    let (crowded, _) = World::with_nodes(600);
    world.store = crowded.store;
    world.restart_with(Settings { lease: Duration::from_secs(1), ..SETTINGS });
    assert_eq!(world.scheduler.lease(), Duration::from_secs(5));
}

#[test]
fn a_shorter_lease_counts_from_the_heartbeat_after_the_answer_that_told_it() {
    const SHORT: Duration = Duration::from_secs(10);
    let almost = LEASE.saturating_sub(Duration::from_secs(1));
    let (mut world, nodes) = World::with_nodes(1);
    let settings = Settings { lease: SHORT, ..SETTINGS };
    world.restart_with(settings);
    let is_connected =
        |world: &World| world.store.nodes[&nodes[0]].connection == Connection::Connected;
    let heard = |world: &mut World, granted| {
        let (node, at, stalled) = (nodes[0], world.now, Duration::ZERO);
        let (session, kept, probed) = (1, None, None);
        let heard = HeartbeatArrival { node, session, at, stalled, granted, kept, probed };
        world.handle(Input::Heard(vec![heard]));
    };
    // The agent keeps to what it was told before the restart.
    world.pass(almost);
    assert!(is_connected(&world));
    for (granted, why) in [(LEASE, "not stored before"), (SHORT, "perhaps not read")] {
        heard(&mut world, granted);
        world.pass(almost);
        assert!(is_connected(&world), "the shorter lease was {why}");
    }
    world.restart_with(settings);
    world.pass(almost);
    assert!(is_connected(&world), "it is unknown what was answered");
    heard(&mut world, SHORT);
    heard(&mut world, SHORT);
    world.pass(SHORT);
    assert!(!is_connected(&world));
}

#[test]
fn a_longer_lease_counts_at_once() {
    const LONG: Duration = Duration::from_secs(60);
    let (mut world, nodes) = World::with_nodes(1);
    world.restart_with(Settings { lease: LONG, ..SETTINGS });
    world.pass(LONG.saturating_sub(Duration::from_secs(1)));
    assert_eq!(world.store.nodes[&nodes[0]].connection, Connection::Connected);
}

#[test]
fn a_mass_silence_is_waited_for_over_a_restart() {
    let (mut world, _) = World::with_nodes(10);
    let settings = Settings { lease: Duration::from_secs(10), ..SETTINGS };
    world.restart_with(settings);
    let id = world.submit(&batch(10));
    for execution in world.live(id) {
        world.run(execution);
    }
    world.pass(Duration::from_secs(20));
    world.restart_with(settings);
    world.pass(Duration::from_secs(100));
    assert!(world.scheduler.is_mass_silence());
    assert_eq!(world.executions(id).len(), 10, "nothing was given up");
    world.pass(MINUTE);
    assert!(!world.scheduler.is_mass_silence());
    assert!(world.live(id).is_empty());
}

#[test]
fn nodes_that_went_long_ago_do_not_keep_the_rest_from_being_waited_for() {
    let (mut world, nodes) = World::with_nodes(10);
    let (rest, _) = nodes.split_at(4);
    world.pass_with(10 * MINUTE, rest);
    let id = world.submit(&batch(4));
    for execution in world.live(id) {
        world.run(execution);
    }
    world.pass(2 * LEASE);
    assert!(world.scheduler.is_mass_silence());
    assert_eq!(world.executions(id).len(), 4);
}

#[test]
fn a_silent_node_has_the_lease_that_it_was_told_to_return_after_a_restart_with_a_shorter_one() {
    let (mut world, nodes) = World::with_nodes(2);
    let id = world.submit(&batch(2));
    for execution in world.live(id) {
        world.run(execution);
    }
    world.pass_with(HOUR, &nodes);
    world.pass_with(MINUTE, &nodes[..1]);
    world.restart_with(Settings { lease: Duration::from_secs(10), ..SETTINGS });
    world.pass_with(LEASE - Duration::from_secs(2), &nodes[..1]);
    assert_eq!(world.executions(id).len(), 2);
    world.pass_with(Duration::from_secs(4), &nodes[..1]);
    assert_eq!(world.executions(id).len(), 3, "the patience of 72 s is over");
}

#[test]
fn an_agent_that_has_not_read_a_shorter_lease_keeps_the_longer_one_and_none_longer_than_it_was_told()
 {
    const SHORT: Duration = Duration::from_secs(10);
    let (mut world, nodes) = World::with_nodes(1);
    world.restart_with(Settings { lease: SHORT, ..SETTINGS });
    let almost = LEASE.saturating_sub(Duration::from_secs(1));
    let is_connected =
        |world: &World| world.store.nodes[&nodes[0]].connection == Connection::Connected;
    let heard = |world: &mut World, kept| {
        let (node, at, stalled, kept) = (nodes[0], world.now, Duration::ZERO, Some(kept));
        world.handle(Input::Heard(vec![HeartbeatArrival {
            node,
            session: 1,
            at,
            stalled,
            granted: SHORT,
            kept,
            probed: None,
        }]));
    };
    for _ in 0..5 {
        heard(&mut world, LEASE);
        world.pass(almost);
        assert!(is_connected(&world), "every answer may be lost");
    }
    heard(&mut world, SHORT);
    heard(&mut world, 100 * LEASE);
    world.pass(SHORT);
    assert!(!is_connected(&world), "it was never told that");
}
