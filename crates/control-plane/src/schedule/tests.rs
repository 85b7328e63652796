//! What becomes of due times that were missed, and what of a schedule has a bound.

use super::*;
use crate::records::{Expected, RecordKind, RecordRefusal, RecordWrite, Records};

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

fn plan(catch_up: CatchUp, catch_up_seconds: u32) -> Plan {
    Plan {
        cron: "0 * * * *".to_owned(),
        time_zone: "UTC".to_owned(),
        overlap: Overlap::Skip,
        catch_up,
        catch_up_seconds,
        jitter_seconds: 0,
        paused: false,
        since: at("2026-03-02T00:30:00Z"),
    }
}

/// The runs of a service that comes back at this time, and what it leaves out.
fn runs(plan: &Plan, now: &str) -> (Vec<String>, Vec<String>) {
    let times = plan.times().unwrap();
    let (mut decided, mut started, mut left_out) = (plan.since, Vec::new(), Vec::new());
    loop {
        let Next { run, missed } = next(plan, &times, decided, at(now));
        if let Some((due, reason)) = missed {
            left_out.push(reason);
            decided = decided.max(due);
        }
        let Some(due) = run else { return (started, left_out) };
        assert!(due > decided);
        decided = due;
        started.push(due.rfc3339_seconds());
    }
}

#[test]
fn after_an_absence_each_way_to_catch_up_does_what_it_says() {
    let now = "2026-03-02T03:10:00Z";
    let (started, left_out) = runs(&plan(CatchUp::None, 0), now);
    assert!(started.is_empty());
    assert_eq!(
        left_out,
        [
            "the service was away; the runs up to 2026-03-02T03:00:00Z were left out: CatchUp is None"
        ]
    );
    let (started, left_out) = runs(&plan(CatchUp::Latest, 0), now);
    assert_eq!((started, left_out.len()), (vec!["2026-03-02T03:00:00Z".to_owned()], 1));
    let (started, left_out) = runs(&plan(CatchUp::All, 0), now);
    assert_eq!(started.len(), 3);
    assert!(left_out.is_empty(), "{left_out:?}");
    let (started, left_out) = runs(&plan(CatchUp::All, 2 * 3600), now);
    assert_eq!(started, ["2026-03-02T02:00:00Z", "2026-03-02T03:00:00Z"]);
    assert_eq!(
        left_out,
        ["the service was away at 2026-03-02T01:00:00Z: it was later than CatchUpSeconds (7200)"]
    );
    let (started, left_out) = runs(&plan(CatchUp::Latest, 60), now);
    assert_eq!((started.len(), left_out.len()), (0, 1));
}

#[test]
fn all_takes_the_newest_hundred() {
    let (started, left_out) = runs(&plan(CatchUp::All, 0), "2026-03-12T00:10:00Z");
    assert_eq!((started.len(), left_out.len()), (100, 1));
    assert_eq!(started[99], "2026-03-12T00:00:00Z");
    assert!(left_out[0].ends_with("CatchUp takes the newest 100 runs"), "{left_out:?}");
}

#[test]
fn a_run_on_time_is_not_caught_up() {
    for catch_up in CatchUp::ALL {
        let (started, left_out) = runs(&plan(*catch_up, 1), "2026-03-02T01:00:20Z");
        assert_eq!((started.len(), left_out.len()), (1, 0), "{catch_up}");
        assert!(runs(&plan(*catch_up, 1), "2026-03-02T00:59:59Z").0.is_empty());
    }
}

