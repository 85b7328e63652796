//! The fractions that are promised, and the order of turns.

use std::sync::Arc;
use std::time::Duration;

use api_types::access::Role;
use control_plane::store::Namespaces;

use super::permit_queue::PermitQueue;
use super::*;
use crate::access::{Caller, Who};

const POOL: Pool = Pool { name: "things", what: "things", serves_nodes: false, open_has_all: true };
const WITH_NODES: Pool = Pool { serves_nodes: true, ..POOL };

fn token(namespaces: &[&str], id: &str) -> Owner {
    caller(Role::Viewer, namespaces, id)
}

fn caller(role: Role, namespaces: &[&str], id: &str) -> Owner {
    let names = namespaces.iter().map(|name| (*name).to_owned()).collect();
    let who = Who::Token { id: id.to_owned(), name: "it".to_owned(), session: None };
    Owner::for_caller(&Caller { who, role, namespaces: Namespaces::Only(names) })
}

fn shares(pool: Pool, total: usize) -> Shares {
    Shares::new(pool, total, &Refusals::default())
}

/// As many as each is granted if they take turns.
fn fill(shares: &Shares, owners: &[Owner], kept: &mut Vec<Permit>) -> Vec<usize> {
    let mut counts = vec![0; owners.len()];
    loop {
        let before = kept.len();
        for (owner, count) in owners.iter().zip(&mut counts) {
            if let Ok(permit) = shares.take(owner, 1) {
                kept.push(permit);
                *count += 1;
            }
        }
        if kept.len() == before {
            return counts;
        }
    }
}

/// What is said of shares, for pools of all sizes: within one permit of the fraction.
#[test]
fn shares_are_the_fractions_that_are_promised() {
    for total in [24, 64, 100, 512, 4096] {
        let usable = total - total / RESERVED_PART;
        let near = |count: usize, part: usize| {
            let exact = usable / part;
            assert!((exact..=exact + 1).contains(&count), "{count} is no 1/{part} of {usable}");
        };
        let of = |owners: &[Owner]| -> usize {
            fill(&shares(POOL, total), owners, &mut Vec::new()).iter().sum()
        };
        near(of(&[token(&["a"], "1")]), 3);
        let many = |count: usize, namespace: &str| -> Vec<Owner> {
            (0..count).map(|id| token(&[namespace], &format!("{namespace}{id}"))).collect()
        };
        near(of(&many(10, "a")), 2);
        assert_eq!(of(&many(10, "a")), of(&many(1000, "a")), "more tokens get no more");
        let two: Vec<_> =
            many(10, "a").into_iter().zip(many(10, "b")).flat_map(|(a, b)| [a, b]).collect();
        let counts = fill(&shares(POOL, total), &two, &mut Vec::new());
        for first in [0, 1] {
            near(counts.iter().skip(first).step_by(2).sum(), 3);
        }
    }
}

/// However many take what they get, something is left for the next, in any order of arrivals.
#[test]
fn there_is_always_something_for_the_next_namespace() {
    for pool in [POOL, WITH_NODES] {
        let (shares, mut kept) = (shares(pool, 512), Vec::new());
        for hostile in 0..6 {
            let name = format!("n{hostile}");
            let tokens: Vec<_> =
                (0..20).map(|id| token(&[&name], &format!("{name}{id}"))).collect();
            let got: usize = fill(&shares, &tokens, &mut kept).iter().sum();
            assert!(got > 0, "namespace {hostile} of {kept}", kept = kept.len());
        }
        let ops = [caller(Role::Operator, &[], "o"), caller(Role::Admin, &[], "a")];
        let got: usize = fill(&shares, &ops, &mut kept).iter().sum();
        assert!(got >= 512 / RESERVED_PART / 2, "{got}");
        let node = Owner::for_caller(&Caller::node(api_types::NodeId::from_uuid(
            uuid::Uuid::from_u128(1),
        )));
        assert!(!pool.serves_nodes || shares.take(&node, 16).is_ok());
        assert!(shares.used() <= shares.total());
        drop(kept);
        assert_eq!(shares.used(), 0);
        assert_eq!(lock(&shares.held).by_owner.len(), 0, "no one is remembered");
    }
}

#[test]
fn what_is_reserved_is_for_no_one_else() {
    let shares = shares(WITH_NODES, 64);
    let everyone: Vec<_> = (0..200).map(|n| token(&[&format!("n{n}")], &format!("t{n}"))).collect();
    let mut kept = Vec::new();
    fill(&shares, &everyone, &mut kept);
    assert_eq!(shares.used(), 64 - 2 * 8);
    let operators: Vec<_> = (0..9).map(|n| caller(Role::Operator, &[], &format!("o{n}"))).collect();
    fill(&shares, &operators, &mut kept);
    assert!(shares.used() > 64 - 2 * 8 && shares.used() <= 64 - 8, "{}", shares.used());
}

