//! The lead: who has it, how it is taken, kept and given up, and which numbers are skipped.

use api_types::Timestamp;
use postgres_server::TestDatabase;
use scheduler::change::Changes;
use scheduler::time::Moment;

use super::commits::commit;
use super::{eventually, opened};
use crate::clock::{Reading, Stamp};
use crate::store::contract::{Put, Random, Sample};
use crate::store::postgres::PostgresCandidate;
use crate::store::postgres::link::Link;
use crate::store::postgres::schema::{self, Formats};
use crate::store::{
    Beat, Candidate, Exposure, Hold, Leader, SessionSign, Sighting, Store, StoreError, Term, Won,
};

fn leader(name: &str) -> Leader {
    let address = format!("{name}:8080");
    Leader { address, exposure: Exposure::Protected, pass_key: [7; 32] }
}

pub(super) fn candidate(database: &TestDatabase) -> PostgresCandidate {
    PostgresCandidate::new(opened(database)).unwrap()
}

/// Polls, and takes over from what it sees.
pub(super) fn win(candidate: &mut PostgresCandidate, name: &str) -> Won {
    let seen = eventually(|| candidate.poll().ok());
    candidate.take_over(&seen, &leader(name), None).unwrap().unwrap()
}

fn beat_of(won: Won) -> Box<dyn Beat> {
    match won.hold {
        Hold::Lease(beat) => beat,
        Hold::Lock => panic!("the row is the lease"),
    }
}

fn is_fenced(store: &mut dyn Store, term: Term, number: u64) -> bool {
    matches!(commit(store, term, number, &Changes::default()), Err(StoreError::Fenced))
}

#[test]
fn a_follower_sees_who_leads() {
    let Some(database) = TestDatabase::new() else { return };
    let mut follower = candidate(&database);
    let empty = follower.poll().unwrap();
    assert_eq!((empty.leader, empty.last_commit, empty.stamp), (None, 0, None));
    let mut won = win(&mut candidate(&database), "a");
    let seen = follower.poll().unwrap();
    assert_eq!(seen.leader, Some(leader("a")));
    assert_eq!((seen.term, seen.session), (won.progress.term, SessionSign::Present));
    assert_eq!((seen.format, seen.oldest), (schema::FORMAT, 29));
    let off = seen.wall.0.abs_diff(crate::clock::wall().0);
    assert!(off < 60_000_000_000, "{off} ns");
    won.store.put(1, &Changes::default(), &[]).unwrap();
    let seen = follower.poll().unwrap();
    assert_eq!(seen.last_commit, 1);
    assert_eq!(seen.stamp, won.store.progress().unwrap().stamp);
    drop(won);
    let is_gone = || {
        let seen = follower.poll().unwrap();
        (seen.session == SessionSign::Missing).then_some(seen)
    };
    let seen = eventually(is_gone);
    assert_eq!(seen.leader, Some(leader("a")), "a session that ended proves nothing");
}

#[test]
fn a_takeover_stores_the_clocks_of_its_machine() {
    let Some(database) = TestDatabase::new() else { return };
    let mut follower = candidate(&database);
    let reading = Reading { boot_id: [3; 16], boot: 5, wall: Timestamp(7) };
    let stamp = Some(Stamp { reading, moment: Moment(11) });
    let seen = follower.poll().unwrap();
    let won = follower.take_over(&seen, &leader("a"), stamp).unwrap().unwrap();
    assert_eq!(won.progress.stamp, stamp);
    assert_eq!(candidate(&database).poll().unwrap().stamp, stamp);
    let next = win(&mut candidate(&database), "b");
    assert_eq!(next.progress.stamp, stamp, "one that knows no better changes nothing");
}

