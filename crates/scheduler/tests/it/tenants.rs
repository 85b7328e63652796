//! What the jobs of one namespace do to the nodes of all: their failures decide nothing for others.

use std::time::Duration;

use api_types::execution::ComputeState;
use api_types::job::{JobSpec, JobStateType};
use api_types::protocol::{FailureCause, ProbeOutcome};
use api_types::{ExecutionId, JobId, NodeId};
use scheduler::health::Health;
use scheduler::input::Answer;

use crate::specs::{batch, in_namespace, with_cpu, with_retries};
use crate::world::World;

const SECOND: Duration = Duration::from_secs(1);

fn urgent(namespace: &str) -> JobSpec {
    JobSpec { priority: 100, ..in_namespace(namespace, with_retries(batch(1), 0)) }
}

fn offers(world: &World) -> Vec<ExecutionId> {
    let rows = world.store.executions.values();
    rows.filter(|row| row.compute == ComputeState::AskForBid).map(|row| row.id).collect()
}

/// Eight bad jobs, then one every ten seconds at priority 100, for five minutes; every node says of
/// each what `blame` makes it say. The namespace "good" submits a job every five seconds.
fn attack(
    world: &mut World,
    nodes: &[NodeId],
    hostile: &[&str],
    blame: impl Fn(&mut World, ExecutionId),
) -> Vec<JobId> {
    let mut good = vec![world.submit(&in_namespace("good", batch(1)))];
    world.run(world.only_live(good[0]));
    let mut bad = Vec::new();
    for second in 0..300 {
        let jobs = if second == 0 { 8 } else { usize::from(second % 10 == 0) };
        for number in 0..jobs {
            bad.push(world.submit(&urgent(hostile[(second + number) % hostile.len()])));
        }
        if second % 5 == 0 {
            good.push(world.submit(&in_namespace("good", with_cpu(batch(1), "0.5"))));
        }
        for execution in offers(world) {
            if bad.contains(&world.row(execution).job) {
                blame(world, execution);
            } else {
                world.complete(execution);
            }
        }
        world.pass_with(SECOND, nodes);
        for node in nodes {
            let health = &world.store.nodes[node].health;
            assert!(health.is_well(), "after {second} s: {health:?}");
        }
    }
    world.report(world.only_live(good[0]), ComputeState::Completed);
    good
}

fn complete(world: &World, good: Vec<JobId>) {
    for job in good {
        assert_eq!(world.state(job), JobStateType::Completed, "{}", world.message(job));
    }
}

#[test]
fn bad_parameters_of_one_namespace_stop_no_node_of_agents_that_can_tell() {
    let (mut world, nodes) = World::with_probed_nodes(2);
    let good = attack(&mut world, &nodes, &["bad"], |world, execution| {
        let why = "mkdir /etc/passwd: not a directory";
        world.report_as(execution, ComputeState::Failed, FailureCause::Refused, why);
    });
    complete(&world, good);
}

#[test]
fn nor_do_those_of_two_namespaces_together() {
    let (mut world, nodes) = World::with_probed_nodes(2);
    let good = attack(&mut world, &nodes, &["bad", "worse"], |world, execution| {
        let why = "mkdir /etc/passwd: not a directory";
        world.report_as(execution, ComputeState::Failed, FailureCause::Refused, why);
    });
    complete(&world, good);
}

#[test]
fn bad_parameters_of_one_namespace_stop_no_node_of_older_agents() {
    let (mut world, nodes) = World::with_nodes(2);
    let good = attack(&mut world, &nodes, &["bad"], |world, execution| {
        world.report_as(execution, ComputeState::Failed, FailureCause::Node, "docker: 500");
    });
    complete(&world, good);
}

#[test]
fn runs_that_vanish_and_fetches_that_fail_stop_no_node_either() {
    for cause in [FailureCause::Node, FailureCause::Fetch] {
        let (mut world, nodes) = World::with_probed_nodes(2);
        let good = attack(&mut world, &nodes, &["bad"], |world, execution| {
            world.run(execution);
            world.report_as(execution, ComputeState::Failed, cause, "no trace of it is left");
        });
        complete(&world, good);
    }
}

