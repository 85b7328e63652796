//! `jobctl stop`.

use api_types::job::JobStateType;
use insta::assert_snapshot;

use crate::fake_node::FakeNode;
use crate::service::Service;

fn job(image: &str) -> String {
    format!(
        "Type: batch\nTasks: [{{Name: main, Engine: {{Type: docker, Params: {{Image: {image}}}}}}}]"
    )
}

#[tokio::test]
async fn jobs_are_stopped_and_the_reason_is_recorded() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let id = service.submit(&job("forever")).await;
    service.until(&id, JobStateType::Running).await;
    let stopped = service.run(&["stop", &id[..10], "--reason", "superseded"]).await;
    assert_snapshot!("stopped", stopped.normal());
    service.until(&id, JobStateType::Stopped).await;
    let history = service.run(&["history", &id, "--type", "job"]).await;
    assert!(history.stdout.contains("superseded"), "{history}");
    let again = service.run(&["stop", &id]).await;
    assert_snapshot!("stopped_again", again.normal());
}

#[tokio::test]
async fn a_job_that_cannot_be_stopped_does_not_prevent_others_from_stopping() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let done = service.submit(&job("ok")).await;
    service.until(&done, JobStateType::Completed).await;
    let live = service.submit(&job("forever")).await;
    let stopped = service.run(&["stop", &done, &live]).await;
    assert_snapshot!(stopped.normal());
    service.until(&live, JobStateType::Stopped).await;
}