#[test]
fn a_takeover_fails_once_the_row_has_changed() {
    let Some(database) = TestDatabase::new() else { return };
    let mut won = win(&mut candidate(&database), "a");
    let take = |seen: &Sighting, follower: &mut PostgresCandidate| {
        follower.take_over(seen, &leader("b"), None).unwrap().is_some()
    };
    let mut follower = candidate(&database);
    let seen = follower.poll().unwrap();
    won.store.put(1, &Changes::default(), &[]).unwrap();
    assert!(!take(&seen, &mut follower), "a commit");
    let seen = follower.poll().unwrap();
    let (mut store, mut beat) = match won.hold {
        Hold::Lease(beat) => (won.store, beat),
        Hold::Lock => panic!("the row is the lease"),
    };
    beat.beat().unwrap();
    assert!(!take(&seen, &mut follower), "a beat");
    let seen = follower.poll().unwrap();
    store.take().unwrap();
    assert!(!take(&seen, &mut follower), "a term");
    let seen = follower.poll().unwrap();
    beat.beat().unwrap();
    assert!(!take(&seen, &mut follower), "a beat in the new term of the same process");
    let seen = follower.poll().unwrap();
    assert!(take(&seen, &mut follower));
    assert!(is_fenced(store.as_mut(), seen.term, 2));
    assert!(matches!(store.take(), Err(StoreError::Fenced)));
    assert!(matches!(beat.beat(), Err(StoreError::Fenced)));
}

