//! Why nodes do not take a job, in groups with amounts.

use std::time::{Duration, Instant};

use api_types::JobId;
use api_types::job::JobType;
use api_types::node::NodeAction;
use api_types::reason::{Amount, ReasonGroup};
use scheduler::plan::JobPlan;
use scheduler::{Reasons, Standing};

use crate::specs::{batch, job, node, with_constraint, with_cpu};
use crate::world::World;

fn standing(world: &World, job: JobId) -> Standing {
    world.scheduler.standing(job).expect("the job is live")
}

fn sentences(groups: &[ReasonGroup]) -> Vec<&str> {
    groups.iter().map(|group| group.message.as_str()).collect()
}

#[test]
fn nodes_are_grouped_by_what_keeps_them_from_a_job() {
    let mut world = World::new();
    let eu = [("region", "eu")];
    let cordoned = world.join_node(&node(4.0, 4_000_000_000, &eu));
    world.act(cordoned, NodeAction::Cordon);
    for labels in [&[("region", "us")][..], &[("region", "ap")], &[]] {
        world.join_node(&node(4.0, 4_000_000_000, labels));
    }
    let full = world.join_node(&node(8.0, 4_000_000_000, &eu));
    world.join_node(&node(2.0, 4_000_000_000, &eu));
    let first = world.submit(&with_constraint(with_cpu(batch(1), "7"), "region", "eu"));
    let execution = world.only_live(first);
    assert_eq!(world.row(execution).node, full);
    let job = world.submit(&with_constraint(with_cpu(batch(1), "4"), "region", "eu"));
    let Reasons { groups, hopeless } = standing(&world, job).reasons;
    assert!(!hopeless);
    let expected = [
        "3 nodes do not match region=eu: their region is ap, us",
        "1 node has too little: 4 cores are asked for, 1 is free",
        "1 node has too little: 4 cores are asked for, it has 2",
        "1 node is cordoned",
    ];
    assert_eq!(sentences(&groups), expected);
    let constraint = &groups[0];
    assert_eq!(constraint.node_ids.len(), 3);
    assert_eq!(constraint.key.as_deref(), Some("region"));
    let busy = &groups[1];
    assert_eq!((busy.reason.as_str(), &busy.node_ids[..]), ("CPU", &[full][..]));
    let amounts = [busy.asked, busy.largest, busy.free];
    assert_eq!(amounts, [4.0, 8.0, 1.0].map(|cores| Some(Amount::Cores(cores))));
}

#[test]
fn a_job_is_hopeless_only_where_no_node_could_ever_take_it() {
    let mut world = World::new();
    let job = world.submit(&with_constraint(with_cpu(batch(1), "4"), "zone", "a"));
    let reasons = |world: &World| standing(world, job).reasons;
    assert_eq!(sentences(&reasons(&world).groups), ["no node has joined"]);
    assert!(!reasons(&world).hopeless);
    world.join_node(&node(8.0, 8_000_000_000, &[]));
    world.join_node(&node(2.0, 8_000_000_000, &[("zone", "a")]));
    assert!(reasons(&world).hopeless);
    // Its engine may return, as a cordoned node may.
    let mut without = node(8.0, 8_000_000_000, &[("zone", "a")]);
    without.compute_node_info.execution_engines.clear();
    world.join_node(&without);
    assert!(!reasons(&world).hopeless);
    assert!(sentences(&reasons(&world).groups).contains(&"1 node has no docker engine"));
    assert!(!world.explanation(job).contains("ever"), "the message agrees");
}

#[test]
fn a_job_with_one_execution_per_node_asks_about_the_nodes_it_waits_for() {
    let mut world = World::new();
    world.join_node(&node(1.0, 4_000_000_000, &[]));
    let other = world.join_node(&node(8.0, 4_000_000_000, &[]));
    world.submit(&with_cpu(batch(1), "8"));
    let daemon = world.submit(&with_cpu(job(JobType::Daemon), "1"));
    let groups = standing(&world, daemon).reasons.groups;
    assert_eq!((groups.len(), &groups[0].node_ids[..]), (1, &[other][..]));
}

#[test]
fn a_dry_run_has_the_same_groups() {
    let (world, _) = World::with_nodes(2);
    let spec = with_cpu(batch(1), "64");
    let preview = world.scheduler.preview(&JobPlan::from_spec(&spec).unwrap(), 1);
    let expected = ["2 nodes have too little: 64 cores are asked for, the largest has 4"];
    assert_eq!(sentences(&preview.reasons.groups), expected);
    assert!(preview.reasons.hopeless);
}

/// The service promises 50 ms, optimised; without optimisation it may take ten times as long.
#[test]
fn ten_thousand_nodes_are_explained_within_fifty_milliseconds() {
    let bound = Duration::from_millis(if cfg!(debug_assertions) { 500 } else { 50 });
    let mut world = World::new();
    world.is_checked = false;
    for number in 0..10_000_u32 {
        let zone = format!("zone-{}", number % 50);
        world.join_node(&node(4.0, 4_000_000_000, &[("zone", &zone), ("disk", "ssd")]));
    }
    let mut spec = with_cpu(batch(1), "64");
    for zone in ["zone-1", "zone-2"] {
        spec = with_constraint(spec, "zone", zone);
    }
    let job = world.submit(&spec);
    let fastest = (0..5).map(|_| {
        let begin = Instant::now();
        assert_eq!(
            standing(&world, job).reasons.groups.iter().map(|it| it.nodes).sum::<u64>(),
            10_000
        );
        begin.elapsed()
    });
    let fastest = fastest.min().expect("there were five");
    assert!(fastest < bound, "{fastest:?}");
    eprintln!("10,000 nodes are explained in {fastest:?}");
}
