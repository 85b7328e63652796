//! A slot has one holder, and an inspection precedes its reuse.

use super::*;
use crate::testing::execution_id;

const NOW: Timestamp = Timestamp(1_000_000_000_000);

fn later(by: Duration) -> Timestamp {
    Timestamp(NOW.0 + i64::try_from(by.as_nanos()).unwrap())
}

fn pool_of(sandboxes: &[&str]) -> Pool {
    let mut pool = Pool::default();
    for sandbox in sandboxes {
        pool.add((*sandbox).to_owned(), NOW);
        assert!(!pool.inspected(sandbox, &Inspection::Clean, NOW));
    }
    pool
}

fn seen(sandboxes: &[(&str, bool)], executions: &[(u128, Option<&str>)]) -> Seen {
    Seen {
        sandboxes: sandboxes.iter().map(|(id, runs)| ((*id).to_owned(), *runs)).collect(),
        executions: executions
            .iter()
            .map(|(id, sandbox)| (execution_id(*id), sandbox.map(str::to_owned)))
            .collect(),
        stamps: BTreeMap::new(),
    }
}

#[test]
fn a_slot_is_leased_to_one_execution_at_a_time() {
    let mut pool = pool_of(&["a", "b"]);
    assert_eq!(pool.lease(execution_id(1), NOW).as_deref(), Some("a"));
    assert_eq!(pool.lease(execution_id(2), NOW).as_deref(), Some("b"));
    assert_eq!(pool.lease(execution_id(1), NOW).as_deref(), Some("a"), "asked again");
    assert_eq!(pool.lease(execution_id(3), NOW), None);
}

#[test]
fn a_slot_is_reused_only_after_an_inspection_found_it_empty() {
    let mut pool = pool_of(&["a"]);
    pool.lease(execution_id(1), NOW);
    assert!(pool.give_back(execution_id(1), NOW));
    assert_eq!(pool.lease(execution_id(2), NOW), None);
    let busy = Inspection::Busy("tcp".to_owned());
    assert!(!pool.inspected("a", &busy, later(COOLING_LIMIT / 2)));
    assert_eq!(pool.lease(execution_id(2), NOW), None);
    assert!(!pool.inspected("a", &Inspection::Clean, NOW));
    assert_eq!(pool.lease(execution_id(2), NOW).as_deref(), Some("a"));
}

#[test]
fn a_spoilt_sandbox_is_removed() {
    let mut pool = pool_of(&["a", "b"]);
    for (id, found, at) in [
        (1, Inspection::Spoilt("/etc/hosts".to_owned()), NOW),
        (2, Inspection::Busy("tcp".to_owned()), later(COOLING_LIMIT)),
    ] {
        let sandbox = pool.lease(execution_id(id), NOW).unwrap();
        pool.give_back(execution_id(id), NOW);
        assert!(pool.inspected(&sandbox, &found, at), "{found:?}");
    }
    assert_eq!(pool.len(), 0);
}

#[test]
fn a_late_inspection_frees_nothing() {
    let mut pool = pool_of(&["a"]);
    pool.lease(execution_id(1), NOW);
    assert!(!pool.inspected("a", &Inspection::Clean, NOW));
    assert_eq!(pool.lease(execution_id(2), NOW), None);
}

#[test]
fn a_restarted_agent_finds_the_leases_of_its_slots() {
    let mut pool = Pool::default();
    let docker = seen(
        &[("free", true), ("held", true), ("ended", false), ("held-ended", false)],
        &[(1, Some("held")), (2, Some("held-ended")), (3, None)],
    );
    assert_eq!(pool.reconcile(&docker, NOW), ["ended"]);
    assert_eq!(pool.slot_of(execution_id(1)).as_deref(), Some("held"));
    assert_eq!(pool.slot_of(execution_id(2)).as_deref(), Some("held-ended"));
    assert_eq!(pool.cooling(), ["free"], "it is inspected before its next lease");
}

#[test]
fn an_unseen_container_keeps_its_slot_only_while_no_other_task_holds_it() {
    let mut pool = pool_of(&["a", "b"]);
    assert!(pool.claim("a", execution_id(1), NOW));
    assert!(pool.claim("a", execution_id(1), NOW));
    assert!(!pool.claim("a", execution_id(2), NOW));
    assert!(!pool.claim("gone", execution_id(2), NOW));
    pool.doubt(NOW);
    assert!(!pool.claim("b", execution_id(2), NOW));
}

#[test]
fn a_slot_whose_execution_never_had_a_container_is_returned() {
    let mut pool = pool_of(&["a"]);
    pool.lease(execution_id(1), NOW);
    let docker = seen(&[("a", true)], &[]);
    assert!(pool.reconcile(&docker, later(UNSEEN_LIMIT / 2)).is_empty());
    assert!(pool.cooling().is_empty(), "its container may be being made");
    pool.reconcile(&docker, later(UNSEEN_LIMIT * 2));
    assert_eq!(pool.cooling(), ["a"]);
}

