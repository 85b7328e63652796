//! Jobs of different namespaces wait in different classes, and are served in one order.

use std::time::Duration;

use api_types::job::{JobSpec, JobStateType};

use crate::specs::{batch, node, with_cpu};
use crate::world::World;

fn in_namespace(namespace: &str, spec: JobSpec) -> JobSpec {
    JobSpec { namespace: namespace.to_owned(), ..spec }
}

#[test]
fn room_goes_by_priority_then_age_in_all_namespaces() {
    let (mut world, _) = World::with_nodes(1);
    let whole = || with_cpu(batch(1), "4");
    let first = world.submit(&in_namespace("a", whole()));
    let second = world.submit(&in_namespace("b", whole()));
    let third = world.submit(&in_namespace("a", whole()));
    let fourth = world.submit(&in_namespace("b", whole()));
    let urgent = world.submit(&JobSpec { priority: 90, ..in_namespace("c", whole()) });
    world.restart();
    for (job, then) in [(first, urgent), (urgent, second), (second, third), (third, fourth)] {
        let execution = world.only_live(job);
        world.complete(execution);
        assert_eq!(world.live(then).len(), 1, "{then} is next");
    }
}

#[test]
fn each_namespace_is_told_why_its_jobs_wait() {
    let (mut world, _) = World::with_nodes(1);
    let whole = || with_cpu(batch(1), "4");
    let first = world.submit(&in_namespace("a", whole()));
    let [a, b] = ["a", "b"].map(|namespace| world.submit(&in_namespace(namespace, whole())));
    let why = "1 of 1 node: not enough CPU (in use)";
    for job in [a, b] {
        assert_eq!(
            (world.state(job), world.explanation(job).as_str()),
            (JobStateType::Queued, why)
        );
    }
    let execution = world.only_live(first);
    world.complete(execution);
    assert_eq!(world.explanation(a), "", "it runs");
    assert_eq!(world.explanation(b), why, "that of the other namespace stays");
}

#[test]
fn what_an_earlier_job_has_not_been_given_yet_is_not_given_to_another_namespace() {
    const COUNT: u32 = 1_100;
    let mut small = with_cpu(batch(COUNT), "10m");
    small.tasks[0].resources.memory = "6mib".to_owned();
    let mut world = World::new();
    let only = world.join_node(&node(11.0, 10_000_000_000, &[]));
    // One turn does not place all of it.
    let large = JobSpec { priority: 60, ..in_namespace("a", small.clone()) };
    let large = world.submit(&large);
    let placed = world.on_node(only);
    assert!((1..COUNT as usize).contains(&placed), "{placed}");
    for (namespace, cpu) in [("b", "10m"), ("b", "20m"), ("a", "30m")] {
        let later = JobSpec { count: 1, ..with_cpu(in_namespace(namespace, small.clone()), cpu) };
        let later = world.submit(&later);
        assert_eq!(world.live(later).len(), 0, "{namespace} {cpu} does not come first");
    }
    world.pass_with(Duration::from_secs(1), &[only]);
    assert_eq!(world.live(large).len(), COUNT as usize);
    assert_eq!(world.on_node(only), COUNT as usize, "the others wait");
}
