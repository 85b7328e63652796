//! Room is free when a process has ended, not when its results are published.

use api_types::execution::ComputeState;
use api_types::job::JobStateType;

use crate::specs::{batch, node, with_cpu};
use crate::world::World;

#[test]
fn what_waits_for_cpu_does_not_wait_for_a_publisher() {
    let mut world = World::new();
    world.join_node(&node(4.0, 4_000_000_000, &[]));
    let publishing = world.submit(&with_cpu(batch(1), "4"));
    let waiting = world.submit(&with_cpu(batch(1), "4"));
    let first = world.only_live(publishing);
    world.run(first);
    assert_eq!(world.live(waiting), []);

    world.process_ends(first);
    let second = world.only_live(waiting);
    assert_eq!(world.row(second).node, world.row(first).node);
    assert_eq!(world.row(first).compute, ComputeState::BidAccepted);
    assert_eq!(world.state(publishing), JobStateType::Running);
    assert_eq!(world.row(first).resources.cpu_millis, 4000, "the record shows what it was given");

    // A repeated report changes nothing, and neither does a restart.
    let events = world.store.events.len();
    world.process_ends(first);
    assert_eq!(world.store.events.len(), events);
    world.restart();
    world.complete(first);
    world.complete(second);
    for job in [publishing, waiting] {
        assert_eq!(world.state(job), JobStateType::Completed);
    }
}

#[test]
fn the_disk_is_in_use_until_the_results_are_published() {
    let mut world = World::new();
    let mut record = node(4.0, 4_000_000_000, &[]);
    record.compute_node_info.max_capacity.disk = 1_000_000;
    record.compute_node_info.max_job_requirements.disk = 1_000_000;
    world.join_node(&record);
    let mut spec = with_cpu(batch(1), "4");
    spec.tasks[0].resources.disk = "1MB".to_owned();
    let (publishing, waiting) = (world.submit(&spec), world.submit(&spec));
    let first = world.only_live(publishing);
    world.run(first);
    world.process_ends(first);
    assert_eq!(world.live(waiting), []);
    world.report(first, ComputeState::Completed);
    world.only_live(waiting);
}

/// The six of every execution that goes well: the end of the process is a fact of the record, no
/// event and no revision.
#[test]
fn the_end_of_a_process_is_no_event() {
    let mut world = World::new();
    world.join_node(&node(4.0, 4_000_000_000, &[]));
    let job = world.submit(&with_cpu(batch(1), "4"));
    let execution = world.only_live(job);
    world.run(execution);
    let (events, revision) = (world.store.events.len(), world.row(execution).revision);
    world.process_ends(execution);
    let row = world.row(execution);
    assert_eq!(row.process_ended_at, Some(world.now));
    assert_eq!(&*row.compute_message, "its process has ended");
    assert_eq!((world.store.events.len(), row.revision), (events, revision));

    // What is free stays free after a restart, and the record is the stored one.
    world.restart();
    let waiting = world.submit(&with_cpu(batch(1), "4"));
    world.only_live(waiting);
    world.complete(execution);
    let six = [(1, 1, 1), (1, 2, 2), (2, 3, 3), (3, 3, 4), (3, 5, 5), (5, 7, 6)];
    assert_eq!(world.steps(execution), six);
}
