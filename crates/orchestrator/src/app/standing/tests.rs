//! What a process says of its readiness, and where connections go.

use api_types::Timestamp;
use control_plane::store::{SessionSign, Term};

use super::*;

const SECOND: u64 = 1_000_000_000;

fn leader(address: &str) -> Leader {
    Leader { address: address.to_owned(), exposure: Exposure::Protected, pass_key: [1; 32] }
}

fn sighting(leader: Option<Leader>) -> Sighting {
    Sighting {
        term: Term::default(),
        last_commit: 1,
        beat: 0,
        stamp: None,
        leader,
        session: SessionSign::Present,
        connection: 1,
        wall: Timestamp(0),
        format: 3,
        oldest: 2,
    }
}

fn standing() -> Arc<Standing> {
    let standing = Standing::new(Exposure::Protected);
    standing.advertise("b:1");
    standing
}

/// Sees this leader, with a release that writes format 3.
fn sees(standing: &Standing, leader: Option<Leader>) {
    standing.polled(&Ok(sighting(leader)), 3);
}

#[track_caller]
fn says(standing: &Standing, part: &str) {
    let reason = standing.readiness().expect_err("it is not ready");
    assert!(reason.contains(part), "{part:?} is not in {reason:?}");
}

#[test]
fn a_follower_is_ready_while_it_reaches_the_leader() {
    let standing = standing();
    says(&standing, "has not seen the database");
    sees(&standing, Some(leader("a:1")));
    says(&standing, "the leader at a:1 accepts no connection");
    standing.dialed(&leader("a:1"), true);
    assert_eq!(standing.readiness(), Ok(()));
    // A takeover may be under way.
    standing.dialed(&leader("a:1"), false);
    assert_eq!(standing.readiness(), Ok(()));
    standing.readiness_at(boot_nanos() + 11 * SECOND).expect_err("it cannot reach the leader");
    sees(&standing, None);
    let reason = standing.readiness_at(boot_nanos() + 11 * SECOND).expect_err("none leads");
    assert_eq!(reason, "no orchestrator leads");
}

#[test]
fn a_follower_is_ready_at_first_without_a_leader() {
    let standing = standing();
    sees(&standing, None);
    assert_eq!(standing.readiness(), Ok(()));
    standing.readiness_at(boot_nanos() + 11 * SECOND).expect_err("none leads");
}

#[test]
fn each_problem_is_named_and_passes() {
    let standing = standing();
    sees(&standing, Some(leader("a:1")));
    standing.dialed(&leader("a:1"), true);
    standing.polled(&Err(StoreError::Unavailable), 3);
    says(&standing, "cannot see the leader in the database");
    standing.polled(&Ok(sighting(Some(leader("a:1")))), 1);
    says(&standing, "the state has format 3, and this release knows formats up to 1");
    sees(&standing, Some(leader("a:1")));
    standing.key_problem(Some("cluster.key is missing".to_owned()));
    says(&standing, "cluster.key is missing");
    standing.key_problem(None);
    let exposed = Leader { exposure: Exposure::Insecure, ..leader("a:1") };
    sees(&standing, Some(exposed));
    says(&standing, "the leader at a:1 is open to other machines without TLS, and this");
    sees(&standing, Some(leader("a:1")));
    assert_eq!(standing.readiness(), Ok(()));
    standing.won();
    says(&standing, "loads the state");
}

#[test]
fn connections_go_to_the_leader_unless_it_is_this_process_or_exposed_otherwise() {
    let standing = standing();
    let route = |leader: Option<Leader>| {
        sees(&standing, leader);
        standing.route(&standing.lead().borrow())
    };
    assert_eq!(route(None), Route::Wait);
    assert_eq!(route(Some(leader("a:1"))), Route::To(Arc::new(leader("a:1"))));
    assert_eq!(route(Some(leader("b:1"))), Route::Wait);
    let exposed = Leader { exposure: Exposure::OpenLoopback, ..leader("a:1") };
    assert_eq!(route(Some(exposed)), Route::Nowhere);
    standing.won();
    assert_eq!(standing.route(&standing.lead().borrow()), Route::Here);
}

#[test]
fn connections_learn_of_another_leader_and_of_nothing_else() {
    let standing = standing();
    let mut lead = standing.lead();
    sees(&standing, Some(leader("a:1")));
    assert!(lead.has_changed().expect("it lives"));
    lead.mark_unchanged();
    standing.dialed(&leader("a:1"), true);
    assert!(lead.borrow_and_update().is_reachable);
    sees(&standing, Some(leader("a:1")));
    standing.polled(&Err(StoreError::Unavailable), 3);
    standing.dialed(&leader("a:1"), true);
    // The outcome for a former leader says nothing about this one.
    standing.dialed(&leader("c:1"), false);
    assert!(!lead.has_changed().expect("it lives"), "nothing is new");
    // It took the lead over again, as another process.
    sees(&standing, Some(Leader { pass_key: [2; 32], ..leader("a:1") }));
    assert!(lead.has_changed().expect("it lives"));
    assert!(!lead.borrow().is_reachable);
}
