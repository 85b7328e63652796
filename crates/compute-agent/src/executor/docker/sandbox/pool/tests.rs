//! Nobody gets a place that somebody has or that was not found empty.

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
        assert!(!pool.looked(sandbox, &Found::Clean, NOW));
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
    }
}

#[test]
fn a_place_is_lent_to_one_execution_at_a_time() {
    let mut pool = pool_of(&["a", "b"]);
    assert_eq!(pool.lend(execution_id(1), NOW).as_deref(), Some("a"));
    assert_eq!(pool.lend(execution_id(2), NOW).as_deref(), Some("b"));
    assert_eq!(pool.lend(execution_id(1), NOW).as_deref(), Some("a"), "asked again");
    assert_eq!(pool.lend(execution_id(3), NOW), None);
}

#[test]
fn a_place_is_handed_on_only_after_it_was_found_empty() {
    let mut pool = pool_of(&["a"]);
    pool.lend(execution_id(1), NOW);
    assert!(pool.give_back(execution_id(1), NOW));
    assert_eq!(pool.lend(execution_id(2), NOW), None);
    let busy = Found::Busy("tcp".to_owned());
    assert!(!pool.looked("a", &busy, later(COOLING_LIMIT / 2)));
    assert_eq!(pool.lend(execution_id(2), NOW), None);
    assert!(!pool.looked("a", &Found::Clean, NOW));
    assert_eq!(pool.lend(execution_id(2), NOW).as_deref(), Some("a"));
}

#[test]
fn what_cannot_be_handed_on_is_removed() {
    let mut pool = pool_of(&["a", "b"]);
    for (id, found, at) in [
        (1, Found::Spoilt("/etc/hosts".to_owned()), NOW),
        (2, Found::Busy("tcp".to_owned()), later(COOLING_LIMIT)),
    ] {
        let sandbox = pool.lend(execution_id(id), NOW).unwrap();
        pool.give_back(execution_id(id), NOW);
        assert!(pool.looked(&sandbox, &found, at), "{found:?}");
    }
    assert_eq!(pool.len(), 0);
}

#[test]
fn a_look_that_comes_too_late_frees_nothing() {
    let mut pool = pool_of(&["a"]);
    pool.lend(execution_id(1), NOW);
    assert!(!pool.looked("a", &Found::Clean, NOW));
    assert_eq!(pool.lend(execution_id(2), NOW), None);
}

#[test]
fn an_agent_that_comes_back_finds_whose_its_places_are() {
    let mut pool = Pool::default();
    let docker = seen(
        &[("free", true), ("held", true), ("ended", false), ("held-ended", false)],
        &[(1, Some("held")), (2, Some("held-ended")), (3, None)],
    );
    assert_eq!(pool.reconcile(&docker, NOW), ["ended"]);
    assert_eq!(pool.place_of(execution_id(1)).as_deref(), Some("held"));
    assert_eq!(pool.place_of(execution_id(2)).as_deref(), Some("held-ended"));
    assert_eq!(pool.cooling(), ["free"], "it is looked at before anyone gets it");
}

#[test]
fn a_container_that_was_made_unseen_keeps_its_place_only_while_nobody_else_has_it() {
    let mut pool = pool_of(&["a", "b"]);
    assert!(pool.claim("a", execution_id(1), NOW));
    assert!(pool.claim("a", execution_id(1), NOW));
    assert!(!pool.claim("a", execution_id(2), NOW));
    assert!(!pool.claim("gone", execution_id(2), NOW));
    pool.doubt(NOW);
    assert!(!pool.claim("b", execution_id(2), NOW));
}

#[test]
fn a_place_whose_execution_never_had_a_container_comes_back() {
    let mut pool = pool_of(&["a"]);
    pool.lend(execution_id(1), NOW);
    let docker = seen(&[("a", true)], &[]);
    assert!(pool.reconcile(&docker, later(UNSEEN_LIMIT / 2)).is_empty());
    assert!(pool.cooling().is_empty(), "its container may be being made");
    pool.reconcile(&docker, later(UNSEEN_LIMIT * 2));
    assert_eq!(pool.cooling(), ["a"]);
}

#[test]
fn what_docker_lost_is_forgotten() {
    let mut pool = pool_of(&["a", "b"]);
    assert_eq!(pool.reconcile(&seen(&[("b", false)], &[]), NOW), ["b"]);
    assert_eq!(pool.len(), 0);
}
