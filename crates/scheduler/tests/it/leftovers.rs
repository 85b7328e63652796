//! What a turn leaves over: later inputs do not work on it, and a restart finds it again.

use std::time::Duration;

use api_types::execution::DesiredState;
use api_types::job::{JobSpec, JobStateType, JobType};
use api_types::node::{GivenLabels, NodeAction};
use api_types::{JobId, NodeId};
use control_plane::store::memory::spec_json;
use scheduler::change::ExecutionRow;
use scheduler::input::{Answer, Input, Submit};

use crate::specs::{batch, job, node, with_constraint, with_cpu};
use crate::world::{LEASE, SETTINGS, World};

/// No turn has a budget for so many.
const MANY: u32 = 1_100;

const KINDS: usize = 9_000;

/// So large a cluster costs a submission nothing.
const LARGE: usize = 10_000;

fn small(mut spec: JobSpec) -> JobSpec {
    spec = with_cpu(spec, "1m");
    spec.tasks[0].resources.memory = "1kb".to_owned();
    spec
}

/// Where each job and each execution has come, but for the IDs, which a restart draws anew.
fn outcome(world: &World, jobs: &[JobId]) -> Vec<String> {
    let of_job = |job: &JobId| {
        let row = &world.store.jobs[job];
        let mut executions: Vec<_> = world.executions(*job).iter().map(of_execution).collect();
        executions.sort();
        let waits = row.waiting_since.is_some();
        format!("{:?}, waits: {waits}, {}: {executions:?}", row.state, row.message)
    };
    jobs.iter().map(of_job).collect()
}

fn of_execution(row: &ExecutionRow) -> (u32, String, u8, &'static str) {
    let desired = match row.desired {
        DesiredState::Pending => "pending",
        DesiredState::Running => "running",
        DesiredState::Stopped => "stopped",
    };
    (row.index, row.node.short().to_string(), row.compute.into(), desired)
}

/// Builds a world with work left over, lets it go on with and without a restart, and compares.
fn a_restart_changes_nothing(build: impl Fn() -> (World, Vec<JobId>, Vec<NodeId>)) {
    let ends = [false, true].map(|restarts| {
        let (mut world, jobs, nodes) = build();
        world.is_checked = false;
        assert!(world.scheduler.next_wake(world.now) <= world.now, "something is left over");
        if restarts {
            world.restart_before_the_first_tick(SETTINGS);
        }
        world.pass_with(Duration::from_secs(2), &nodes);
        assert!(world.scheduler.next_wake(world.now) > world.now, "nothing is left over");
        scheduler::invariants::check(&world.scheduler);
        outcome(&world, &jobs)
    });
    assert_eq!(ends[0], ends[1]);
}

fn one_node() -> (World, NodeId) {
    let mut world = World::new();
    world.is_checked = false;
    let node = world.join_node(&node(20.0, 10_000_000_000, &[]));
    (world, node)
}

#[test]
fn stops_that_are_left_over_survive_a_restart() {
    a_restart_changes_nothing(|| {
        let (mut world, node) = one_node();
        let many = world.submit(&small(batch(MANY)));
        world.pass_with(Duration::from_secs(1), &[node]);
        world.stop(many);
        (world, vec![many], vec![node])
    });
}

#[test]
fn drains_that_are_left_over_survive_a_restart() {
    a_restart_changes_nothing(|| {
        let (mut world, node) = one_node();
        let service = world.submit(&small(JobSpec { count: MANY, ..job(JobType::Service) }));
        world.pass_with(Duration::from_secs(1), &[node]);
        world.act(node, NodeAction::Drain);
        (world, vec![service], vec![node])
    });
}

