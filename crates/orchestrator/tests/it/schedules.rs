//! `/api/v1/orchestrator/schedules`.

use std::time::Duration;

use reqwest::Method;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::access::{Guarded, Request};
use crate::server::{Answer, JOBS, Server, answer, job_path, job_with, list, plain_job, text};

crate::covers! {
    "listSchedules" => a_schedule_is_put_listed_triggered_and_deleted;
    "describeSchedule" => a_schedule_is_put_listed_triggered_and_deleted;
    "putSchedule" => a_schedule_is_put_listed_triggered_and_deleted;
    "deleteSchedule" => a_schedule_is_put_listed_triggered_and_deleted;
    "triggerSchedule" => a_schedule_is_put_listed_triggered_and_deleted;
    "listScheduleRuns" => a_schedule_is_put_listed_triggered_and_deleted;
}

const SCHEDULES: &str = "/api/v1/orchestrator/schedules";

/// Never due while a test runs.
const YEARLY: &str = "0 0 1 1 *";

/// Puts one in the namespace `home`.
pub(crate) fn put_request() -> Request {
    (Method::PUT, path("nightly?namespace=home"), Some(body(json!({}))))
}

/// How each operation is asked for there.
pub(crate) fn requests() -> [(&'static str, Request); 6] {
    let request = |method: Method, rest: &str| (method, format!("{SCHEDULES}{rest}"), None);
    [
        ("listSchedules", request(Method::GET, "?namespace=home")),
        ("putSchedule", put_request()),
        ("describeSchedule", request(Method::GET, "/nightly?namespace=home")),
        ("deleteSchedule", request(Method::DELETE, "/none?namespace=home")),
        ("triggerSchedule", request(Method::POST, "/nightly/trigger?namespace=home")),
        ("listScheduleRuns", request(Method::GET, "/nightly/runs?namespace=home")),
    ]
}

fn path(rest: &str) -> String {
    format!("{SCHEDULES}/{rest}")
}

fn body(fields: Value) -> Value {
    let mut body = json!({ "Cron": YEARLY, "Job": plain_job() });
    let (Some(all), Value::Object(fields)) = (body.as_object_mut(), fields) else {
        panic!("the fields of a schedule are an object");
    };
    all.extend(fields);
    body
}

async fn trigger(server: &Server, rest: &str, key: &str) -> Answer {
    answer(server.request(Method::POST, &path(rest)).header("Idempotency-Key", key)).await
}

/// The newest runs: outcome, reason and job.
async fn runs(server: &Server, name: &str) -> Vec<(String, String, String)> {
    let runs = server.get(&path(&format!("{name}/runs?namespace=ci"))).await;
    let of = |run: &Value| {
        let text = |field: &str| run[field].as_str().unwrap_or_default().to_owned();
        (text("Outcome"), text("Reason"), text("JobID"))
    };
    list(&runs.ok()["Runs"]).iter().map(of).collect()
}

/// The same once there are this many.
async fn eventually(server: &Server, name: &str, count: usize) -> Vec<(String, String, String)> {
    for _ in 0..200 {
        let runs = runs(server, name).await;
        if runs.len() >= count {
            return runs;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{name} has {:?}", runs(server, name).await);
}

/// The reason of a run that was refused and made no job. A minute that begins meanwhile adds a run.
async fn refused_run(server: &Server, name: &str) -> String {
    for _ in 0..200 {
        let mut runs = runs(server, name).await.into_iter();
        if let Some((_, reason, job)) = runs.find(|(outcome, ..)| outcome == "Refused") {
            assert_eq!(job, "", "{name}: {reason}");
            return reason;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{name} has {:?}", runs(server, name).await);
}

/// Every minute, put this many minutes before the service stopped, which starts again now.
async fn away(server: &mut Server, minutes: u32) {
    server.stop().await;
    let database =
        Connection::open(server.data_dir().join("orchestrator.db")).expect("its database");
    let sql = format!(
        "UPDATE record SET value = json_set(value, '$.Plan.Since',
            json_extract(value, '$.Plan.Since') / 60000000000 * 60000000000 - {minutes} * 60000000000)
         WHERE kind = 'schedule'"
    );
    assert!(database.execute(&sql, []).expect("an update") > 0);
    drop(database);
    server.restart().await;
}

#[tokio::test]
async fn a_schedule_is_put_listed_triggered_and_deleted() {
    let mut server = Server::start().await;
    let zone = json!({ "TimeZone": "Europe/Berlin", "overlap": "queue", "Paused": false });
    let put = server.put(&path("yearly?namespace=ci"), &body(zone)).await;
    let schedule = &put.ok()["Schedule"];
    assert_eq!((&schedule["Name"], &schedule["Namespace"]), (&json!("yearly"), &json!("ci")));
    assert_eq!((&schedule["Overlap"], &schedule["CatchUp"]), (&json!("Queue"), &json!("Latest")));
    let next = list(&schedule["NextTimes"]);
    assert_eq!(next.len(), 5);
    assert!(text(&next[0]).ends_with("-12-31T23:00:00Z"), "{next:?}");
    server.restart().await;
    let described = server.get(&path("yearly?namespace=ci")).await;
    assert_eq!(described.ok()["Schedule"]["Job"], plain_job());
    assert_eq!(described.ok()["Schedule"]["NextTimes"], put.ok()["Schedule"]["NextTimes"]);
    let listed = server.get(&format!("{SCHEDULES}?namespace=ci")).await;
    assert_eq!(listed.ok()["Schedules"][0]["Name"], "yearly");
    assert_eq!(listed.ok()["Schedules"][0]["Job"], Value::Null, "a list has no jobs");

    let triggered = trigger(&server, "yearly/trigger?namespace=ci", "one").await;
    let job = text(&triggered.ok()["JobID"]);
    let again = trigger(&server, "yearly/trigger?namespace=ci", "one").await;
    assert_eq!(text(&again.ok()["JobID"]), job);
    let other = trigger(&server, "yearly/trigger?namespace=ci", "two").await;
    assert_ne!(text(&other.ok()["JobID"]), job);
    let runs = server.get(&path("yearly/runs?namespace=ci")).await;
    let runs = list(&runs.ok()["Runs"]);
    assert_eq!(runs.len(), 2, "a repeat is no run");
    assert_eq!((&runs[1]["JobID"], &runs[1]["Triggered"]), (&json!(job), &json!(true)));
    let made = server.get(&job_path(&job)).await;
    let made = &made.ok()["Job"];
    assert_eq!((&made["Name"], &made["Namespace"]), (&json!("yearly"), &json!("ci")));
    assert_eq!(made["Meta"]["service.org/schedule"], "yearly");
    assert_eq!(made["Tasks"][0]["Env"]["SERVICE_SCHEDULED_TIME"], runs[1]["ScheduledTime"]);

    server.put("/api/v1/orchestrator/namespaces/ci", &json!({})).await.ok();
    server
        .delete("/api/v1/orchestrator/namespaces/ci")
        .await
        .refused(409, "Conflict")
        .says("it has schedules");
    server.delete(&path("yearly?namespace=ci")).await.ok();
    let absent = server.get(&path("yearly?namespace=ci")).await;
    absent.refused(404, "ScheduleNotFound").says("no schedule matches 'yearly'");
    trigger(&server, "yearly/trigger?namespace=ci", "three").await.refused(404, "ScheduleNotFound");
}

#[tokio::test]
async fn what_is_wrong_with_a_schedule_is_said() {
    let server = Server::start().await;
    for (fields, problem) in [
        (json!({ "Cron": "" }), "Cron: is required: five fields"),
        (json!({ "Cron": "0 0 30 2 *" }), "Cron: names no date"),
        (json!({ "Cron": "* * * *" }), "Cron: must have five fields"),
        (json!({ "TimeZone": "Mars" }), "TimeZone: is not a known time zone"),
        (json!({ "Overlap": "Wait" }), "Overlap: 'Wait' is not an overlap; known: Skip, Queue"),
        (json!({ "CatchUp": "Some" }), "CatchUp: 'Some' is not a way to catch up"),
        (json!({ "CatchUpSeconds": 31_536_001 }), "CatchUpSeconds: must be between 0 and 31536000"),
        (json!({ "JitterSeconds": 3601 }), "JitterSeconds: must be between 0 and 3600, got 3601"),
        (json!({ "Job": null }), "Job: is required"),
        (json!({ "Graph": {} }), "Graph: is not a known field"),
    ] {
        let refused = server.put(&path("a"), &body(fields)).await;
        refused.refused(400, "InvalidRequest");
        assert!(refused.problems()[0].starts_with(problem), "{:?}", refused.problems());
    }
    for (job, problem) in [
        (json!([]), "Job: must be a job"),
        (job_with(json!({ "Type": "service" })), "Job.Type: must be batch or ops"),
        (job_with(json!({ "Namespace": "b" })), "Job.Namespace: must be that of the schedule"),
        (job_with(json!({ "Count": -1 })), "Job.Count: must not be negative"),
    ] {
        let refused = server.put(&path("a"), &body(json!({ "Job": job }))).await;
        refused.refused(400, "InvalidJob");
        assert!(refused.problems()[0].starts_with(problem), "{:?}", refused.problems());
    }
    let refused = server.put(&path("-a"), &body(json!({}))).await;
    assert!(refused.problems()[0].starts_with(": the name of a schedule must have"));
    let long = json!({ "Job": job_with(json!({ "Meta": { "a": "x".repeat(62_000) } })) });
    server.put(&path("a"), &body(long)).await.refused(400, "InvalidRequest").says("60 KiB");
    assert_eq!(list(&server.get(SCHEDULES).await.ok()["Schedules"]).len(), 0);
}

#[tokio::test]
async fn after_an_absence_over_three_due_times_each_way_to_catch_up_does_what_it_says() {
    let mut server = Server::start().await;
    for (name, fields) in [
        ("none", json!({ "CatchUp": "None" })),
        ("latest", json!({ "CatchUp": "Latest" })),
        ("all", json!({ "CatchUp": "All" })),
        ("late", json!({ "CatchUp": "All", "CatchUpSeconds": 1 })),
    ] {
        let mut fields = fields;
        fields["Cron"] = json!("* * * * *");
        fields["Overlap"] = json!("Allow");
        server.put(&path(&format!("{name}?namespace=ci")), &body(fields)).await.ok();
    }
    away(&mut server, 3).await;
    // A minute may have begun since.
    let all = eventually(&server, "all", 3).await;
    assert!((3..=5).contains(&all.len()), "{all:?}");
    assert!(all.iter().all(|(outcome, ..)| outcome == "Started"), "{all:?}");
    let latest = eventually(&server, "latest", 2).await;
    let first: Vec<_> = latest.iter().rev().take(2).map(|(outcome, ..)| outcome.as_str()).collect();
    assert_eq!(first, ["Skipped", "Started"], "{latest:?}");
    for (name, reason) in [("none", "CatchUp is None"), ("late", "later than CatchUpSeconds (1)")] {
        let runs = eventually(&server, name, 1).await;
        let (outcome, why, _) = runs.last().unwrap();
        assert_eq!(outcome, "Skipped", "{runs:?}");
        assert!(why.contains(reason), "{why}");
    }
    let jobs =
        |runs: &[(String, String, String)]| runs.iter().filter(|run| !run.2.is_empty()).count();
    let (all, latest) = (runs(&server, "all").await, runs(&server, "latest").await);
    server.restart().await;
    let later = (runs(&server, "all").await, runs(&server, "latest").await);
    assert!(jobs(&later.0) <= jobs(&all) + 1 && jobs(&later.1) <= jobs(&latest) + 1, "{later:?}");
    let listed = server.get(&format!("{JOBS}?namespace=ci&limit=100")).await;
    let mut times: Vec<_> = list(&listed.ok()["Jobs"])
        .iter()
        .map(|job| (job["Name"].clone(), job["Meta"]["service.org/scheduled-time"].clone()))
        .map(|(name, time)| format!("{name} {time}"))
        .collect();
    let count = times.len();
    times.sort();
    times.dedup();
    assert_eq!(times.len(), count, "no due time has two jobs");
}

#[tokio::test]
async fn a_run_that_its_namespace_no_longer_permits_is_refused_with_the_reason() {
    let mut server = Server::start().await;
    let fields = json!({ "Cron": "* * * * *" });
    server.put(&path("nightly?namespace=ci"), &body(fields)).await.ok();
    let none = json!({ "Permissions": { "Engines": ["wasm"] } });
    server.put("/api/v1/orchestrator/namespaces/ci", &none).await.ok();
    away(&mut server, 1).await;
    let reason = refused_run(&server, "nightly").await;
    assert!(reason.contains("Tasks[0].Engine") && reason.contains("wasm"), "{reason}");
    let metrics = server.get("/metrics").await.text;
    assert!(metrics.contains("orchestrator_schedule_runs_total{outcome=\"refused\"}"), "{metrics}");
    trigger(&server, "nightly/trigger?namespace=ci", "k").await.refused(400, "InvalidJob");
}

#[tokio::test]
async fn a_run_beyond_the_quota_is_refused_with_the_reason() {
    let mut server = Server::start().await;
    server.put(&path("nightly?namespace=ci"), &body(json!({ "Cron": "* * * * *" }))).await.ok();
    let quota = json!({ "Quota": { "QueuedExecutions": 1 } });
    server.put("/api/v1/orchestrator/namespaces/ci", &quota).await.ok();
    server.submit(job_with(json!({ "Namespace": "ci" }))).await;
    away(&mut server, 1).await;
    let reason = refused_run(&server, "nightly").await;
    assert!(reason.contains("the quota of namespace 'ci' allows 1; 1 wait now"), "{reason}");
    let asked = trigger(&server, "nightly/trigger?namespace=ci", "k").await;
    asked.refused(429, "QuotaExceeded");
}

#[tokio::test]
async fn a_viewer_sees_when_a_schedule_runs_and_not_what() {
    let guarded = Guarded::start().await;
    let viewer = guarded.token("viewer", &["home"]).await;
    let home = path("nightly?namespace=home");
    let seen = guarded.ask(Method::GET, &home, &viewer, None).await;
    let schedule = &seen.ok()["Schedule"];
    assert_eq!((&schedule["Masked"], &schedule["Job"]), (&json!(true), &Value::Null));
    assert_eq!(list(&schedule["NextTimes"]).len(), 5);
    let owner = guarded.token("owner", &["home"]).await;
    let refused = guarded.ask(Method::PUT, &home, &owner, Some(schedule)).await;
    refused.refused(400, "InvalidRequest");
    let problems = refused.problems().join("\n");
    assert!(problems.contains("Masked: is not a known field"), "{problems}");
}
