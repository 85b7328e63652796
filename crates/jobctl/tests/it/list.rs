//! `jobctl list`, `executions` and `history`, once and with `--watch`.

use api_types::job::JobStateType;
use insta::assert_snapshot;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::fake_node::FakeNode;
use crate::service::{Service, TIMEOUT};

async fn submit(service: &Service, fields: &str, image: &str) -> String {
    let engine = format!("{{Type: docker, Params: {{Image: {image}}}}}");
    let job = format!("Type: batch\nTasks: [{{Name: main, Engine: {engine}}}]\n{fields}");
    service.submit(&job).await
}

#[tokio::test]
async fn jobs_are_listed_newest_first() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let done = submit(&service, "Name: words\nLabels: {team: docs}", "ok").await;
    service.until(&done, JobStateType::Completed).await;
    let failed = submit(&service, "Name: 名前", "exit-3").await;
    service.until(&failed, JobStateType::Failed).await;
    let stuck = submit(
        &service,
        "Namespace: lab\nPriority: 7\nConstraints: [{Key: gpu, Operator: exists}]",
        "ok",
    )
    .await;
    service.until(&stuck, JobStateType::Queued).await;
    assert_snapshot!("jobs", service.run(&["list"]).await.normal());
    assert_snapshot!("jobs_everywhere", service.run(&["list", "-A"]).await.normal());
    assert_snapshot!("jobs_wide", service.run(&["list", "-n", "lab", "-o", "wide"]).await.normal());
    assert_snapshot!("jobs_limited", service.run(&["ls", "--limit", "1"]).await.normal());

    let selected = service.run(&["list", "--selector", "team in (docs)", "-o", "name"]).await;
    assert_eq!(selected.stdout, format!("{done}\n"));
    let named = service.run(&["list", "-A", "--name-prefix", "wor", "-o", "name"]).await;
    assert_eq!(named.stdout, format!("{done}\n"));
    service.run(&["stop", &stuck]).await.normal();
    let changed = service.run(&["list", "-A", "--changed", "--limit", "1", "-o", "name"]).await;
    assert_eq!(changed.stdout, format!("{stuck}\n"));
    let by_state = service.run(&["list", "-A", "--state", "failed,stopped", "-o", "name"]).await;
    assert_eq!(by_state.stdout, format!("{stuck}\n{failed}\n"));
    let oldest =
        service.run(&["list", "-A", "--reverse", "-a", "-o", "name", "--since", "10m"]).await;
    assert_eq!(oldest.stdout, format!("{done}\n{failed}\n{stuck}\n"));
    let before = service.run(&["list", "-A", "-o", "name", "--before", "10m"]).await;
    assert_eq!((before.code, before.stdout.as_str()), (Some(0), ""));
    assert_eq!(before.stderr, "no jobs\n");
}

#[tokio::test]
async fn programs_get_the_records_of_the_api() {
    let service = Service::start().await;
    let id = submit(&service, "Name: words", "ok").await;
    let json = service.run(&["list", "-o", "json"]).await;
    let jobs: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(jobs[0]["ID"], id.as_str());
    assert_eq!(jobs[0]["Name"], "words");
    let yaml = service.run(&["list", "-o", "yaml"]).await;
    assert!(yaml.stdout.starts_with(&format!("- ID: {id}\n  Name: words\n")), "{yaml}");
}

#[tokio::test]
async fn an_invalid_selector_is_refused_with_the_position() {
    let service = Service::start().await;
    assert_snapshot!(service.run(&["list", "-l", "team in docs"]).await.normal());
}

#[tokio::test]
async fn executions_are_listed() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let failed = submit(&service, "Name: words", "exit-3").await;
    service.until(&failed, JobStateType::Failed).await;
    // The short ID is sufficient.
    let executions = service.run(&["executions", &failed[..10]]).await;
    assert_snapshot!("executions", executions.normal());
    let wide = service.run(&["executions", &failed, "-o", "wide"]).await;
    assert_snapshot!("executions_wide", wide.normal());

    let twice = submit(&service, "Count: 2", "ok").await;
    service.until(&twice, JobStateType::Completed).await;
    let names = async |arguments: &[&str]| {
        let run = service.run(&[&["executions", &twice, "-o", "name"], arguments].concat()).await;
        run.stdout.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let by_id = names(&["--sort", "id"]).await;
    assert!(by_id.len() == 2 && by_id.is_sorted(), "{by_id:?}");
    let reversed = names(&["--sort", "id", "--reverse"]).await;
    assert!(reversed.iter().eq(by_id.iter().rev()), "{reversed:?}");
    let of_no_job = service.run(&["executions", "--live", "--sort", "id"]).await;
    assert!(of_no_job.stderr.contains("cannot be used with"), "{of_no_job}");
}

#[tokio::test]
async fn a_history_lists_events_in_order() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let id = submit(&service, "Name: words", "ok").await;
    service.until(&id, JobStateType::Completed).await;
    assert_snapshot!("history", service.run(&["history", &id]).await.normal());
    let of_job = service.run(&["history", &id, "--type", "job", "-o", "wide"]).await;
    assert_snapshot!("history_wide", of_job.normal());
    let names = service.run(&["history", &id, "--type", "job", "--limit", "2", "-o", "name"]).await;
    assert_eq!(names.stdout, format!("{id}@1\n{id}@2\n"));
    let later = service.run(&["history", &id, "--since", "4000000000", "-o", "json"]).await;
    assert_eq!(later.stdout, "[]\n");
}

#[tokio::test]
async fn a_watch_shows_new_and_changed_records() {
    let service = Service::start().await;
    let first = submit(&service, "Name: first", "ok").await;
    service.until(&first, JobStateType::Queued).await;
    let mut child = service.spawn(&["list", "--watch"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = async || {
        let line = tokio::time::timeout(TIMEOUT, lines.next_line()).await.expect("in time");
        line.unwrap().expect("a line")
    };
    assert!(next().await.starts_with("ID "));
    let line = next().await;
    assert!(line.contains("first") && line.contains("Queued"), "{line}");
    let _node = FakeNode::start(&service, 1).await;
    // States between two polls are not shown.
    loop {
        let line = next().await;
        assert!(line.starts_with(&first[..10]), "{line}");
        if line.contains("Completed") {
            break;
        }
    }
    child.kill().await.unwrap();
}