#[test]
fn covers_that_are_left_over_survive_a_restart() {
    a_restart_changes_nothing(|| {
        let (mut world, large) = one_node();
        let many = world.submit(&small(batch(MANY)));
        world.pass_with(Duration::from_secs(1), &[large]);
        let little = world.join_node(&node(1.0, 4_000_000_000, &[]));
        let daemon = world.submit(&with_cpu(job(JobType::Daemon), "2"));
        // As if the process had ended between the node's return and its cover.
        let waits = world.store.pending_slots.keys().find(|(job, _)| *job == daemon).copied();
        world.store.pending_slots.remove(&waits.expect("the little node has no room"));
        world.stop(many);
        world.restart_before_the_first_tick(SETTINGS);
        // The stops take all of the turn.
        world.handle(Input::Tick);
        let waits = world.store.pending_slots.keys().any(|(job, _)| *job == daemon);
        assert!(!waits, "the cover is left over");
        (world, vec![many, daemon], vec![large, little])
    });
}

#[test]
fn nodes_that_are_left_over_survive_a_restart() {
    a_restart_changes_nothing(|| {
        let (mut world, node) = one_node();
        world.act(node, NodeAction::Cordon);
        let jobs: Vec<_> = (0..MANY).map(|_| world.submit(&small(batch(1)))).collect();
        world.act(node, NodeAction::Uncordon);
        assert!((1..MANY as usize).contains(&world.on_node(node)), "one turn fills a part");
        (world, jobs, vec![node])
    });
}

#[test]
fn classes_that_are_left_over_survive_a_restart() {
    a_restart_changes_nothing(|| {
        let (mut world, node) = one_node();
        let many = world.submit(&small(batch(MANY)));
        assert!((1..MANY as usize).contains(&world.on_node(node)), "one turn places a part");
        (world, vec![many], vec![node])
    });
}

#[test]
fn comparisons_that_are_left_over_survive_a_restart() {
    a_restart_changes_nothing(|| {
        let mut world = World::new();
        world.is_checked = false;
        // More kinds of work than a node is compared with at once.
        let kind = |number| with_constraint(batch(1), "zone", &format!("z{number}"));
        let jobs: Vec<_> = (0..KINDS).map(|number| world.submit(&kind(number))).collect();
        let last = format!("z{}", KINDS - 1);
        let joined = world.join_node(&node(4.0, 4_000_000_000, &[("zone", &last)]));
        assert!(world.live(jobs[KINDS - 1]).is_empty(), "one turn compares it with a part");
        (world, jobs, vec![joined])
    });
}

#[test]
fn annotations_that_are_left_over_survive_a_restart() {
    a_restart_changes_nothing(|| {
        let (mut world, node) = one_node();
        // The node has room for a thousand.
        let demand = |count| with_cpu(small(batch(count)), "20m");
        let mut jobs = vec![world.submit(&demand(MANY))];
        // They come while the class is in the backlog, so none of them says that it waits.
        jobs.extend((0..MANY).map(|_| world.submit(&demand(1))));
        let annotated = |world: &World| {
            jobs.iter().filter(|job| world.store.jobs[*job].waiting_since.is_some()).count()
        };
        while annotated(&world) == 0 {
            world.handle(Input::Tick);
        }
        assert!(annotated(&world) < MANY as usize, "one turn annotates a part");
        (world, jobs.clone(), vec![node])
    });
}

fn with_memory(mut spec: JobSpec, memory: &str) -> JobSpec {
    spec.tasks[0].resources.memory = memory.to_owned();
    spec
}

#[test]
fn ticks_empty_the_backlog_even_if_the_clock_stands_still() {
    let (mut world, node) = one_node();
    let many = world.submit(&small(batch(MANY)));
    world.stop(many);
    let mut ticks = 0;
    while world.scheduler.next_wake(world.now) <= world.now {
        world.handle(Input::Tick);
        ticks += 1;
        assert!(ticks < 10, "{ticks} ticks leave something over");
    }
    assert!(ticks > 0, "one turn leaves something over");
    let wanted = |row: &&ExecutionRow| row.desired != DesiredState::Stopped;
    assert_eq!(world.executions(many).iter().find(wanted), None);
    assert!(world.on_node(node) > 0, "its node has confirmed none of them");
}

