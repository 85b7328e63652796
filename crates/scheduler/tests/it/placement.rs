//! Which job gets which resources, and the explanations for the jobs that wait.

use std::collections::BTreeSet;
use std::time::Duration;

use api_types::job::{JobSpec, JobStateType, JobType};
use api_types::node::GivenLabels;
use scheduler::input::Input;
use scheduler::plan::JobPlan;

use crate::specs::{batch, job, node, with_constraint, with_cpu};
use crate::world::World;

#[test]
fn equal_nodes_are_filled_evenly() {
    let (mut world, nodes) = World::with_nodes(3);
    world.submit(&batch(6));
    for node in nodes {
        assert_eq!(world.on_node(node), 2);
    }
}

#[test]
fn emptier_nodes_come_first() {
    let mut world = World::new();
    let small = world.join_node(&node(2.0, 2_000_000_000, &[]));
    let large = world.join_node(&node(8.0, 8_000_000_000, &[]));
    world.submit(&batch(5));
    assert_eq!((world.on_node(small), world.on_node(large)), (1, 4));
}

#[test]
fn capacity_is_debited_at_once_and_what_does_not_fit_waits() {
    let (mut world, nodes) = World::with_nodes(1);
    let job = world.submit(&with_cpu(batch(5), "1"));
    assert_eq!(world.on_node(nodes[0]), 4);
    assert_eq!(world.state(job), JobStateType::Pending);
    assert_eq!(world.message(job), "1 of 1 node: not enough CPU (in use)");
    let next = world.live(job)[0];
    world.complete(next);
    assert_eq!(world.live(job).len(), 4, "the freed slot is taken immediately");
    assert_eq!(world.message(job), "");
}

#[test]
fn a_queued_job_says_why_per_group_of_nodes() {
    let mut world = World::new();
    for _ in 0..3 {
        world.join_node(&node(8.0, 256_000_000, &[("region", "eu")]));
    }
    world.join_node(&node(8.0, 8_000_000_000, &[("region", "us")]));
    let job = world.submit(&with_constraint(batch(1), "region", "eu"));
    assert_eq!(world.state(job), JobStateType::Queued);
    assert_eq!(
        world.message(job),
        "3 of 4 nodes: not enough memory (even when empty); 1: label region \
         (no node that has joined can ever take it)"
    );
}

#[test]
fn room_goes_by_priority_then_age() {
    let (mut world, nodes) = World::with_nodes(1);
    let first = world.submit(&with_cpu(batch(1), "4"));
    let old = world.submit(&with_cpu(batch(1), "4"));
    let older_but_low = world.submit(&JobSpec { priority: 10, ..with_cpu(batch(1), "3") });
    let urgent = world.submit(&JobSpec { priority: 90, ..with_cpu(batch(1), "2") });
    for (job, then) in [(first, urgent), (urgent, old), (old, older_but_low)] {
        let execution = world.only_live(job);
        world.complete(execution);
        assert_eq!(world.live(then).len(), 1, "{then} is next");
        assert_eq!(world.on_node(nodes[0]), 1);
    }
}

#[test]
fn what_is_small_enough_passes_by_what_is_not() {
    let (mut world, _) = World::with_nodes(1);
    let half = world.submit(&with_cpu(batch(1), "2"));
    let whole = world.submit(&with_cpu(batch(1), "4"));
    let small = world.submit(&with_cpu(batch(1), "1"));
    assert_eq!(world.live(half).len(), 1);
    assert_eq!(world.state(whole), JobStateType::Queued);
    assert_eq!(world.live(small).len(), 1);
}

#[test]
fn constraints_choose_nodes_by_their_labels() {
    let mut world = World::new();
    world.join_node(&node(4.0, 4_000_000_000, &[("zone", "a")]));
    let b = world.join_node(&node(4.0, 4_000_000_000, &[("zone", "b")]));
    world.submit(&with_constraint(batch(3), "zone", "b"));
    assert_eq!(world.on_node(b), 3);
}

