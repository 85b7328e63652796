//! Since when nodes are idle.

use std::time::Duration;

use api_types::execution::ComputeState;
use api_types::job::JobType;
use api_types::node::Node;
use api_types::{NodeId, Timestamp};

use crate::specs::{batch, job, node};
use crate::world::World;

/// What readers see of a node: its record as of its last change.
#[derive(Default)]
struct Reader(Option<Node>);

impl Reader {
    /// For how many seconds the node has been idle; `None` while it is busy.
    fn idle(&mut self, world: &mut World, id: NodeId) -> Option<u64> {
        let touched = world.scheduler.take_touched_nodes().into_iter().rev();
        let changed = touched.filter(|(node, _)| *node == id).find_map(|(_, record)| record);
        self.0 = changed.or_else(|| self.0.take());
        let since = Timestamp::parse(&self.0.as_ref()?.idle_since)?;
        let now = Timestamp(world.wall + world.now.0.cast_signed());
        Some(now.since(since).as_secs())
    }
}

fn stored(world: &World, id: NodeId) -> bool {
    world.store.nodes[&id].idle_since.is_some()
}

#[test]
fn a_node_is_idle_from_its_join_until_it_has_an_execution_and_from_its_end() {
    let (mut world, mut reader) = (World::new(), Reader::default());
    let id = world.join_node(&node(4.0, 4_000_000_000, &[]));
    world.pass_with(Duration::from_secs(10), &[id]);
    assert_eq!(reader.idle(&mut world, id), Some(10));
    let job = world.submit(&batch(2));
    assert_eq!(reader.idle(&mut world, id), None);
    assert!(!stored(&world, id), "the commit of the placement says so");
    for execution in world.live(job) {
        assert_eq!(reader.idle(&mut world, id), None);
        world.complete(execution);
    }
    world.pass_with(Duration::from_secs(7), &[id]);
    assert_eq!(reader.idle(&mut world, id), Some(7));
}

#[test]
fn daemons_keep_no_node_busy() {
    let (mut world, mut reader) = (World::new(), Reader::default());
    let id = world.join_node(&node(4.0, 4_000_000_000, &[]));
    let daemon = world.submit(&job(JobType::Daemon));
    let execution = world.only_live(daemon);
    world.run(execution);
    world.pass_with(Duration::from_secs(5), &[id]);
    assert_eq!(reader.idle(&mut world, id), Some(5));
    let service = world.submit(&job(JobType::Service));
    assert_eq!(reader.idle(&mut world, id), None);
    world.restart();
    assert_eq!(reader.idle(&mut world, id), None);
    world.stop(service);
    let execution = world.only_live(service);
    world.report(execution, ComputeState::Cancelled);
    assert_eq!(reader.idle(&mut world, id), Some(0));
}

#[test]
fn idleness_that_has_lasted_survives_a_restart() {
    let (mut world, mut reader) = (World::new(), Reader::default());
    let id = world.join_node(&node(4.0, 4_000_000_000, &[]));
    let job = world.submit(&batch(1));
    let execution = world.only_live(job);
    world.complete(execution);
    // Not stored yet: counted from the first heartbeat, so never for too long.
    world.pass_with(Duration::from_secs(30), &[id]);
    assert!(!stored(&world, id));
    world.restart();
    world.pass_with(Duration::from_secs(20), &[id]);
    assert!(reader.idle(&mut world, id).is_some_and(|idle| idle <= 20));
    // Stored, once.
    world.pass_with(Duration::from_secs(90), &[id]);
    assert!(stored(&world, id));
    let before = reader.idle(&mut world, id);
    world.restart();
    assert_eq!(reader.idle(&mut world, id), before);
    // What comes after the restart ends it, also for the next one.
    let next = world.submit(&batch(1));
    assert_eq!((reader.idle(&mut world, id), stored(&world, id)), (None, false));
    let execution = world.only_live(next);
    world.complete(execution);
    world.restart();
    world.heartbeat(id);
    assert_eq!(reader.idle(&mut world, id), Some(0));
}
