//! What waits for room, class by class.

use std::time::Duration;

use api_types::job::JobSpec;
use scheduler::{ClusterDemand, WaitingClass};

use crate::specs::{batch, in_namespace, node, with_constraint, with_cpu};
use crate::world::World;

fn demand(world: &World) -> ClusterDemand {
    world.scheduler.demand(100, |_| true)
}

/// Jobs and slots of each class.
fn counts(classes: &[WaitingClass]) -> Vec<(u64, u64)> {
    classes.iter().map(|class| (class.jobs, class.slots)).collect()
}

#[test]
fn what_waits_is_counted_by_what_it_needs() {
    let (mut world, _) = World::with_nodes(1);
    assert_eq!(demand(&world), ClusterDemand::default());
    // A node has four cores.
    let running = world.submit(&with_cpu(batch(4), "1"));
    assert_eq!(demand(&world).classes, []);
    world.submit(&with_cpu(batch(5), "1"));
    world.pass(Duration::from_secs(2));
    world.submit(&with_cpu(batch(2), "1"));
    world.submit(&with_constraint(with_cpu(batch(1), "1"), "zone", "b"));
    let urgent = JobSpec { priority: 90, ..with_cpu(batch(3), "2") };
    world.submit(&urgent);
    world.pass(Duration::from_secs(3));

    world.scheduler.refresh_explanations();
    let ClusterDemand { classes, more } = demand(&world);
    assert!(!more);
    assert_eq!(counts(&classes), [(1, 3), (2, 7), (1, 1)], "the urgent ones come first");
    let priorities: Vec<_> = classes.iter().map(|class| class.priority).collect();
    assert_eq!(priorities, [90, 50, 50]);
    assert_eq!(classes[1].waited.as_secs(), 5);
    assert_eq!(classes[1].want.demand.need.cpu_millis, Some(1000));
    let why = classes[1].explanation.as_deref();
    assert_eq!(why, Some("1 of 1 node: not enough CPU (in use)"));
    assert_eq!(classes[2].want.demand.fit.constraints.len(), 1);

    // One core at a time is too little for the urgent job.
    for execution in world.live(running) {
        world.complete(execution);
    }
    let expected = [(1, 3), (2, 3), (1, 1)];
    assert_eq!(counts(&demand(&world).classes), expected);
    world.restart();
    assert_eq!(counts(&demand(&world).classes), expected);
}

#[test]
fn a_caller_is_shown_the_namespaces_that_it_sees_and_a_bounded_number_of_classes() {
    let mut world = World::new();
    for namespace in ["a", "b", "c"] {
        world.submit(&in_namespace(namespace, batch(2)));
    }
    let of = |limit, sees: &dyn Fn(&str) -> bool| {
        let ClusterDemand { classes, more } = world.scheduler.demand(limit, sees);
        let names = classes.iter().map(|class| class.want.namespace.to_string());
        (names.collect::<Vec<_>>(), more)
    };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(of(2, &|_| true), (names(&["a", "b"]), true));
    assert_eq!(of(3, &|_| true), (names(&["a", "b", "c"]), false));
    assert_eq!(of(2, &|name| name != "b"), (names(&["a", "c"]), false));
    assert_eq!(of(2, &|_| false), (names(&[]), false));
}

#[test]
fn the_slots_of_many_jobs_are_counted_up_to_a_bound() {
    let mut world = World::new();
    world.is_checked = false;
    for _ in 0..10_010 {
        world.submit(&batch(2));
    }
    let classes = demand(&world).classes;
    assert_eq!(counts(&classes), [(10_010, 20_010)]);
    assert!(classes[0].more_slots);
}

#[test]
fn a_job_that_waits_in_two_queues_is_counted_once() {
    for untried in [1, 2] {
        let mut world = World::new();
        for _ in 0..2 {
            world.join_node(&node(1.0, 8_000_000_000, &[]));
        }
        let job = world.submit(&with_cpu(batch(2 + untried), "1"));
        let untried = u64::from(untried);
        assert_eq!(counts(&demand(&world).classes), [(1, untried)]);
        // The slot stays away from the node, where another one takes its room.
        let failed = world.live(job)[0];
        world.run(failed);
        world.report_defect(failed);
        assert_eq!(world.live(job).len(), 2);
        assert_eq!(counts(&demand(&world).classes), [(1, untried)]);
    }
}
