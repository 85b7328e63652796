//! Each state of a node's health, and what leads from one to the next.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use api_types::protocol::ProbeOutcome;
use api_types::{ExecutionId, Timestamp};
use uuid::Uuid;

use super::*;

fn execution(number: u128) -> ExecutionId {
    ExecutionId::from_uuid(Uuid::from_u128(number))
}

fn at(seconds: u64) -> Now {
    Now { moment: Moment(seconds * 1_000_000_000), wall: Timestamp(0) }
}

const WHY: Text = Text::Constant("docker answers 500");

/// A node, with what failed on it so far.
#[derive(Default)]
struct Subject {
    health: Health,
    failures: Failures,
    executions: u128,
}

/// How a failure is told.
#[derive(Clone, Copy, PartialEq)]
enum Told {
    Confirmed,
    /// No probe tells, and other namespaces have work.
    Unconfirmed,
    /// No probe tells, and no other namespace has work.
    Alone,
}

impl Subject {
    fn fails(&mut self, told: Told, namespace: &str, seconds: u64) -> Verdict {
        self.executions += 1;
        let failed = execution(self.executions);
        self.health.placed(failed);
        let namespace: Arc<str> = namespace.into();
        let blame = Blame {
            namespace: &namespace,
            confirmed: told == Told::Confirmed,
            is_alone: told == Told::Alone,
            reason: &WHY,
        };
        self.health.failed(&mut self.failures, failed, &blame, at(seconds))
    }

    fn backing_off() -> Self {
        let mut subject = Self::default();
        for second in 1..=3 {
            subject.fails(Told::Confirmed, "a", second);
        }
        assert!(matches!(subject.health, Health::BackingOff { .. }), "{:?}", subject.health);
        subject
    }

    /// Asks the agent at this time, and lets it answer.
    fn is_probed(&mut self, seconds: u64, failure: Option<&str>) -> Verdict {
        self.health.due(at(seconds), true);
        let probe = self.health.request().expect("the agent is asked");
        let outcome = ProbeOutcome { probe, failure: failure.map(Into::into) };
        self.health.answered(&outcome, at(seconds).moment)
    }
}

fn waits(verdict: Verdict, since: u64) -> Option<u64> {
    match verdict {
        Verdict::Waits(until) => Some(until.since(at(since).moment).as_secs()),
        _ => None,
    }
}

#[test]
fn three_confirmed_failures_in_a_row_make_a_node_back_off() {
    let mut subject = Subject::default();
    assert_eq!(subject.fails(Told::Confirmed, "a", 1), Verdict::Unchanged);
    assert_eq!(subject.fails(Told::Confirmed, "a", 2), Verdict::Unchanged);
    assert_eq!(waits(subject.fails(Told::Confirmed, "a", 3), 3), Some(10));
    assert_eq!(subject.health.accuser(), None);
}

#[test]
fn what_no_probe_confirms_counts_once_a_second_namespace_says_the_same() {
    let mut subject = Subject::default();
    for _ in 0..100 {
        let verdict = subject.fails(Told::Unconfirmed, "a", 1);
        assert_eq!(verdict, Verdict::Unchanged, "one namespace says nothing about a node");
    }
    assert_eq!(waits(subject.fails(Told::Unconfirmed, "b", 2), 2), Some(10));
    assert_eq!(subject.health.accuser(), None);
}

#[test]
fn the_only_namespace_with_work_is_believed_as_long_as_it_is_the_only_one() {
    let mut subject = Subject::default();
    subject.fails(Told::Alone, "a", 1);
    subject.fails(Told::Alone, "a", 2);
    assert_eq!(waits(subject.fails(Told::Alone, "a", 3), 3), Some(10));
    assert_eq!(subject.health.accuser().map(|accuser| &**accuser), Some("a"));
    assert!(subject.health.end_early(at(4).moment));
    assert_eq!(waits(subject.health.due(at(4), true), 4), Some(PROBE_TIMEOUT.as_secs()));
}

#[test]
fn confirmed_and_other_failures_count_together_where_both_count() {
    let mut subject = Subject::default();
    subject.fails(Told::Unconfirmed, "a", 1);
    subject.fails(Told::Confirmed, "a", 2);
    assert_eq!(subject.fails(Told::Confirmed, "a", 3), Verdict::Unchanged, "two of them count");
    assert!(waits(subject.fails(Told::Unconfirmed, "b", 4), 4).is_some());
}