#[test]
fn a_node_that_joins_is_given_what_waits() {
    let mut world = World::new();
    let jobs: Vec<_> = (0..3).map(|_| world.submit(&batch(1))).collect();
    assert_eq!(world.state(jobs[0]), JobStateType::Queued);
    assert_eq!(world.message(jobs[0]), "no node has joined");
    let node = world.join_node(&node(2.0, 4_000_000_000, &[]));
    assert_eq!(world.on_node(node), 2);
    assert_eq!(world.live(jobs[2]).len(), 0, "the youngest waits on");
}

#[test]
fn a_task_that_asks_for_nothing_gets_the_defaults_of_the_node() {
    let (mut world, _) = World::with_nodes(1);
    let job = world.submit(&with_cpu(batch(1), ""));
    let row = world.row(world.only_live(job)).clone();
    assert_eq!(row.resources.cpu_millis, 500);
    assert_eq!(row.resources.memory_bytes, 512_000_000);
}

/// The Docker Engine gives a container no less, so nothing less may be reserved.
#[test]
fn a_container_reserves_what_it_is_given_at_least() {
    let (mut world, nodes) = World::with_nodes(1);
    let mut spec = with_cpu(batch(1000), "1m");
    spec.tasks[0].resources.memory = "1".to_owned();
    let job = world.submit(&spec);
    assert_eq!(world.on_node(nodes[0]), 400, "of 4 cores, and a hundredth each");
    let row = world.row(world.live(job)[0]);
    assert_eq!((row.resources.cpu_millis, row.resources.memory_bytes), (10, 6 << 20));
}

#[test]
fn an_operators_labels_decide_at_once_and_what_runs_stays() {
    let (mut world, nodes) = World::with_nodes(2);
    let job = world.submit(&with_constraint(batch(1), "operator/pool", "a"));
    assert!(world.message(job).starts_with("2 of 2 nodes: label operator/pool"));
    let label = |labels: &[(&str, &str)]| Input::LabelNode {
        node: nodes[0],
        given: GivenLabels {
            labels: labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            of_admin: BTreeSet::new(),
        },
    };
    world.handle(label(&[("pool", "a")]));
    assert_eq!(world.on_node(nodes[0]), 1);
    world.handle(label(&[]));
    assert_eq!(world.on_node(nodes[0]), 1, "it runs on");
    let next = world.submit(&with_constraint(batch(1), "operator/pool", "a"));
    assert_eq!(world.live(next).len(), 0);
}

#[test]
fn a_job_too_large_for_one_turn_is_placed_in_several() {
    let mut world = World::new();
    world.join_node(&node(10_000.0, 10_000_000_000_000, &[]));
    let job = world.submit(&batch(1500));
    assert_eq!(world.live(job).len(), 512);
    world.pass(Duration::from_millis(1));
    assert_eq!(world.live(job).len(), 1500);
    assert_eq!(world.state(job), JobStateType::Pending);
}

#[test]
fn a_node_too_large_for_one_turn_is_filled_in_several() {
    let mut world = World::new();
    let job = world.submit(&batch(1500));
    world.join_node(&node(10_000.0, 10_000_000_000_000, &[]));
    assert_eq!(world.live(job).len(), 512);
    world.pass(Duration::from_millis(1));
    assert_eq!(world.live(job).len(), 1500);
}

#[test]
fn a_dry_run_spreads_as_placement_would() {
    let mut world = World::new();
    world.join_node(&node(2.0, 2_000_000_000, &[("zone", "a")]));
    world.join_node(&node(8.0, 8_000_000_000, &[("zone", "a")]));
    world.join_node(&node(8.0, 8_000_000_000, &[("zone", "b")]));
    let spec = with_constraint(batch(5), "zone", "a");
    let preview = world.scheduler.preview(&JobPlan::from_spec(&spec).unwrap(), spec.count);
    let said: Vec<_> = preview.nodes.iter().map(|n| (n.chosen, n.reason.as_str())).collect();
    assert_eq!(
        said,
        [(true, "would get 1 execution"), (true, "would get 4 executions"), (false, "label zone"),]
    );
    assert!(world.store.jobs.is_empty());
}

