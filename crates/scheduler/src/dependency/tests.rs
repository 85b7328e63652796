//! The table of outcomes, cell by cell.

use core::slice::from_ref;

use alloc::string::ToString;
use alloc::vec;

use api_types::job::JobStateType::{Completed, Failed, Stopped};
use uuid::Uuid;

use super::*;

fn on(number: u128, condition: Condition) -> Awaited {
    let job = JobId::from_uuid(Uuid::from_u128(number));
    Awaited { job, condition, indexes: Indexes::All, name: "build".into() }
}

fn after(condition: Condition, state: JobStateType) -> Verdict {
    let ended = Ended { state: Some(state), at: Moment(5) };
    verdict(&[on(1, condition)], |_| Some(ended))
}

fn never(state: JobStateType, why: &str) -> Verdict {
    Verdict::Never(state, why.to_string().into())
}

#[test]
fn a_condition_on_completion_passes_on_failures_and_stops() {
    assert_eq!(after(Condition::Completed, Completed), Verdict::Holds(Moment(5)));
    let (failed, stopped) = ("not run: job 'build' failed", "not run: job 'build' was stopped");
    assert_eq!(after(Condition::Completed, Failed), never(Failed, failed));
    assert_eq!(after(Condition::Completed, Stopped), never(Stopped, stopped));
}

#[test]
fn a_condition_on_failure_skips_the_job_otherwise() {
    assert_eq!(after(Condition::Failed, Failed), Verdict::Holds(Moment(5)));
    let completed = "skipped: job 'build' completed, so it did not fail";
    assert_eq!(after(Condition::Failed, Completed), never(Stopped, completed));
    let stopped = "skipped: job 'build' was stopped, so it did not fail";
    assert_eq!(after(Condition::Failed, Stopped), never(Stopped, stopped));
}

#[test]
fn a_condition_on_the_end_holds_after_any() {
    for state in [Completed, Failed, Stopped] {
        assert_eq!(after(Condition::Ended, state), Verdict::Holds(Moment(5)));
    }
}

#[test]
fn of_several_that_cannot_hold_a_failure_decides_and_one_is_enough() {
    let states = [Some(Stopped), Some(Failed), None];
    let ended = |id: JobId| {
        let at = usize::try_from(id.uuid().as_u128()).unwrap_or_default();
        states[at].map(|state| Ended { state: Some(state), at: Moment(1) })
    };
    let list =
        vec![on(0, Condition::Completed), on(1, Condition::Completed), on(2, Condition::Completed)];
    assert_eq!(verdict(&list, ended), never(Failed, "not run: job 'build' failed"));
    assert_eq!(verdict(&list[..1], ended), never(Stopped, "not run: job 'build' was stopped"));
    assert_eq!(verdict(&list[2..], ended), Verdict::Open);
}

#[test]
fn a_job_that_is_not_stored_any_more_is_not_waited_for() {
    let ended = Ended { state: None, at: Moment::ZERO };
    let found = verdict(&[on(1, Condition::Ended)], |_| Some(ended));
    assert_eq!(found, never(Failed, "not run: job 'build', on which it depends, was removed"));
}

#[test]
fn of_a_condition_on_each_slot_only_a_stop_or_removal_decides_about_the_whole_job() {
    let same = Awaited { indexes: Indexes::Same, ..on(1, Condition::Completed) };
    let after = |state| verdict(from_ref(&same), |_| Some(Ended { state, at: Moment(5) }));
    assert_eq!(verdict(from_ref(&same), |_| None), Verdict::Holds(Moment::ZERO));
    assert_eq!(after(Some(Completed)), Verdict::Holds(Moment(5)));
    assert_eq!(after(Some(Failed)), Verdict::Holds(Moment(5)));
    let stopped = "not run: job 'build' was stopped";
    assert_eq!(after(Some(Stopped)), never(Stopped, stopped));
    assert!(matches!(after(None), Verdict::Never(Failed, _)));
}
