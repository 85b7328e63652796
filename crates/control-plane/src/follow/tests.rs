//! Each sign that the lead is free, and each that it is not.

use scheduler::time::Moment;

use super::*;
use crate::store::{Exposure, Leader};

const MS: u64 = 1_000_000;
const FORMAT: u32 = 5;

// A leader that does not know yet that it lost the lead says nothing any more.
const _: () = assert!(crate::step::TRUSTED_FOR.as_nanos() < FREE_AFTER.as_nanos());

/// The clocks of the follower, this many milliseconds after its boot.
fn at(millis: u64) -> Reading {
    let wall = Timestamp(1_700_000_000_000_000_000) + Duration::from_millis(millis);
    Reading { boot_id: [2; 16], boot: millis * MS, wall }
}

/// Clocks that no rule may look at.
fn stamp(moment: u64) -> Stamp {
    let reading = Reading { boot_id: [1; 16], boot: 77, wall: Timestamp(5) };
    Stamp { reading, moment: Moment(moment) }
}

fn seen(last_commit: u64, beat: u64) -> Sighting {
    Sighting {
        term: Term(9),
        last_commit,
        beat,
        stamp: Some(stamp(last_commit)),
        leader: Some(Leader {
            address: "a:1".to_owned(),
            exposure: Exposure::Protected,
            pass_key: [0; 32],
        }),
        session: SessionSign::Present,
        connection: 1,
        wall: Timestamp(0),
        format: FORMAT,
        oldest: FORMAT,
    }
}

fn missing(connection: u64) -> Sighting {
    Sighting { session: SessionSign::Missing, connection, ..seen(1, 0) }
}

fn poll_at(millis: u64) -> Next {
    Next::PollAt(millis * MS)
}

#[test]
fn the_lead_is_free_when_nothing_has_changed_for_three_seconds_since_the_first_answer() {
    let mut follower = Follower::new(FORMAT);
    for millis in (1_000..4_000).step_by(500) {
        assert_eq!(follower.saw(&seen(1, 0), &at(millis)), poll_at(millis + 500));
    }
    assert_eq!(follower.saw(&seen(1, 0), &at(3_999)), poll_at(4_499));
    assert_eq!(follower.saw(&seen(1, 0), &at(4_000)), Next::TakeOver);
}

#[test]
fn a_commit_a_beat_a_new_term_and_another_connection_each_begin_the_time_anew() {
    let other_term = Sighting { term: Term(10), ..seen(1, 0) };
    // Its server may have been promoted, and lack what the leader renewed last.
    let other_connection = Sighting { connection: 2, ..seen(1, 0) };
    for change in [seen(2, 0), seen(1, 1), other_term, other_connection] {
        let mut follower = Follower::new(FORMAT);
        follower.saw(&seen(1, 0), &at(0));
        assert_eq!(follower.saw(&change, &at(2_900)), poll_at(3_400), "{change:?}");
        assert_eq!(follower.saw(&change, &at(5_800)), poll_at(6_300), "{change:?}");
        assert_eq!(follower.saw(&change, &at(5_900)), Next::TakeOver, "{change:?}");
    }
}

#[test]
fn the_leader_is_first_when_the_database_comes_back() {
    let mut follower = Follower::new(FORMAT);
    follower.saw(&seen(1, 0), &at(0));
    for millis in (500..60_000).step_by(500) {
        assert_eq!(follower.failed(&at(millis)), poll_at(millis + 500));
    }
    assert_eq!(follower.saw(&seen(1, 0), &at(60_000)), poll_at(60_500));
    assert_eq!(follower.saw(&seen(1, 0), &at(62_999)), poll_at(63_499));
    assert_eq!(follower.saw(&seen(1, 0), &at(63_000)), Next::TakeOver);
}

#[test]
fn a_lead_that_was_resigned_or_never_taken_is_free_immediately() {
    let free = Sighting { leader: None, ..seen(1, 0) };
    assert_eq!(Follower::new(FORMAT).saw(&free, &at(0)), Next::TakeOver);
}

#[test]
fn one_that_was_late_polls_again_immediately_and_waits_for_the_new_leader() {
    let mut follower = Follower::new(FORMAT);
    follower.saw(&seen(1, 0), &at(0));
    assert_eq!(follower.saw(&seen(1, 0), &at(3_000)), Next::TakeOver);
    assert_eq!(follower.was_late(&at(3_010)), poll_at(3_010));
    assert_eq!(follower.saw(&seen(1, 0), &at(3_020)), poll_at(3_520), "whatever it shows");
}

#[test]
fn a_missing_session_and_an_address_that_refuses_free_the_lead_only_together() {
    let mut follower = Follower::new(FORMAT);
    assert_eq!(follower.saw(&missing(1), &at(0)), poll_at(100), "one poll says nothing");
    assert_eq!(follower.saw(&missing(1), &at(100)), Next::Dial("a:1".to_owned()));
    assert_eq!(follower.dialed(false, &at(101)), poll_at(601), "it lives");
    assert_eq!(follower.saw(&missing(1), &at(601)), Next::Dial("a:1".to_owned()));
    assert_eq!(follower.dialed(true, &at(602)), Next::TakeOver);
}

