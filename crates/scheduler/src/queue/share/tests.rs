//! How much of the lanes a search visits.

use alloc::format;

use api_types::JobId;
use uuid::Uuid;

use super::*;
use crate::queue::heads::Limits;
use crate::time::Moment;

const NAMESPACES: u32 = 10_000;

/// Leaves that may be visited on the way to one: a tree of lanes has 4,096 at most.
const FEW: usize = 16;

fn rank(number: u32) -> Rank {
    let job = JobId::from_uuid(Uuid::from_u128(number.into()));
    Rank { priority: Reverse(50), created: Moment(number.into()), job }
}

fn name(number: u32) -> Arc<str> {
    format!("n{number:05}").into()
}

/// Each namespace waits with a class of its own share, for one core or for eight.
fn lanes(share_of: impl Fn(u32) -> u64) -> Lanes {
    let mut lanes = Lanes::default();
    for number in 0..NAMESPACES {
        let cpu_millis = Some(if number % 2 == 0 { 8_000 } else { 1_000 });
        let need = Need { cpu_millis, memory_bytes: Some(1), disk_bytes: 0, gpus: 0 };
        let head = Some((rank(number), need));
        lanes.set_head(ClassId(number), &name(number), Share(share_of(number)), head);
    }
    lanes
}

/// The namespace with the smallest share that fits, and how many were visited.
fn smallest(lanes: &Lanes, cpu_millis: u64) -> (Option<Arc<str>>, usize) {
    let room = Resources { cpu_millis, memory_bytes: 1, disk_bytes: 0, gpus: 0 };
    let limits = Limits { room, defaults: Resources::ZERO };
    let (mut best, mut visited) = (None, 0);
    let level = lanes.level(Reverse(50)).expect("some wait");
    level.search(&limits, &mut best, &mut |(share, _): Due, id| {
        visited += 1;
        let (rank, _) = lanes.get(id)?.heads.first(&limits, |_, _| true)?;
        Some((share, rank))
    });
    let found = best.and_then(|(_, id)| lanes.get(id));
    (found.map(|lane| Arc::clone(&lane.namespace)), visited)
}

#[test]
fn of_ten_thousand_namespaces_that_wait_a_search_visits_a_few() {
    let mut lanes = lanes(|number| u64::from(NAMESPACES - number) + 7);
    for turn in 0..100 {
        let expected = NAMESPACES - 1 - 2 * turn;
        let (found, visited) = smallest(&lanes, 1_000);
        assert_eq!(found, Some(name(expected)));
        assert!(visited <= FEW, "{visited} are visited");
        lanes.follow_share(&name(expected), Share(1_000_000));
    }
    assert_eq!(smallest(&lanes, 8_000).0, Some(name(NAMESPACES - 2)));
    assert_eq!(smallest(&lanes, 500), (None, 0));
    // Equal shares go by age.
    for number in 0..NAMESPACES {
        lanes.follow_share(&name(number), Share(1));
    }
    let (found, visited) = smallest(&lanes, 1_000);
    assert_eq!(found, Some(name(1)));
    assert!(visited <= FEW, "{visited} are visited");
}

#[test]
fn a_change_of_the_capacity_reaches_all_lanes_in_bounded_steps() {
    let mut lanes = lanes(|_| 1);
    lanes.rescale();
    let mut steps = 0;
    while lanes.is_stale() {
        assert!(lanes.follow_capacity(|_| Share(2)) <= MOST_RESCALED);
        // One comes and another one goes in between.
        let need = Need { cpu_millis: None, memory_bytes: None, disk_bytes: 0, gpus: 0 };
        let (new, gone) = (NAMESPACES + steps, 3 * steps);
        lanes.set_head(ClassId(new), &name(new), Share(2), Some((rank(new), need)));
        lanes.set_head(ClassId(gone), &name(gone), Share(2), None);
        steps += 1;
    }
    assert!(lanes.iter().all(|(_, _, share)| share == Share(2)));
    assert!((9..=12).contains(&steps), "{steps}");
}

#[test]
fn what_is_postponed_comes_in_the_order_of_shares_and_may_be_asked_for() {
    let mut lanes = Lanes::default();
    for (class, namespace, share) in [(1, "a", 5), (2, "b", 3), (3, "a", 5), (4, "c", 3)] {
        lanes.postpone(ClassId(class), &namespace.into(), Share(share), rank(class));
    }
    let at = |share, number| {
        let (priority, rank) = (Reverse(50), rank(number));
        Order { priority, share: Share(share), rank }
    };
    let before = |order| lanes.postponed_before(order).map(|class| class.0).collect::<Vec<_>>();
    assert_eq!(before(at(3, 4)), [2]);
    assert_eq!(before(at(4, 1)), [2, 4]);
    assert_eq!(before(at(5, 3)), [2, 4, 1]);
    assert_eq!(lanes.next_postponed(), Some(at(3, 2)));
    lanes.follow_share(&"a".into(), Share(1));
    let order: Vec<_> =
        core::iter::from_fn(|| lanes.pop_postponed()).map(|class| class.0).collect();
    assert_eq!(order, [1, 3, 2, 4]);
    assert!(!lanes.is_any_postponed() && lanes.iter().next().is_none());
}