#[test]
fn sandboxes_missing_in_docker_are_forgotten() {
    let mut pool = pool_of(&["a", "b"]);
    assert_eq!(pool.reconcile(&seen(&[("b", false)], &[]), NOW), ["b"]);
    assert_eq!(pool.len(), 0);
}

#[test]
fn a_sandbox_with_a_long_lease_is_notified_repeatedly() {
    let mut pool = pool_of(&["a", "b"]);
    pool.lease(execution_id(1), NOW);
    assert!(pool.awaits_hold());
    assert_eq!(pool.to_hold(NOW), [""; 0], "most tasks are over before");
    assert_eq!(pool.to_hold(later(HOLD_AFTER)), ["a"]);
    pool.held("a", later(HOLD_AFTER));
    assert!(!pool.awaits_hold());
    assert_eq!(pool.to_hold(later(HOLD_AGAIN)), [""; 0]);
    assert_eq!(pool.to_hold(later(HOLD_AFTER + HOLD_AGAIN)), ["a"]);
}

#[test]
fn slots_without_a_task_are_removable() {
    let mut pool = pool_of(&["a", "b", "c"]);
    pool.add("d".to_owned(), NOW);
    for id in [1, 2] {
        pool.lease(execution_id(id), NOW);
    }
    // The container of the second has ended.
    let seen = seen(&[], &[(1, Some("a")), (2, None)]);
    assert_eq!(pool.take_free(&seen), ["b", "c", "d"]);
    assert_eq!(pool.leased(), ["a"]);
}

#[test]
fn free_sandboxes_with_another_policy_are_replaced() {
    let mut pool = pool_of(&["a", "b", "c"]);
    pool.lease(execution_id(1), NOW);
    let stamps = ["a", "b"].map(|id| (id.to_owned(), "old".to_owned()));
    let stamps = stamps.into_iter().chain([("c".to_owned(), "new".to_owned())]).collect();
    let seen = Seen { stamps, ..Seen::default() };
    assert_eq!(pool.take_outdated(&seen, "new"), ["b"], "a task has the other");
    assert_eq!((pool.len(), pool.free()), (2, 1));
}

#[test]
fn a_sandbox_with_another_policy_goes_when_its_task_has_ended() {
    let mut pool = pool_of(&["a", "b"]);
    for id in [1, 2] {
        pool.lease(execution_id(id), NOW);
    }
    let stamps = [("a", "old"), ("b", "new")].map(|(id, stamp)| (id.to_owned(), stamp.to_owned()));
    let seen = Seen { stamps: stamps.into(), ..Seen::default() };
    assert!(pool.take_outdated(&seen, "new").is_empty());
    for id in [1, 2] {
        pool.give_back(execution_id(id), NOW);
    }
    assert!(pool.inspected("a", &Inspection::Clean, NOW), "no task gets the old policy");
    assert!(!pool.inspected("b", &Inspection::Clean, NOW));
    assert_eq!(pool.idle(), 1);
}

#[test]
fn sandboxes_that_no_task_needed_are_spare() {
    let mut pool = pool_of(&["a", "b", "c", "d"]);
    for id in [1, 2] {
        pool.lease(execution_id(id), NOW);
        pool.give_back(execution_id(id), NOW);
    }
    for sandbox in pool.cooling() {
        pool.inspected(&sandbox, &Inspection::Clean, NOW);
    }
    assert_eq!(pool.take_spare(1), ["a"], "two were never needed, and one is kept");
    assert_eq!(pool.take_spare(2), ["b"], "no task needed any since then");
    assert_eq!(pool.take_spare(2), [""; 0]);
    pool.add_leased("e".to_owned(), execution_id(3), NOW);
    assert_eq!(pool.take_spare(0), [""; 0], "a task waited for one");
    assert_eq!(pool.take_spare(0), ["c", "d"]);
}

#[test]
fn no_more_sandboxes_stay_busy_than_tasks_hold_others() {
    let mut pool = pool_of(&["a", "b", "c", "d"]);
    for (id, seconds) in [(1, 3), (2, 2), (3, 1)] {
        pool.lease(execution_id(id), NOW);
        pool.give_back(execution_id(id), later(Duration::from_secs(seconds)));
    }
    assert_eq!(pool.take_busy(3), [""; 0]);
    assert_eq!(pool.lease(execution_id(4), NOW).as_deref(), Some("d"));
    assert_eq!(pool.take_busy(1), ["c"], "it has been busy for the longest time");
    pool.give_back(execution_id(4), NOW);
    assert_eq!(pool.take_busy(0), ["d", "b", "a"]);
}