#[test]
fn the_session_has_to_be_missing_in_two_polls_in_a_row_on_one_connection_and_of_one_leader() {
    let next_leader = Sighting { term: Term(10), ..missing(1) };
    let unknown = Sighting { session: SessionSign::Unknown, ..seen(1, 0) };
    for (between, again) in
        [(seen(1, 0), 1_000), (unknown, 1_000), (missing(2), 600), (next_leader, 600)]
    {
        let mut follower = Follower::new(FORMAT);
        follower.saw(&missing(1), &at(0));
        assert_eq!(follower.saw(&between, &at(500)), poll_at(again), "{between:?}");
        assert_eq!(follower.saw(&missing(1), &at(1_000)), poll_at(1_100), "{between:?}");
    }
    let mut follower = Follower::new(FORMAT);
    follower.saw(&missing(1), &at(0));
    follower.failed(&at(500));
    assert_eq!(follower.saw(&missing(1), &at(1_000)), poll_at(1_100));
}

#[test]
fn a_release_that_may_not_open_the_format_never_leads() {
    let newer = |leader| Sighting { format: 9, oldest: FORMAT + 1, leader, ..seen(1, 0) };
    let mut follower = Follower::new(FORMAT);
    for millis in [0, 3_000, 60_000] {
        let leader = seen(1, 0).leader.filter(|_| millis < 60_000);
        assert_eq!(follower.saw(&newer(leader), &at(millis)), poll_at(millis + 500));
    }
    let older = Sighting { format: FORMAT - 1, oldest: FORMAT - 1, leader: None, ..seen(1, 0) };
    assert_eq!(Follower::new(FORMAT).saw(&older, &at(0)), Next::TakeOver, "it migrates");
}

/// How far the service clock has gone on since the last stamp, in a takeover at this time.
fn went_on(follower: &Follower, seen: &Sighting, taken: u64) -> Duration {
    let stamp = follower.stamp(seen, &at(taken)).unwrap();
    assert_eq!(stamp.reading, at(taken), "the next process continues from these clocks");
    stamp.moment.since(seen.stamp.unwrap().moment)
}

#[test]
fn the_service_clock_goes_on_by_the_clock_of_the_follower_that_saw_the_last_commit_arrive() {
    let mut follower = Follower::new(FORMAT);
    follower.saw(&seen(1, 0), &at(0));
    follower.saw(&seen(2, 0), &at(500));
    for beat in 0..20 {
        follower.saw(&seen(2, beat), &at(1_000 + beat * 500));
    }
    assert_eq!(went_on(&follower, &seen(2, 20), 20_500), Duration::from_secs(20));
    let nothing = Sighting { stamp: None, ..seen(2, 20) };
    assert_eq!(follower.stamp(&nothing, &at(20_500)), None);
}

#[test]
fn a_takeover_that_another_made_counts_from_its_own_arrival() {
    let mut follower = Follower::new(FORMAT);
    follower.saw(&seen(1, 0), &at(0));
    follower.saw(&seen(2, 0), &at(500));
    // It ended before its first commit, so the number is still the same.
    let taken = Sighting { term: Term(10), stamp: Some(stamp(90)), ..seen(2, 1) };
    follower.saw(&seen(2, 0), &at(3_499));
    follower.saw(&taken, &at(4_000));
    follower.saw(&taken, &at(6_000));
    assert_eq!(went_on(&follower, &taken, 8_000), Duration::from_secs(4));
}

#[test]
fn a_commit_that_was_there_before_counts_by_the_clocks_stored_with_it() {
    let mut after_an_outage = Follower::new(FORMAT);
    after_an_outage.saw(&seen(2, 0), &at(0));
    after_an_outage.saw(&seen(2, 1), &at(500));
    assert!(!after_an_outage.saw_arrival(&seen(2, 1)), "it never saw the row change");
    let years = at(500).wall.since(stamp(2).reading.wall);
    assert_eq!(went_on(&after_an_outage, &seen(2, 1), 500), years);

    let mut cut_off = Follower::new(FORMAT);
    cut_off.saw(&seen(1, 0), &at(0));
    cut_off.failed(&at(500));
    cut_off.saw(&seen(2, 0), &at(3_600_000));
    assert!(!cut_off.saw_arrival(&seen(2, 0)), "it arrived at some time in that hour");

    let mut suspended = Follower::new(FORMAT);
    suspended.saw(&seen(1, 0), &at(0));
    suspended.saw(&seen(2, 0), &at(3_600_000));
    assert!(!suspended.saw_arrival(&seen(2, 0)));

    let mut watching = Follower::new(FORMAT);
    watching.saw(&seen(1, 0), &at(0));
    watching.saw(&seen(2, 0), &at(500));
    watching.failed(&at(1_000));
    watching.saw(&seen(2, 0), &at(60_000));
    assert!(watching.saw_arrival(&seen(2, 0)), "it saw this one arrive, before the outage");
    assert_eq!(went_on(&watching, &seen(2, 0), 60_500), Duration::from_secs(60));
}

#[test]
fn a_wall_clock_that_differs_from_the_databases_is_noticed_in_both_directions() {
    let noon = Timestamp(1_700_000_000_000_000_000);
    let off = noon + Duration::from_secs(5);
    assert_eq!(wall_clock_error(noon, off), Some(Duration::from_secs(5)));
    assert_eq!(wall_clock_error(off, noon), Some(Duration::from_secs(5)));
    assert_eq!(wall_clock_error(noon, noon + Duration::from_millis(4_999)), None);
}