#[test]
fn a_submission_leaves_the_backlog_alone_and_a_refused_input_changes_nothing() {
    let mut world = World::new();
    world.is_checked = false;
    let record = node(4.0, 4_000_000_000, &[]);
    let nodes: Vec<_> = (0..LARGE).map(|_| world.join_node(&record)).collect();
    let waiting = world.submit(&with_cpu(batch(1), "64"));
    // All nodes are in the backlog now.
    world.restart_before_the_first_tick(SETTINGS);
    let events = world.store.events.len();
    let placed = world.submit(&with_memory(with_cpu(batch(1), "1"), "1GB"));
    // Created and offered, and no event of any other job.
    let own = |job| move |event: &&scheduler::change::EventRow| event.job() == Some(job);
    let new = &world.store.events[events..];
    assert!(new.iter().all(|event| own(placed)(&event)), "{new:?}");
    assert!(new.len() <= 4, "{new:?}");
    assert!(world.scheduler.next_wake(world.now) <= world.now, "the backlog is left to ticks");
    world.act(nodes[1], NodeAction::Reject);
    let unknown = NodeId::from_uuid(world.id());
    let again = batch(1);
    let again = Submit::new(placed, again.clone().into(), spec_json(&again));
    let (events, effects) = (world.store.events.len(), world.effects.len());
    for refused in [
        Input::Submit(Box::new(again)),
        Input::Stop { job: JobId::from_uuid(world.id()), reason: String::new() },
        Input::Join { node: nodes[1], request: Box::new(record) },
        Input::OpenAssignments { node: nodes[0], session: 99 },
        Input::Reports { node: nodes[0], session: 99, reports: Vec::new() },
        Input::NodeAction { node: unknown, action: NodeAction::Drain, message: String::new() },
        Input::LabelNode { node: unknown, given: GivenLabels::default() },
        Input::ForgetNode { node: nodes[0], now: false },
    ] {
        let answer = world.handle(refused.clone());
        assert!(matches!(answer, Answer::Refused(_)), "{refused:?}: {answer:?}");
        assert!(
            world.effects.len() == effects && world.store.events.len() == events,
            "{refused:?}"
        );
    }
    assert_eq!(world.state(waiting), JobStateType::Queued);
}

#[test]
fn jobs_of_one_kind_are_all_placed_when_their_node_is_lost() {
    let mut world = World::new();
    let record = node(4.0, 4_000_000_000, &[]);
    let lost = world.join_node(&record);
    let jobs: Vec<_> = (0..3).map(|_| world.submit(&with_memory(batch(1), "1GB"))).collect();
    for job in &jobs {
        world.run(world.only_live(*job));
    }
    let other = world.join_node(&record);
    let end = world.now + LEASE * 3;
    while world.on_node(lost) > 0 && world.now < end {
        world.pass_with(Duration::from_secs(1), &[other]);
    }
    assert_eq!((world.on_node(lost), world.on_node(other)), (0, 3));
    let waits = |job: &&JobId| world.comments(**job).iter().any(|said| said.starts_with("waits"));
    assert_eq!(jobs.iter().find(waits), None, "each of them had room immediately");
}

#[test]
fn a_large_lost_node_is_replaced_from_the_turn_of_its_first_end() {
    let executions = u32::try_from(LARGE).expect("small");
    let record = node(200.0, 100_000_000_000, &[]);
    let mut world = World::new();
    world.is_checked = false;
    let lost = world.join_node(&record);
    let many = world.submit(&small(batch(executions)));
    world.pass_with(Duration::from_secs(1), &[lost]);
    assert_eq!(world.on_node(lost), LARGE);
    for execution in world.live(many) {
        world.run(execution);
    }
    let other = world.join_node(&record);
    world.pass_with(LEASE - Duration::from_secs(5), &[other]);
    let end = world.now + LEASE * 3;
    while world.on_node(lost) == LARGE && world.now < end {
        world.heartbeat(other);
        world.now = world.scheduler.next_wake(world.now).max(world.now);
        world.handle(Input::Tick);
    }
    assert!(world.on_node(lost) < LARGE, "its work is given up");
    assert!(world.on_node(other) > 0, "and replaced in the same turn");
    world.pass_with(Duration::from_secs(5), &[other]);
    assert_eq!((world.on_node(lost), world.on_node(other)), (0, LARGE));
}