#[test]
fn years_away_are_searched_in_little_time() {
    let minutes = Plan { cron: "* * * * *".to_owned(), ..plan(CatchUp::All, 0) };
    let times = minutes.times().unwrap();
    let began = std::time::Instant::now();
    let now = at("2036-03-02T00:00:00Z");
    assert!(next(&minutes, &times, minutes.since, now).run.is_some());
    let rare = Plan { cron: "0 0 29 2 *".to_owned(), ..minutes };
    assert!(next(&rare, &rare.times().unwrap(), rare.since, now).run.is_some());
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[test]
fn a_position_is_smaller_than_a_record() {
    let mut position = Position::default();
    let due = Timestamp(i64::MAX);
    position.queued = vec![due; MAX_QUEUED];
    for number in 0..1000 {
        let id = JobId::from_uuid(uuid::Uuid::from_u128(number));
        position.began(id);
        let reason = "\u{1f980}\"".repeat(1000);
        position.note(Run::without_job(due, due, RunOutcome::Refused, reason));
    }
    assert_eq!(position.runs.len(), KEPT_RUNS);
    let text = serde_json::to_string(&position).unwrap();
    assert!(text.len() < crate::records::MAX_RECORD_BYTES, "{}", text.len());
}

#[test]
fn a_queued_run_is_one_entry_until_it_starts() {
    let mut position = Position::default();
    let due = at("2026-03-02T01:00:00Z");
    position.note(Run::without_job(due, due, RunOutcome::Queued, ""));
    let job = JobId::from_uuid(uuid::Uuid::from_u128(1));
    position.note(Run::started(due, due, job));
    assert_eq!(position.runs.len(), 1);
    assert_eq!(position.runs[0].job, Some(job));
}

#[test]
fn jitter_is_fixed_for_each_schedule_and_within_its_bound() {
    let plan = Plan { jitter_seconds: 300, ..plan(CatchUp::None, 0) };
    let of = |key: &str| jitter(key, &plan);
    assert_eq!(of("a/b"), of("a/b"));
    let all: std::collections::BTreeSet<_> =
        (0..100).map(|number| of(&format!("a/{number}"))).collect();
    assert!(all.len() > 50);
    assert!(all.iter().all(|jitter| *jitter <= Duration::from_secs(300)));
}

#[test]
fn schedules_of_a_namespace_and_their_bytes_have_a_bound() {
    let mut records = Records::default();
    let write = |namespace: &str, name: &str, bytes: usize| RecordWrite {
        key: RecordKind::Schedule.key(key(namespace, name)),
        expected: Expected::Anything,
        value: Some("x".repeat(bytes).into()),
    };
    let refused = records.apply(&[write("a", "long", MAX_SCHEDULE_BYTES + 1)], 1);
    assert!(matches!(refused, Err(RecordRefusal::NoRoom { .. })), "{refused:?}");
    let is_refused = |refused: Result<_, RecordRefusal>| match refused {
        Err(RecordRefusal::NoRoom { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    for number in 0..MAX_SCHEDULES {
        records.apply(&[write("many", &number.to_string(), 1)], 1).unwrap();
    }
    let reason = is_refused(records.apply(&[write("many", "more", 1)], 1));
    assert!(reason.contains("1000 schedules"), "{reason}");
    records.apply(&[write("many", "7", 2)], 1).unwrap();

    let of_one = MAX_NAMESPACE_SCHEDULES_BYTES / MAX_SCHEDULE_BYTES;
    let namespaces = MAX_SCHEDULES_BYTES / MAX_NAMESPACE_SCHEDULES_BYTES;
    for namespace in 0..namespaces {
        let namespace = format!("large-{namespace}");
        for number in 0..of_one {
            let large = write(&namespace, &number.to_string(), MAX_SCHEDULE_BYTES);
            records.apply(&[large], 1).unwrap();
        }
        let reason = is_refused(records.apply(&[write(&namespace, "x", MAX_SCHEDULE_BYTES)], 1));
        assert!(reason.contains("of the namespace have 8 MiB"), "{reason}");
    }
    let mut of_another = (0..of_one)
        .map(|number| records.apply(&[write("last", &number.to_string(), MAX_SCHEDULE_BYTES)], 1));
    let reason = is_refused(of_another.find(Result::is_err).expect("there is an end"));
    assert!(reason.contains("all schedules together"), "{reason}");
}
