//! Times through both changes of the clock in two time zones, and dates that are rare or impossible.

use super::*;

fn times(cron: &str, zone: &str) -> Times {
    Times::new(Cron::parse(cron).unwrap(), zone).unwrap()
}

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

/// The times of the expression after the first and up to the second time.
fn between(cron: &str, zone: &str, after: &str, until: &str) -> Vec<String> {
    let times = times(cron, zone);
    let next = |time: &Timestamp| times.after(*time);
    std::iter::successors(times.after(at(after)), next)
        .take_while(|time| *time <= at(until))
        .map(Timestamp::rfc3339_seconds)
        .collect()
}

/// The zone, a day on which its clocks go forward, and one on which they go back, from midnight to
/// midnight.
const CHANGES: [(&str, [&str; 2], [&str; 2]); 2] = [
    (
        "Europe/Berlin",
        ["2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"],
        ["2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"],
    ),
    (
        "America/New_York",
        ["2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z"],
        ["2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"],
    ),
];

#[test]
fn a_fixed_time_comes_once_on_a_day_with_a_change() {
    // In Berlin, the hour from 2 is skipped and repeated; in New York the hour from 2 is skipped,
    // and the hour from 1 repeated.
    let expected = [
        (["2026-03-29T01:00:00Z"], ["2026-10-25T00:30:00Z"]),
        (["2026-03-08T07:00:00Z"], ["2026-11-01T07:30:00Z"]),
    ];
    for ((zone, forward, back), (in_spring, in_autumn)) in CHANGES.into_iter().zip(expected) {
        let found = between("30 2 * * *", zone, forward[0], forward[1]);
        assert_eq!(found, in_spring, "{zone}");
        assert_eq!(between("30 2 * * *", zone, back[0], back[1]), in_autumn, "{zone}");
    }
    let repeated = between("30 1 * * *", "America/New_York", CHANGES[1].2[0], CHANGES[1].2[1]);
    assert_eq!(repeated, ["2026-11-01T05:30:00Z"]);
}

#[test]
fn a_list_of_hours_is_a_list_of_fixed_times() {
    let expected = [
        (
            ["2026-03-29T01:00:00Z", "2026-03-29T12:30:00Z"],
            ["2026-10-25T00:30:00Z", "2026-10-25T13:30:00Z"],
        ),
        (
            ["2026-03-08T07:00:00Z", "2026-03-08T18:30:00Z"],
            ["2026-11-01T07:30:00Z", "2026-11-01T19:30:00Z"],
        ),
    ];
    for ((zone, forward, back), (in_spring, in_autumn)) in CHANGES.into_iter().zip(expected) {
        let found = between("30 2,14 * * *", zone, forward[0], forward[1]);
        assert_eq!(found, in_spring, "{zone}");
        assert_eq!(between("30 2,14 * * *", zone, back[0], back[1]), in_autumn, "{zone}");
    }
}

#[test]
fn a_rhythm_follows_elapsed_time() {
    for (zone, forward, back) in CHANGES {
        for (day, hours) in [(forward, 23), (back, 25)] {
            let found = between("*/15 * * * *", zone, day[0], day[1]);
            assert_eq!(found.len(), hours * 4, "{zone}");
            let found: Vec<_> = found.iter().map(|text| at(text)).collect();
            let quarter = std::time::Duration::from_secs(900);
            assert!(found.windows(2).all(|pair| pair[1].since(pair[0]) == quarter), "{zone}");
        }
    }
}

#[test]
fn two_times_within_a_gap_are_due_once() {
    let [from, to] = CHANGES[0].1;
    assert_eq!(between("0,30 2 * * *", "Europe/Berlin", from, to), ["2026-03-29T01:00:00Z"]);
    assert_eq!(
        between("0 2,3 * * *", "Europe/Berlin", from, to),
        ["2026-03-29T01:00:00Z"],
        "the end of the gap is three o'clock"
    );
    let found =
        between("0 12 30 12 *", "Pacific/Apia", "2011-12-01T00:00:00Z", "2012-02-01T00:00:00Z");
    assert_eq!(found, ["2011-12-30T10:00:00Z"], "a day that an island skipped");
}

#[test]
fn dates_are_found_however_rare() {
    let leap = times("0 0 29 2 *", "UTC").following(at("2096-03-01T00:00:00Z"), 2);
    let leap: Vec<_> = leap.into_iter().map(Timestamp::rfc3339_seconds).collect();
    assert_eq!(leap, ["2104-02-29T00:00:00Z", "2108-02-29T00:00:00Z"]);
    let sundays = times("0 0 29 2 */7", "UTC").following(at("2026-01-01T00:00:00Z"), 5);
    assert_eq!(sundays.len(), 5);
    let either = between("0 0 13 * FRI", "UTC", "2026-03-01T00:00:00Z", "2026-03-31T00:00:00Z");
    assert_eq!(either.len(), 4, "the 13th is one of four Fridays");
}

#[test]
fn dates_that_do_not_exist_are_refused() {
    for cron in ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 30 FEB */2"] {
        let error = Cron::parse(cron).unwrap_err();
        assert!(error.starts_with("names no date"), "{cron}: {error}");
    }
    Cron::parse("0 0 30 2 MON").unwrap();
}

#[test]
fn errors_say_which_field_is_wrong() {
    for (cron, expected) in [
        ("* * * *", "must have five fields"),
        ("@daily", "must have five fields"),
        ("60 * * * *", "the minute must be from 0 to 59, got '60'"),
        ("* 24 * * *", "the hour must be from 0 to 23"),
        ("* * 0 * *", "the day of the month must be from 1 to 31"),
        ("* * * FOO *", "the month must be from 1 to 12, got 'FOO'"),
        ("* * * * 8", "the day of the week must be from 0 to 7"),
        ("*/0 * * * *", "the step '0' of the minute must be from 1"),
        ("* 22-2 * * *", "the range '22-2' of the hour begins after its end"),
        ("+5 * * * *", "the minute must be from 0 to 59, got '+5'"),
        (", * * * *", "the minute must be from 0 to 59, got ''"),
    ] {
        let error = Cron::parse(cron).unwrap_err();
        assert!(error.contains(expected), "{cron}: {error}");
    }
    let cron = || Cron::parse("* * * * *").unwrap();
    for zone in ["", "Mars/Phobos", "../../etc/passwd"] {
        assert!(Times::new(cron(), zone).is_err(), "{zone}");
    }
    Times::new(cron(), "utc").unwrap();
}

#[test]
fn steps_ranges_and_names_are_read_as_usual() {
    let day = ("2026-03-02T00:00:00Z", "2026-03-02T23:59:00Z");
    let of_day = |cron| between(cron, "UTC", day.0, day.1);
    assert_eq!(of_day("5/20 6 * * *").len(), 3);
    assert_eq!(of_day("0 8-17/3 * MAR mon-fri").len(), 4);
    assert_eq!(of_day("0 0 * * sun").len(), 0);
    let week = between("0 12 * * 7", "UTC", "2026-03-01T00:00:00Z", "2026-03-08T23:00:00Z");
    assert_eq!(week, ["2026-03-01T12:00:00Z", "2026-03-08T12:00:00Z"]);
}
