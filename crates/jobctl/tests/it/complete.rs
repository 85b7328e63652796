//! Completion in a shell.

use std::time::Instant;

use crate::fake_node::FakeNode;
use crate::service::{Service, finish, program};

fn job(name: &str) -> String {
    format!(
        "Type: batch\nName: {name}\nTasks: [{{Name: main, Engine: {{Type: docker, Params: {{Image: ok}}}}}}]"
    )
}

/// The candidates for the last of these arguments, as fish gets them.
async fn candidates(service: &Service, arguments: &[&str], url: Option<&str>) -> Vec<String> {
    let line = [&["--", "jobctl"], arguments].concat();
    let mut command = program(service.folder(), &line);
    command.env("COMPLETE", "fish");
    if let Some(url) = url {
        command.env("JOBCTL_URL", url);
    }
    let ran = finish(command, &line, "", None).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran}");
    ran.stdout.lines().map(|line| line.split('\t').next().unwrap_or(line).to_owned()).collect()
}

#[tokio::test]
async fn names_are_completed() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let id = service.submit(&job("train")).await;
    service.submit(&job("test")).await;
    let url = Some(service.url());
    assert_eq!(candidates(&service, &["describe", "t"], url).await, ["test", "train"]);
    assert_eq!(candidates(&service, &["logs", "-f", "tr"], url).await, ["train"]);
    assert_eq!(candidates(&service, &["stop", &id[..6]], url).await, [&id[..10]]);
    assert_eq!(candidates(&service, &["node", "cordon", "al"], url).await, ["alpha"]);
    assert_eq!(candidates(&service, &["top", "--node", "al"], url).await, ["alpha"]);
    assert_eq!(candidates(&service, &["exp"], url).await, ["explain"]);
    assert_eq!(candidates(&service, &["submit", "--idemp"], url).await, ["--idempotency-key"]);
    let elsewhere = ["describe", "--namespace", "lab", "t"];
    assert_eq!(candidates(&service, &elsewhere, url).await, [""; 0]);
    service.write("jobctl.yaml", "contexts: {lab: {url: 'http://lab'}, home: {url: 'http://h'}}");
    let contexts = ["--config", "jobctl.yaml", "context", "use", "l"];
    assert_eq!(candidates(&service, &contexts, None).await, ["lab"]);
}

#[tokio::test]
async fn a_service_that_does_not_respond_has_no_candidates() {
    let service = Service::start().await;
    // It accepts connections and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let begin = Instant::now();
    assert_eq!(candidates(&service, &["describe", "t"], Some(&url)).await, [""; 0]);
    assert!(begin.elapsed().as_millis() < 2500, "{:?}", begin.elapsed());
    assert_eq!(candidates(&service, &["describe", "t"], Some("http://127.0.0.1:1")).await, [""; 0]);
}
