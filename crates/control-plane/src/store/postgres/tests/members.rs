//! The orchestrators of a database, as each of them describes itself.

use std::time::Duration;

use api_types::NodeId;
use postgres_server::TestDatabase;
use uuid::Uuid;

use super::lead::{candidate, win};
use super::opened;
use crate::store::postgres::PostgresMembership;
use crate::store::{Exposure, Member, MemberRecord, Membership, Roll};

const WEEK: Duration = Duration::from_hours(7 * 24);

fn membership(database: &TestDatabase) -> PostgresMembership {
    PostgresMembership::new(opened(database)).unwrap()
}

fn member(number: u128, address: &str) -> Member {
    let record = MemberRecord {
        address: address.to_owned(),
        exposure: Exposure::Protected,
        names: vec![address.to_owned(), "10.0.0.1".to_owned()],
        release: "v1".to_owned(),
        format: 29,
        cluster_keys: vec!["k".to_owned()],
        settings: vec![("node_ttl".to_owned(), "0".to_owned())],
        ready: true,
    };
    Member {
        id: NodeId::from_uuid(Uuid::from_u128(number)),
        instance: number,
        started_at: 7,
        record,
    }
}

fn addresses(roll: &Roll) -> Vec<&str> {
    roll.members.iter().map(|seen| seen.member.record.address.as_str()).collect()
}

#[test]
fn members_announce_themselves_before_any_leads_and_see_each_other() {
    let Some(database) = TestDatabase::new() else { return };
    let (mut a, mut b) = (membership(&database), membership(&database));
    let empty = a.roll().unwrap();
    assert_eq!((empty.members.len(), empty.leader, empty.takeovers), (0, None, 0));
    a.announce(&member(1, "a:8080")).unwrap();
    b.announce(&member(2, "b:8080")).unwrap();
    let roll = a.roll().unwrap();
    assert_eq!(addresses(&roll), ["a:8080", "b:8080"]);
    assert_eq!(roll.members[0].member, member(1, "a:8080"));
    assert!(roll.members.iter().all(|seen| roll.unseen_for(seen) < Duration::from_secs(60)));
    assert!(!roll.leads(&roll.members[0].member));

    drop(win(&mut candidate(&database), "a"));
    let roll = b.roll().unwrap();
    assert!(roll.leads(&roll.members[0].member) && !roll.leads(&roll.members[1].member));
    assert_eq!((roll.takeovers, roll.times_went_back), (1, 0));
    assert_eq!(roll.server.split('/').count(), 3, "{}", roll.server);
    drop(win(&mut candidate(&database), "b"));
    assert_eq!(b.roll().unwrap().takeovers, 2);
}

#[test]
fn a_row_says_which_process_wrote_it_last_and_when_by_the_servers_clock() {
    let Some(database) = TestDatabase::new() else { return };
    let mut one = membership(&database);
    let (first, copy) = (member(1, "a:8080"), Member { instance: 9, ..member(1, "copy:8080") });
    one.announce(&first).unwrap();
    let before = one.roll().unwrap();
    one.announce(&copy).unwrap();
    let after = one.roll().unwrap();
    assert_eq!(after.members.len(), 1);
    assert_eq!(after.members[0].member, copy);
    assert!(after.members[0].seen_at > before.members[0].seen_at);
}

#[test]
fn members_that_were_not_seen_for_long_are_forgotten_and_what_cannot_be_read_is_left_out() {
    let Some(database) = TestDatabase::new() else { return };
    let mut a = membership(&database);
    for number in 1..=3 {
        a.announce(&member(number, &format!("{number}:8080"))).unwrap();
    }
    let age = "UPDATE member SET seen_at = seen_at - 8 * 24 * 3600 * 1000000000::bigint
        WHERE instance = decode('00000000000000000000000000000002', 'hex')";
    database.admin().batch_execute(age).unwrap();
    assert_eq!(a.roll().unwrap().seen_within(WEEK).count(), 2);
    assert_eq!(a.forget(WEEK).unwrap(), 1);
    let damage = "UPDATE member SET record = 'x'
        WHERE instance = decode('00000000000000000000000000000003', 'hex')";
    database.admin().batch_execute(damage).unwrap();
    assert_eq!(addresses(&a.roll().unwrap()), ["1:8080"]);
    a.announce(&member(3, "3:8080")).unwrap();
    assert_eq!(addresses(&a.roll().unwrap()), ["1:8080", "3:8080"]);
}

#[test]
fn a_session_that_ended_is_replaced_by_the_next_call() {
    let Some(database) = TestDatabase::new() else { return };
    let mut a = membership(&database);
    a.announce(&member(1, "a:8080")).unwrap();
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()";
    database.admin().batch_execute(end).unwrap();
    // The end of the session may come before the call or in it.
    drop(a.announce(&member(1, "a:8080")));
    a.announce(&member(1, "again:8080")).unwrap();
    assert_eq!(addresses(&a.roll().unwrap()), ["again:8080"]);
}

#[test]
fn of_all_records_only_the_keys_are_read() {
    let Some(database) = TestDatabase::new() else { return };
    drop(win(&mut candidate(&database), "a"));
    let insert = "INSERT INTO record VALUES
        ('token', 't', 1, '{}'), ('key', 'k', 1, '{}'), ('of a later release', 'x', 1, '{}')";
    database.admin().batch_execute(insert).unwrap();
    let keys = membership(&database).keys().unwrap();
    let keys: Vec<_> = keys.iter().map(|record| record.key.key.as_str()).collect();
    assert_eq!(keys, ["k"]);
}
