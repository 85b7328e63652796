//! Which jobs, and which of their slots, run again after one that ended.

use alloc::string::ToString;
use alloc::vec;

use api_types::job::JobStateType::{Completed, Failed, Stopped};
use uuid::Uuid;

use super::*;
use crate::outcomes::Outcomes;

fn id(number: u128) -> JobId {
    JobId::from_uuid(Uuid::from_u128(number))
}

fn on(number: u128, condition: Condition, indexes: Indexes) -> Dependency {
    Dependency { job_id: id(number), job: number.to_string(), condition, indexes }
}

fn after(numbers: &[u128]) -> Vec<Dependency> {
    numbers.iter().map(|number| on(*number, Condition::Completed, Indexes::All)).collect()
}

fn same(number: u128) -> Vec<Dependency> {
    vec![on(number, Condition::Completed, Indexes::Same)]
}

/// A job of as many slots as there are letters: `c` has completed, `f` failed, anything else neither.
fn job(depends_on: Vec<Dependency>, state: JobStateType, message: &str, ends: &str) -> Stored {
    let slots = Slots::below(u32::try_from(ends.len()).unwrap());
    let mut outcomes = Outcomes::default();
    for (index, end) in (0..).zip(ends.chars()) {
        match end {
            'c' => drop(outcomes.record(&slots, index, SlotOutcome::Completed)),
            'f' => drop(outcomes.record(&slots, index, SlotOutcome::Failed)),
            _ => {}
        }
    }
    Stored { depends_on, state, message: message.into(), past: Past { slots, outcomes } }
}

fn not_run(depends_on: Vec<Dependency>, ends: &str) -> Stored {
    job(depends_on, Failed, "not run: job 'x' failed", ends)
}

/// Jobs, each with its slots or why it is left out.
type Found = Vec<(u128, String)>;

/// What runs again of job 0 and those after it, and what is left out.
fn again(slots: &str, jobs: Vec<Stored>) -> (Found, Found) {
    let order: Vec<JobId> = (1..jobs.len() as u128).map(id).collect();
    let jobs = (0..).map(id).zip(jobs).collect();
    let Selection { again, left_out } = select(id(0), slots.parse().unwrap(), &order, &jobs);
    let number = |id: JobId| id.uuid().as_u128();
    let again = again.into_iter().map(|(id, slots)| (number(id), slots.to_string())).collect();
    (again, left_out.into_iter().map(|(id, why)| (number(id), why)).collect())
}

fn runs(slots: &str, jobs: Vec<Stored>) -> Vec<(u128, String)> {
    let (again, left_out) = again(slots, jobs);
    assert_eq!(left_out, []);
    again
}

fn of(list: &[(u128, &str)]) -> Vec<(u128, String)> {
    list.iter().map(|(number, slots)| (*number, (*slots).into())).collect()
}

#[test]
fn what_did_not_run_runs_again_however_far_it_is_and_nothing_else() {
    let jobs = vec![
        job(vec![], Failed, "[0] on a: exit code 1", "f"),
        not_run(after(&[0]), "--"),
        not_run(after(&[1]), "-"),
        job(vec![on(2, Condition::Failed, Indexes::All)], Completed, "", "c"),
        job(vec![on(0, Condition::Ended, Indexes::All)], Failed, "[0] on a: exit code 1", "f"),
        job(after(&[0]), Stopped, "stopped by request: not run: x", "-"),
        not_run(after(&[4]), "-"),
        // Its nodes are chosen when it is placed.
        not_run(after(&[1, 2]), ""),
    ];
    assert_eq!(runs("0", jobs), of(&[(0, "0"), (1, "0-1"), (2, "0"), (7, "")]));
}

#[test]
fn what_was_skipped_or_stopped_with_it_runs_again() {
    let stopped = job(vec![], Stopped, "stopped by request", "c-");
    let with_it = job(after(&[0]), Stopped, "not run: job '0' was stopped", "-");
    assert_eq!(runs("1", vec![stopped, with_it]), of(&[(0, "1"), (1, "0")]));
    let completed = job(vec![], Completed, "", "c");
    let handler = vec![on(0, Condition::Failed, Indexes::All)];
    let skipped = job(handler, Stopped, "skipped: job '0' completed, so it did not fail", "-");
    assert_eq!(runs("0", vec![completed, skipped]), of(&[(0, "0"), (1, "0")]));
}

#[test]
fn a_job_that_could_not_run_for_another_reason_is_left_out() {
    let first = || job(vec![], Failed, "[0] on a: exit code 1", "ff");
    let other = job(vec![], Failed, "[0] on a: exit code 1", "f");
    let (found, left_out) = again("0-1", vec![first(), other, not_run(after(&[0, 1]), "-")]);
    assert_eq!(found, of(&[(0, "0-1")]));
    assert_eq!(left_out, of(&[(2, "it depends on job '1' too, which is Failed")]));
    let (_, left_out) = again("0-1", vec![first(), not_run(after(&[0, 9]), "-")]);
    let says = "it depends on job '9' too, which is not stored any more";
    assert_eq!(left_out, of(&[(1, says)]));
    // The job as a whole does not complete with what runs again of it.
    let (_, left_out) = again("1", vec![first(), not_run(after(&[0]), "-")]);
    let says = "other indexes of job '0' have not completed either";
    assert_eq!(left_out, of(&[(1, says)]));
    let cleans_up = vec![on(0, Condition::Failed, Indexes::All)];
    assert_eq!(runs("1", vec![first(), job(cleans_up, Completed, "", "c")]), of(&[(0, "1")]));
}

#[test]
fn slots_run_again_that_did_not_run_because_of_their_counterparts() {
    let first = || job(vec![], Failed, "1 of 5 indexes failed", "cfccf");
    // [3] failed by itself.
    let says = "3 of 5 indexes failed; the first, not run: [1] of job '0' failed";
    let next = || job(same(0), Failed, says, "cfcff");
    assert_eq!(runs("1,4", vec![first(), next()]), of(&[(0, "1,4"), (1, "1,4")]));
    assert_eq!(runs("1", vec![first(), next()]), of(&[(0, "1"), (1, "1")]));
    // What waits for all of its slots still has one that failed.
    let (found, left_out) = again("1,4", vec![first(), next(), not_run(after(&[1]), "-")]);
    assert_eq!((found.len(), left_out.len()), (2, 1));
    let third = job(same(1), Failed, "3 of 5 indexes failed; the first, not run: x", "cfcff");
    assert_eq!(runs("4", vec![first(), next(), third]), of(&[(0, "4"), (1, "4"), (2, "4")]));
}

#[test]
fn slots_that_a_job_left_when_it_ended_because_of_another_run_again_too() {
    let first = || job(vec![], Failed, "1 of 4 indexes failed", "cfcc");
    let ended = job(same(0), Failed, "not run: [1] of job '0' failed", "cf--");
    assert_eq!(runs("1", vec![first(), ended]), of(&[(0, "1"), (1, "1-3")]));
    let timed_out = job(same(0), Failed, "took longer than TotalTimeout (5 s)", "cf--");
    assert_eq!(runs("1", vec![first(), timed_out]), of(&[(0, "1"), (1, "1")]));
    let stopped = job(vec![], Stopped, "stopped by request", "cc--");
    let with_it = job(same(0), Stopped, "not run: job '0' was stopped", "c---");
    assert_eq!(runs("2-3", vec![stopped, with_it]), of(&[(0, "2-3"), (1, "1-3")]));
}