#[test]
fn a_run_that_went_well_answers_what_no_probe_confirmed() {
    let mut subject = Subject::default();
    subject.fails(Told::Alone, "a", 1);
    subject.fails(Told::Alone, "a", 1);
    subject.health.ran(&mut subject.failures, at(2).moment, at(3).moment, true);
    let verdict = subject.fails(Told::Alone, "a", 3);
    assert_eq!((verdict, subject.health), (Verdict::Unchanged, Health::Well));
}

/// As where only the network is broken, and tasks without one come in between.
#[test]
fn runs_that_went_well_do_not_answer_what_a_probe_confirmed() {
    let mut subject = Subject::default();
    for second in [10, 20] {
        assert_eq!(subject.fails(Told::Confirmed, "a", second), Verdict::Unchanged);
        subject.health.ran(
            &mut subject.failures,
            at(second + 1).moment,
            at(second + 2).moment,
            true,
        );
    }
    assert!(waits(subject.fails(Told::Confirmed, "a", 30), 30).is_some());
}

#[test]
fn a_confirmed_failure_counts_until_none_has_followed_it_for_ten_minutes() {
    let mut subject = Subject::default();
    for second in [1, 602, 1203] {
        assert_eq!(subject.fails(Told::Confirmed, "a", second), Verdict::Unchanged);
    }
    subject.fails(Told::Confirmed, "a", 1204);
    let verdict = subject.fails(Told::Confirmed, "a", 1205);
    assert_eq!(waits(verdict, 1205), Some(10));
    assert_eq!(subject.health.trouble().map(|trouble| trouble.began), Some(at(1203).moment));
}

#[test]
fn a_run_that_was_placed_before_the_first_failure_proves_nothing() {
    let mut subject = Subject::default();
    subject.fails(Told::Confirmed, "a", 2);
    subject.fails(Told::Confirmed, "a", 2);
    subject.health.ran(&mut subject.failures, at(1).moment, at(3).moment, true);
    assert!(waits(subject.fails(Told::Confirmed, "a", 3), 3).is_some());
    let verdict = subject.health.ran(&mut subject.failures, at(1).moment, at(4).moment, false);
    assert_eq!(verdict, Verdict::Unchanged);
    assert!(subject.health.obstacle().is_some());
}

#[test]
fn a_probe_that_fails_doubles_the_back_off_and_one_that_passes_ends_it() {
    let mut subject = Subject::backing_off();
    let mut lengths = Vec::new();
    for round in 1..=7 {
        let seconds = round * 1000;
        lengths.extend(waits(subject.is_probed(seconds, Some("no network")), seconds));
    }
    assert_eq!(lengths, [20, 40, 80, 160, 300, 300, 300]);
    assert_eq!(subject.health.trouble().map(|trouble| &*trouble.reason), Some("no network"));
    assert_eq!(subject.is_probed(9000, None), Verdict::Well);
    assert!(subject.health.is_well() && subject.health.obstacle().is_none());
}

#[test]
fn a_node_whose_agent_is_asked_takes_no_work_whatever_ends_there() {
    let mut subject = Subject::backing_off();
    assert_eq!(waits(subject.health.due(at(20), true), 20), Some(PROBE_TIMEOUT.as_secs()));
    assert!(subject.health.obstacle().is_some());
    let verdict = subject.health.ran(&mut subject.failures, at(5).moment, at(21).moment, true);
    assert_eq!((verdict, subject.health.is_well()), (Verdict::Unchanged, false));
}

#[test]
fn only_the_answer_to_the_latest_request_counts() {
    let mut subject = Subject::backing_off();
    let early = ProbeOutcome { probe: 0, failure: None };
    assert_eq!(subject.health.answered(&early, at(4).moment), Verdict::Unchanged);
    subject.health.due(at(20), true);
    let first = ProbeOutcome { probe: subject.health.request().unwrap(), failure: None };
    let overdue = at(20).moment + PROBE_TIMEOUT;
    subject.health.due(Now { moment: overdue, wall: Timestamp(0) }, true);
    subject.health.due(at(1000), true);
    assert_eq!(subject.health.answered(&first, at(1001).moment), Verdict::Unchanged);
    let second = ProbeOutcome { probe: subject.health.request().unwrap(), failure: None };
    assert_eq!(subject.health.answered(&second, at(1001).moment), Verdict::Well);
}

