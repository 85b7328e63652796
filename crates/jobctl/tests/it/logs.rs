//! `jobctl logs`.

use api_types::job::JobStateType;
use insta::assert_snapshot;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::fake_node::FakeNode;
use crate::service::{Service, TIMEOUT};

fn job(fields: &str, image: &str) -> String {
    format!(
        "Type: batch\n{fields}\nTasks: [{{Name: main, Engine: {{Type: docker, Params: {{Image: {image}}}}}}}]"
    )
}

#[tokio::test]
async fn each_stream_goes_to_the_stream_of_the_same_name() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let good = service.submit(&job("", "ok")).await;
    service.until(&good, JobStateType::Completed).await;
    assert_snapshot!("logs", service.run(&["logs", &good[..10]]).await.normal());
    let timed = service.run(&["logs", "--timestamps", &good]).await;
    assert_snapshot!("logs_with_timestamps", timed.normal());
    let raw = service.run(&["logs", "--raw", &good]).await;
    assert_eq!(raw.stdout, "hello\n");

    let bad = service.submit(&job("", "exit-3")).await;
    service.until(&bad, JobStateType::Failed).await;
    assert_snapshot!("logs_of_errors", service.run(&["logs", &bad]).await.normal());
}

#[tokio::test]
async fn lines_of_several_executions_have_a_prefix() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let id = service.submit(&job("Count: 2", "ok")).await;
    service.until(&id, JobStateType::Completed).await;
    assert_snapshot!("logs_of_two", service.run(&["logs", &id]).await.normal());
    let executions = service.run(&["executions", &id, "-o", "name"]).await;
    let execution = executions.stdout.lines().next().unwrap();
    let one = service.run(&["logs", &id, "--execution", execution]).await;
    assert_eq!(one.stdout, "hello\n", "{one}");
}

#[tokio::test]
async fn output_is_followed_to_the_end_of_the_job() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let id = service.submit(&job("", "forever")).await;
    service.until(&id, JobStateType::Running).await;
    let mut child = service.spawn(&["logs", "--follow", &id]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = tokio::time::timeout(TIMEOUT, lines.next_line()).await.unwrap().unwrap();
    assert_eq!(line.as_deref(), Some("tick"));
    service.client.stop_job(&id, "").await.unwrap();
    let status = tokio::time::timeout(TIMEOUT, child.wait()).await.unwrap().unwrap();
    assert!(status.success());
}
