//! `jobctl schedule …`.

use serde_json::{Value, json};

use crate::service::Service;
use crate::transcript::Transcript;

const JOB: &str =
    "Type: batch\nTasks: [{Name: main, Engine: {Type: docker, Params: {Image: image}}}]";

#[track_caller]
fn done(ran: &Transcript) -> &str {
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    ran.stdout.trim()
}

#[tokio::test]
async fn a_schedule_is_put_paused_triggered_and_deleted() {
    let service = Service::start().await;
    service.write("job.yaml", JOB);
    let put = ["schedule", "put", "prod/yearly", "job.yaml", "--cron", "0 0 1 1 *"];
    let ran = service.run(&[&put[..], &["--overlap", "queue"]].concat()).await;
    assert!(done(&ran).starts_with("schedule prod/yearly is next due at "), "{ran}");
    let listed = service.run(&["schedule", "list", "-n", "prod"]).await;
    let row = done(&listed).lines().nth(1).expect("a row").to_owned();
    assert!(row.contains("yearly") && row.contains("0 0 1 1 *"), "{listed}");

    let ran = service.run(&["schedule", "pause", "prod/yearly"]).await;
    assert_eq!(done(&ran), "schedule prod/yearly is paused");
    let described = service.run(&["schedule", "describe", "prod/yearly", "-o", "json"]).await;
    let described: Value = serde_json::from_str(done(&described)).expect("JSON");
    assert_eq!((&described["Paused"], &described["Overlap"]), (&json!(true), &json!("Queue")));
    assert_eq!(described["Job"]["Type"], "batch");
    let triggered = service.run(&["schedule", "trigger", "yearly", "-n", "prod"]).await;
    let job = done(&triggered).to_owned();
    let runs = service.run(&["schedule", "runs", "prod/yearly"]).await;
    assert!(done(&runs).contains(&job[..10]) && runs.stdout.contains("triggered"), "{runs}");
    let ran = service.run(&["schedule", "resume", "prod/yearly"]).await;
    assert!(done(&ran).contains("is next due at"), "{ran}");
    let shown = service.run(&["schedule", "describe", "prod/yearly"]).await;
    assert!(done(&shown).contains("Started for"), "{shown}");

    let ran = service.run(&["schedule", "delete", "prod/yearly"]).await;
    assert_eq!(done(&ran), "schedule prod/yearly is deleted");
    let gone = service.run(&["schedule", "runs", "prod/yearly"]).await;
    assert_eq!(gone.code, Some(122));
    assert!(gone.stderr.contains("no schedule matches 'yearly'"), "{}", gone.stderr);
    let wrong = service.run(&["schedule", "put", "a", "job.yaml", "--cron", "0 0 30 2 *"]).await;
    assert_eq!(wrong.code, Some(122));
    assert!(wrong.stderr.contains("Cron: names no date"), "{}", wrong.stderr);
}