/// Each node is compared with every value, so that such classes count for several of a refresh.
#[test]
fn explanations_of_many_constraints_are_spread_over_more_refreshes() {
    let explained_at_once = |conditions: usize| {
        let (mut world, _) = World::with_nodes(1);
        for number in 0..200 {
            let mut spec = with_cpu(batch(1), "8");
            for condition in 0..conditions {
                spec = with_constraint(spec, &format!("key-{condition}"), "x");
            }
            spec.tasks[0].resources.memory = format!("{}", 10_000_000 + number);
            world.submit(&spec);
        }
        while !world.scheduler.refresh_explanations().is_empty() {}
        world.join_node(&node(4.0, 1_000_000_000, &[]));
        world.scheduler.refresh_explanations().len()
    };
    assert_eq!(explained_at_once(1), 200);
    // 2 nodes, for each of which a class counts for 1 + 64 * 2 / 8 checks.
    assert_eq!(explained_at_once(64), 4096 / 34);
}

#[test]
fn explanations_follow_what_changes() {
    let (mut world, nodes) = World::with_nodes(1);
    let spec = with_cpu(batch(1), "8");
    world.submit(&spec);
    let refreshed = world.scheduler.refresh_explanations();
    assert_eq!(refreshed.len(), 1);
    assert_eq!(
        refreshed[0].1.as_deref(),
        Some(
            "1 of 1 node: not enough CPU (even when empty) (no node that has joined can ever take it)"
        )
    );
    assert!(world.scheduler.refresh_explanations().is_empty());
    world.join_node(&node(8.0, 100_000_000, &[]));
    let refreshed = world.scheduler.refresh_explanations();
    assert_eq!(
        refreshed[0].1.as_deref(),
        Some(
            "1 of 2 nodes: not enough CPU (even when empty); 1: not enough memory (even when empty) \
             (no node that has joined can ever take it)"
        )
    );
    world.join_node(&node(8.0, 8_000_000_000, &[]));
    let refreshed = world.scheduler.refresh_explanations();
    assert_eq!(refreshed.len(), 1);
    assert_eq!(refreshed[0].1, None, "no job waits any more");
    assert_eq!(nodes.len(), 1);
}

#[test]
fn jobs_of_a_class_share_one_explanation() {
    let (mut world, _) = World::with_nodes(1);
    let spec = with_cpu(batch(1), "8");
    let message = |world: &World, job| world.store.jobs[&job].message.clone();
    let first = world.submit(&spec);
    let second = world.submit(&spec);
    assert!(std::ptr::eq(&*message(&world, first), &*message(&world, second)));
    let refreshed = world.scheduler.refresh_explanations();
    assert_eq!(refreshed.len(), 1, "{refreshed:?}");
    assert_eq!(refreshed[0].1.as_deref(), Some(&*message(&world, first)));
    world.stop(first);
    world.stop(second);
    let third = world.submit(&spec);
    let refreshed = world.scheduler.refresh_explanations();
    let refreshed: Vec<_> = refreshed.iter().map(|(_, text)| text.as_deref()).collect();
    assert_eq!(
        refreshed,
        [None, Some(&*message(&world, third))],
        "in the order of their happening"
    );
}

#[test]
fn many_kinds_of_jobs_leave_few_pools_behind() {
    let mut world = World::new();
    world.join_node(&node(4.0, 4_000_000_000, &[("zone", "a")]));
    for kind in 0..100 {
        let id = world.submit(&with_constraint(batch(1), "zone", &kind.to_string()));
        world.stop(id);
    }
    let last = world.submit(&job(JobType::Batch));
    assert_eq!(world.live(last).len(), 1);
}