#[test]
fn many_permits_are_granted_as_one_by_one() {
    let shares = shares(POOL, 64);
    let (one, other) = (token(&["a"], "1"), token(&["b"], "2"));
    assert_eq!(shares.take(&one, 57).err().map(|it| it.bound), Some(Bound::All));
    let held = shares.take(&one, 19).ok().unwrap();
    let refused = shares.take(&one, 1).err().unwrap();
    assert_eq!((refused.bound, refused.total), (Bound::Principal { held: 19 }, 64));
    let second = shares.take(&token(&["a"], "3"), 9).ok().unwrap();
    let third = token(&["a"], "4");
    let group = Group::Namespace("a".into());
    let bound = shares.take(&third, 1).err().map(|it| it.bound);
    assert_eq!(bound, Some(Bound::Group { group, held: 28 }));
    assert!(shares.take(&other, 10).is_ok());
    drop((held, second));
    assert!(shares.take(&third, 19).is_ok());
    // On an open listener all callers together have the whole pool.
    let whole = shares.take(&Owner::everyone(), 64).ok();
    assert!(whole.is_some() && shares.take(&Owner::everyone(), 1).is_err());
}

#[test]
fn owners_are_tokens_nodes_and_networks() {
    assert_eq!(token(&["b", "a"], "1").group, Group::Namespace("a".into()));
    assert_eq!(caller(Role::Admin, &["a"], "1").group, Group::Cluster);
    let at = |text: &str| Owner::unknown(text.parse().ok());
    assert_eq!(at("2001:db8::1"), at("2001:db8::ffff:0:0:2"));
    assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
    assert_ne!(at("192.0.2.1"), at("192.0.2.2"));
    assert_eq!(at("192.0.2.1"), at("::ffff:192.0.2.1"));
    assert_ne!(at("192.0.2.1"), Owner::unknown(None));
}

#[test]
fn refusals_are_counted_by_group() {
    let refusals = Refusals::default();
    let shares = Shares::new(POOL, 8, &refusals);
    let _held = fill(&shares, &[token(&["a"], "1"), token(&["a"], "2")], &mut Vec::new());
    let mut kept = Vec::new();
    fill(&shares, &[token(&["a"], "1")], &mut kept);
    assert!(refusals.count("things", "a", "(newcomers)") > 0);
    fill(&shares, &[token(&["b"], "3")], &mut kept);
    assert!(refusals.count("things", "b", "a") > 0);
    for number in 0..2000 {
        refusals.note("things", &Group::Namespace(format!("n{number}").into()), None);
    }
    assert!(refusals.count("things", "(others)", "(others)") > 900);
}

fn queue(total: usize) -> PermitQueue {
    PermitQueue::new(Pool { open_has_all: false, ..POOL }, total, 100, &Refusals::default())
}

#[tokio::test]
async fn the_second_turn_never_goes_to_a_group_that_holds_the_first() {
    let queue = queue(2);
    for owner in [token(&["a"], "1"), Owner::everyone()] {
        let first = queue.take(&owner).await.ok().unwrap();
        let mut again = Box::pin(queue.take(&owner));
        assert!(futures_util::poll!(&mut again).is_pending());
        let other = token(&["b"], "2");
        let second = queue.take(&other).await.ok().unwrap();
        assert_eq!((queue.permits().used(), queue.waiting()), (2, 1));
        drop(first);
        drop(again.await);
        drop(second);
        assert_eq!((queue.permits().used(), queue.waiting()), (0, 0));
    }
}

#[tokio::test]
async fn groups_take_turns_and_so_do_their_principals() {
    let queue = queue(1);
    let first = queue.take(&token(&["z"], "0")).await.ok().unwrap();
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut waiting = Vec::new();
    // A crowd of one namespace, and one request of each of two others, which came last.
    let crowd = (0..20).map(|number| ("a", format!("a{}", number % 2)));
    let late = [("b", "b0".to_owned()), ("c", "c0".to_owned())];
    for (namespace, id) in crowd.chain(late) {
        let (own, order) = (queue.clone(), Arc::clone(&served));
        waiting.push(tokio::spawn(async move {
            let owner = token(&[namespace], &id);
            let turn = own.take(&owner).await.ok().unwrap();
            lock(&order).push(id);
            drop(turn);
        }));
        // So that they come in this order.
        while queue.waiting() < waiting.len() {
            tokio::task::yield_now().await;
        }
    }
    drop(first);
    for task in waiting {
        task.await.unwrap();
    }
    let served = lock(&served);
    let at = |id: &str| served.iter().position(|known| known == id).unwrap();
    assert!(at("b0") <= 2 && at("c0") <= 3, "{served:?}");
    let alternating = served.iter().filter(|id| id.starts_with('a')).take(4);
    let alternating: Vec<_> = alternating.map(String::as_str).collect();
    assert_ne!(alternating[0], alternating[1], "{served:?}");
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_holds_nothing() {
    let queue = queue(1);
    let first = queue.take(&token(&["a"], "1")).await.ok().unwrap();
    for number in 0..10 {
        let owner = token(&["b"], &number.to_string());
        let taken = tokio::time::timeout(Duration::from_secs(1), queue.take(&owner)).await;
        assert!(taken.is_err());
    }
    assert_eq!(queue.waiting(), 0);
    let (owner, queue_too) = (token(&["c"], "1"), queue.clone());
    let mut stalled = Box::pin(async move { queue_too.take(&owner).await });
    assert!(futures_util::poll!(&mut stalled).is_pending());
    // Granted, and dropped before it is polled again.
    drop(first);
    drop(stalled);
    assert_eq!((queue.permits().used(), queue.waiting()), (0, 0));
    drop(queue.take(&token(&["d"], "1")).await);
}