#[test]
fn a_node_on_which_two_namespaces_fail_backs_off() {
    let (mut world, nodes) = World::with_nodes(1);
    for namespace in ["one", "two", "one"] {
        let id = world.submit(&in_namespace(namespace, with_retries(batch(1), 0)));
        world.report_as(world.only_live(id), ComputeState::Failed, FailureCause::Node, "no");
    }
    let health = &world.store.nodes[&nodes[0]].health;
    assert!(matches!(health, Health::BackingOff { .. }), "{health:?}");
}

/// Fails three executions of a namespace that is alone.
fn accuse(world: &mut World, node: NodeId) {
    for _ in 0..3 {
        let id = world.submit(&in_namespace("bad", batch(1)));
        world.report_as(world.only_live(id), ComputeState::Failed, FailureCause::Node, "no");
    }
    let health = &world.store.nodes[&node].health;
    assert!(matches!(health, Health::BackingOff { .. }), "{health:?}");
}

#[test]
fn a_back_off_for_which_one_namespace_is_the_witness_ends_when_another_one_has_work() {
    let (mut world, nodes) = World::with_probed_nodes(1);
    accuse(&mut world, nodes[0]);
    let late = world.submit(&in_namespace("good", batch(1)));
    world.pass_with(SECOND, &nodes);
    let Answer::Renewed { probe: Some(probe), .. } = world.heartbeat(nodes[0]) else {
        panic!("the agent is asked");
    };
    world.heartbeat_with(nodes[0], Some(ProbeOutcome { probe, failure: None }));
    world.complete(world.only_live(late));

    let (mut world, nodes) = World::with_nodes(1);
    accuse(&mut world, nodes[0]);
    let late = world.submit(&in_namespace("good", batch(1)));
    world.pass_with(SECOND, &nodes);
    world.complete(world.only_live(late));
    assert!(world.store.nodes[&nodes[0]].health.is_well());
}

#[test]
fn it_also_ends_when_the_other_one_came_just_before_a_restart() {
    let (mut world, nodes) = World::with_nodes(1);
    accuse(&mut world, nodes[0]);
    world.restart();
    let health = &world.store.nodes[&nodes[0]].health;
    assert!(matches!(health, Health::BackingOff { .. }), "{health:?}");
    let late = world.submit(&in_namespace("good", batch(1)));
    world.restart();
    world.pass_with(SECOND, &nodes);
    world.complete(world.only_live(late));
}

#[test]
fn the_probes_of_one_namespace_prolong_no_back_off_for_another() {
    let (mut world, nodes) = World::with_nodes(1);
    // Both fail, so the node backs off; then only one of them does.
    for namespace in ["bad", "good", "bad"] {
        let id = world.submit(&in_namespace(namespace, batch(1)));
        world.report_as(world.only_live(id), ComputeState::Failed, FailureCause::Node, "no");
        world.stop(id);
    }
    let waiting = world.submit(&in_namespace("good", batch(1)));
    let urgent = world.submit(&urgent("bad"));
    world.pass_with(Duration::from_secs(11), &nodes);
    let probe = world.only_live(urgent);
    world.report_as(probe, ComputeState::Failed, FailureCause::Node, "no");
    world.complete(world.only_live(waiting));
    assert!(world.store.nodes[&nodes[0]].health.is_well());
}

#[test]
fn a_namespace_that_fails_alone_is_tried_again_after_a_while() {
    let (mut world, nodes) = World::with_nodes(1);
    for namespace in ["bad", "good", "bad"] {
        let id = world.submit(&in_namespace(namespace, batch(1)));
        world.report_as(world.only_live(id), ComputeState::Failed, FailureCause::Node, "no");
        world.stop(id);
    }
    // It has work, which this node cannot run.
    world.submit(&in_namespace("good", with_cpu(batch(1), "64")));
    let jobs: Vec<_> = (0..2).map(|_| world.submit(&urgent("bad"))).collect();
    world.pass_with(Duration::from_secs(11), &nodes);
    world.report_as(world.only_live(jobs[0]), ComputeState::Failed, FailureCause::Node, "no");
    assert!(world.live(jobs[1]).is_empty());
    world.pass_with(Duration::from_secs(11), &nodes);
    world.complete(world.only_live(jobs[1]));
    assert!(world.store.nodes[&nodes[0]].health.is_well());
}
