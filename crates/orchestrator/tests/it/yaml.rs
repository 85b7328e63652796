//! Jobs in YAML.

use reqwest::Method;
use serde_json::json;

use crate::server::{Answer, JOBS, Server, answer, job_path, list, text};

const JOB: &str = "\
Job:
  Name: words
  type: batch
  Labels: &labels {team: docs}
  Meta: *labels
  Tasks:
  - Name: main
    Engine: {Type: docker, Params: {Image: 'image:1'}}
    Resources: {CPU: '0.5', Memory: 64MB}
";

async fn sent(server: &Server, path: &str, media_type: &str, body: &str) -> Answer {
    let request = server.request(Method::PUT, path).header("Content-Type", media_type);
    answer(request.body(body.to_owned())).await
}

#[tokio::test]
async fn a_job_in_yaml_is_the_same_job() {
    let server = Server::start().await;
    for media_type in ["application/yaml", "text/yaml; charset=utf-8", "application/X-YAML"] {
        let id = text(&sent(&server, JOBS, media_type, JOB).await.ok()["JobID"]);
        let job = server.get(&job_path(&id)).await.ok()["Job"].clone();
        assert_eq!((&job["Name"], &job["Labels"]), (&json!("words"), &json!({ "team": "docs" })));
        assert_eq!(job["Tasks"][0]["Resources"]["CPU"], "0.5");
    }
    let dry = sent(&server, &format!("{JOBS}?dry_run=true"), "application/yaml", JOB).await;
    assert_eq!(dry.ok()["Job"]["Meta"]["team"], "docs");
    let json =
        r#"{"Job": {"Type": "batch", "Tasks": [{"Name": "a", "Engine": {"Type": "noop"}}]}}"#;
    sent(&server, JOBS, "application/yaml", json).await.ok();
}

#[tokio::test]
async fn mistakes_in_yaml_have_the_paths_of_the_job() {
    let server = Server::start().await;
    let wrong = JOB.replace("batch", "weekly").replace("'0.5'", "0.5");
    let answer = sent(&server, JOBS, "application/yaml", &wrong).await;
    let problems = answer.problems();
    assert!(problems.iter().any(|problem| problem.starts_with("Type: 'weekly'")), "{problems:?}");
    let cpu = problems.iter().find(|problem| problem.starts_with("Tasks[0].Resources.CPU: "));
    assert!(cpu.is_some(), "{problems:?}");
    for (body, part) in [
        ("Job: [", "not YAML"),
        ("", "empty"),
        ("Job: {Type: batch, type: batch}", "is given more than once"),
        ("Job: !x {}", "tags"),
    ] {
        let answer = sent(&server, JOBS, "application/yaml", body).await;
        assert_eq!(answer.status.as_u16(), 400, "{body}: {}", answer.text);
        assert!(answer.text.contains(part), "{body}: {}", answer.text);
    }
    assert!(list(&server.get(JOBS).await.ok()["Jobs"]).is_empty());
}

#[tokio::test]
async fn only_jobs_are_read_as_yaml() {
    let server = Server::start().await;
    let id = text(&sent(&server, JOBS, "application/yaml", JOB).await.ok()["JobID"]);
    let request = server
        .request(Method::DELETE, &job_path(&id))
        .header("Content-Type", "application/yaml")
        .body("Reason: x");
    answer(request).await.refused(415, "UnsupportedMediaType");
    sent(&server, JOBS, "text/plain", JOB).await.refused(415, "UnsupportedMediaType");
}

#[tokio::test]
async fn an_idempotency_key_compares_what_was_sent() {
    let server = Server::start().await;
    let submit = async |body: &str| {
        let request = server
            .request(Method::PUT, JOBS)
            .header("Content-Type", "application/yaml")
            .header("Idempotency-Key", "once");
        answer(request.body(body.to_owned())).await
    };
    let first = submit(JOB).await.ok().clone();
    assert_eq!(submit(JOB).await.ok(), &first);
    submit(&format!("# changed\n{JOB}")).await.refused(409, "IdempotencyConflict");
}
