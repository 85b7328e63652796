//! Names of nodes: unique, and the same until a node is forgotten.

use std::collections::BTreeMap;
use std::time::Duration;

use api_types::NodeId;
use api_types::protocol::SessionRequest;
use scheduler::input::Input;

use crate::specs::node;
use crate::world::{LEASE, SETTINGS, World};

fn named(name: &str) -> SessionRequest {
    SessionRequest { name: name.to_owned(), ..node(4.0, 4_000_000_000, &[]) }
}

fn name(world: &World, id: NodeId) -> &str {
    &world.store.nodes[&id].record.name
}

/// The name with the first characters of the node's ID.
fn numbered(name: &str, id: NodeId) -> String {
    format!("{name}-{}", &id.to_string()[2..6])
}

#[test]
fn a_name_that_is_taken_gets_characters_of_the_id_for_good() {
    let mut world = World::new();
    let first = world.join_node(&named("build"));
    let second = world.join_node(&named("build"));
    let expected = numbered("build", second);
    assert_eq!((name(&world, first), name(&world, second)), ("build", &*expected));

    // Neither the order in which they return, nor a restart, nor another setting changes that.
    world.pass(LEASE * 2);
    world.restart();
    world.rejoin(second, &named("build"));
    world.rejoin(first, &named("other"));
    assert_eq!((name(&world, first), name(&world, second)), ("build", &*expected));

    // Who is forgotten gives its name back.
    world.pass(LEASE + Duration::from_secs(1));
    world.handle(Input::ForgetNode { node: first, now: false });
    world.rejoin(second, &named("build"));
    assert_eq!(name(&world, second), expected);
    let third = world.join_node(&named("build"));
    assert_eq!(name(&world, third), "build");
}

#[test]
fn a_node_without_a_usable_name_gets_one() {
    let mut world = World::new();
    // As agents of earlier releases join: with the host's name among the labels.
    let with_label = world.join_node(&node(4.0, 4_000_000_000, &[("hostname", "rack-7")]));
    assert_eq!(name(&world, with_label), "rack-7");
    let odd = world.join_node(&node(4.0, 4_000_000_000, &[("hostname", "a host")]));
    assert_eq!(name(&world, odd), "node");
    let orchestrator = world.join_node(&named("orchestrator"));
    assert_eq!(name(&world, orchestrator), numbered("orchestrator", orchestrator));
    let long = "n".repeat(63);
    world.join_node(&named(&long));
    let cut = world.join_node(&named(&long));
    assert_eq!(name(&world, cut), numbered(&long[..58], cut));
}

#[test]
fn a_store_of_an_older_release_has_names_from_the_start_on() {
    let mut world = World::new();
    let ids: Vec<_> = (0..3).map(|_| world.join_node(&named("build"))).collect();
    for row in world.store.nodes.values_mut() {
        std::sync::Arc::make_mut(&mut row.record).name.clear();
    }
    world.restart_before_the_first_tick(SETTINGS);
    let shown: BTreeMap<_, _> = world
        .scheduler
        .take_touched_nodes()
        .into_iter()
        .map(|(id, node)| (id, node.expect("it is known").name))
        .collect();
    // The IDs of this world begin alike, so the third name needs more of its ID.
    let longer = format!("node-{}", &ids[2].to_string()[2..10]);
    let expected = ["node".to_owned(), numbered("node", ids[1]), longer];
    assert_eq!(shown.values().cloned().collect::<Vec<_>>(), expected);
    world.rejoin(ids[2], &named("build"));
    assert_eq!(name(&world, ids[2]), expected[2], "what users have seen stays");
}