#[test]
fn a_probe_that_is_not_answered_counts_as_failed() {
    let mut subject = Subject::backing_off();
    subject.health.due(at(13), true);
    let overdue = 13 + PROBE_TIMEOUT.as_secs();
    assert_eq!(subject.health.due(at(overdue - 1), true), Verdict::Unchanged);
    assert_eq!(waits(subject.health.due(at(overdue), true), overdue), Some(20));
}

#[test]
fn a_silent_node_is_asked_anew_when_it_is_back_and_is_not_blamed_for_its_silence() {
    let mut subject = Subject::backing_off();
    subject.health.due(at(13), true);
    subject.health.fell_silent(at(20).moment);
    assert_eq!(subject.health.request(), None);
    assert_eq!(waits(subject.health.joined(at(500), true), 500), Some(0));
    subject.health.due(at(500), true);
    assert!(subject.health.request().is_some());
    let failure =
        ProbeOutcome { probe: subject.health.request().unwrap(), failure: Some("no".into()) };
    assert_eq!(waits(subject.health.answered(&failure, at(501).moment), 501), Some(20));
}

#[test]
fn a_back_off_that_returns_within_ten_minutes_continues_to_double() {
    for (later, length) in [(599, 40), (600, 10)] {
        let mut subject = Subject::backing_off();
        subject.is_probed(100, Some("no"));
        subject.is_probed(200, None);
        let verdicts: Vec<_> =
            (0..3).map(|_| subject.fails(Told::Confirmed, "a", 200 + later)).collect();
        assert_eq!(waits(verdicts[2], 200 + later), Some(length), "after {later} s");
    }
}

#[test]
fn an_agent_that_cannot_be_asked_is_probed_with_one_execution_at_a_time() {
    let mut subject = Subject::backing_off();
    let mut lengths = Vec::new();
    for round in 1..=3 {
        let seconds = round * 1000;
        assert_eq!(subject.health.due(at(seconds), false), Verdict::ProbeAgain);
        assert_eq!(subject.health.obstacle(), None);
        lengths.extend(waits(subject.fails(Told::Alone, "a", seconds), seconds));
    }
    assert_eq!(lengths, [20, 40, 80]);
    subject.health.due(at(5000), false);
    subject.health.placed(execution(100));
    assert!(subject.health.obstacle().is_some(), "one probe at a time");
    assert_eq!(subject.health.ended(execution(100)), Verdict::ProbeAgain);
    subject.health.placed(execution(101));
    let verdict =
        subject.health.ran(&mut subject.failures, at(5001).moment, at(5002).moment, false);
    assert_eq!((verdict, subject.health.is_well()), (Verdict::Well, true));
}

#[test]
fn an_execution_as_a_probe_decides_nothing_for_another_namespace() {
    let mut subject = Subject::backing_off();
    subject.health.due(at(20), false);
    let again = at(20).moment + FIRST;
    assert_eq!(subject.fails(Told::Unconfirmed, "a", 20), Verdict::ProbeOther(again));
    assert!(subject.health.avoids("a", at(29).moment), "another namespace comes first");
    assert!(!subject.health.avoids("a", again) && !subject.health.avoids("b", at(21).moment));
    assert!(matches!(subject.fails(Told::Unconfirmed, "a", 40), Verdict::ProbeOther(_)));
    assert_eq!(waits(subject.fails(Told::Unconfirmed, "b", 41), 41), Some(20), "two agree");
}

#[test]
fn an_agent_of_another_release_is_probed_as_it_can_be() {
    let mut subject = Subject::backing_off();
    subject.health.due(at(20), false);
    assert_eq!(waits(subject.health.joined(at(21), true), 21), Some(PROBE_TIMEOUT.as_secs()));
    assert!(subject.health.request().is_some());
    assert_eq!(subject.health.joined(at(22), false), Verdict::ProbeAgain);
    assert_eq!(subject.health.obstacle(), None);
}

#[test]
fn numbers_of_probes_fit_into_any_json() {
    let mut health = Subject::backing_off().health;
    let century = Duration::from_hours(100 * 365 * 24);
    health.due(Now { moment: Moment::ZERO + century, wall: Timestamp(0) }, true);
    assert!(health.request().is_some_and(|probe| probe < 1 << 53));
}