#[test]
fn of_two_takers_one_wins() {
    let Some(database) = TestDatabase::new() else { return };
    for _ in 0..10 {
        let wins = std::thread::scope(|scope| {
            let takers: Vec<_> = ["a", "b", "c"]
                .map(|name| {
                    let mut follower = candidate(&database);
                    let seen = follower.poll().unwrap();
                    (name, follower, seen)
                })
                .into_iter()
                .map(|(name, mut follower, seen)| {
                    scope.spawn(move || {
                        follower
                            .take_over(&seen, &leader(name), None)
                            .unwrap()
                            .map(|won| won.progress)
                    })
                })
                .collect();
            takers.into_iter().filter_map(|taker| taker.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(wins.len(), 1, "{wins:?}");
        assert_eq!(candidate(&database).poll().unwrap().term, wins[0].term);
    }
}

#[test]
fn a_commit_in_flight_keeps_the_lead() {
    let Some(database) = TestDatabase::new() else { return };
    drop(win(&mut candidate(&database), "a"));
    let mut follower = candidate(&database);
    let seen = follower.poll().unwrap();
    let mut admin = database.admin();
    let mut in_flight = admin.transaction().unwrap();
    in_flight.execute("UPDATE progress SET last_commit = last_commit + 1", &[]).unwrap();
    let waits = follower.take_over(&seen, &leader("b"), None);
    assert!(matches!(waits, Err(StoreError::Unavailable)), "a second is enough to wait");
    in_flight.commit().unwrap();
    let seen = follower.poll().unwrap();
    assert!(follower.take_over(&seen, &leader("b"), None).unwrap().is_some());
}

#[test]
fn a_resigned_lead_is_free() {
    let Some(database) = TestDatabase::new() else { return };
    let mut won = win(&mut candidate(&database), "a");
    won.store.put(1, &Changes::default(), &[]).unwrap();
    won.store.resign().unwrap();
    let mut follower = candidate(&database);
    let seen = follower.poll().unwrap();
    assert_eq!((seen.leader.as_ref(), seen.session), (None, SessionSign::Unknown));
    assert!(is_fenced(won.store.as_mut(), won.progress.term, 2));
    assert!(matches!(beat_of(won).beat(), Err(StoreError::Fenced)));
    let next = follower.take_over(&seen, &leader("b"), None).unwrap().unwrap();
    assert_eq!((next.progress.began_after, next.progress.last_commit), (1, 1));
}

/// What the next leader finds after this has happened to a database with one commit.
fn numbers_after(disturb: impl FnOnce(&TestDatabase)) -> Option<(u64, u64)> {
    let database = TestDatabase::alone()?;
    let mut won = win(&mut candidate(&database), "a");
    let sample = Sample::job(&mut Random(1));
    let mut changes = sample.changes();
    changes.events.push(sample.event(1));
    won.store.put(1, &changes, &[]).unwrap();
    drop(won);
    disturb(&database);
    let mut won = win(&mut candidate(&database), "b");
    let live = crate::store::contract::load(won.store.as_mut());
    assert_eq!(live.0.len(), 1);
    won.store.put(won.progress.last_commit + 1, &Changes::default(), &[]).unwrap();
    Some((won.progress.last_commit, live.1.last_seq))
}

const SKIPPED: u64 = 1 << 32;

#[test]
fn no_number_is_skipped_after_a_restart() {
    let Some(numbers) = numbers_after(|database| database.command("restart")) else { return };
    assert_eq!(numbers, (1, 1));
}

/// No checkpoint has ended on the new timeline by then.
#[test]
fn numbers_are_skipped_after_a_promotion() {
    let promote = |database: &TestDatabase| database.command("promote");
    let Some(numbers) = numbers_after(promote) else { return };
    assert_eq!(numbers, (SKIPPED + 1, SKIPPED + 1));
}

#[test]
fn numbers_are_skipped_after_a_dump_was_restored_in_place() {
    let restore = |database: &TestDatabase| {
        let dump = tempfile::NamedTempFile::new().unwrap();
        let file = dump.path().to_str().unwrap();
        database.program("pg_dump", &["-n", "jobs", "-f", file]);
        database.admin().batch_execute("DROP SCHEMA jobs CASCADE").unwrap();
        database.program("psql", &["-q", "-v", "ON_ERROR_STOP=1", "-f", file]);
    };
    let Some(numbers) = numbers_after(restore) else { return };
    assert_eq!(numbers, (SKIPPED + 1, SKIPPED + 1));
}

#[test]
fn numbers_below_those_that_were_seen_are_skipped() {
    let Some(database) = TestDatabase::new() else { return };
    let mut won = win(&mut candidate(&database), "a");
    for number in 1..=3 {
        won.store.put(number, &Changes::default(), &[]).unwrap();
    }
    let mut follower = candidate(&database);
    follower.poll().unwrap();
    database.admin().execute("UPDATE progress SET last_commit = 2", &[]).unwrap();
    assert_eq!(win(&mut follower, "b").progress.last_commit, SKIPPED + 2);
}

#[test]
fn the_same_leader_continues_on_a_promoted_server() {
    let Some(database) = TestDatabase::alone() else { return };
    let mut won = win(&mut candidate(&database), "a");
    won.store.put(1, &Changes::default(), &[]).unwrap();
    database.command("promote");
    eventually(|| won.store.put(2, &Changes::default(), &[]).ok());
    drop(won);
    let next = win(&mut candidate(&database), "b");
    assert_eq!(next.progress.last_commit, 2, "the commit has named the new server");
}

#[test]
fn a_format_that_this_release_may_not_open_is_refused() {
    let Some(database) = TestDatabase::new() else { return };
    drop(win(&mut candidate(&database), "a"));
    let mut follower = candidate(&database);
    let format = |format: u32, oldest: u32| {
        let sql = format!("UPDATE progress SET format = {format}, oldest = {oldest}");
        database.admin().batch_execute(&sql).unwrap();
    };
    let next = schema::FORMAT + 1;
    format(next, next);
    let seen = follower.poll().unwrap();
    assert_eq!((seen.format, seen.oldest), (next, next));
    let refused = follower.take_over(&seen, &leader("b"), None).map(drop).unwrap_err();
    assert!(matches!(refused, StoreError::Newer { .. }), "{refused:?}");
    format(next, schema::FORMAT);
    win(&mut follower, "b").store.put(1, &Changes::default(), &[]).unwrap();
    assert_eq!(follower.poll().unwrap().format, next, "it stays what it is");
}

#[test]
fn a_migration_is_fenced_and_whole() {
    let Some(database) = TestDatabase::new() else { return };
    let won = win(&mut candidate(&database), "a");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let migrate = |term, steps: &[&str]| {
        let formats = Formats { created: schema::FORMAT, steps, oldest: schema::FORMAT };
        runtime.block_on(async {
            let mut link = Link::open(&opened(&database)).await?;
            schema::migrate_by(&mut link, schema::FORMAT, term, &formats).await
        })
    };
    let add = "ALTER TABLE node ADD COLUMN later bigint; UPDATE node SET later = 1";
    let other = Term(7);
    assert!(matches!(migrate(other, &[add]), Err(StoreError::Fenced)));
    assert!(migrate(won.progress.term, &[add, "ALTER TABLE nothing ADD a int"]).is_err());
    let format = || candidate(&database).poll().unwrap().format;
    assert_eq!(format(), schema::FORMAT);
    migrate(won.progress.term, &[add, "CREATE TABLE later (one int)"]).unwrap();
    assert_eq!(format(), schema::FORMAT + 2);
}
