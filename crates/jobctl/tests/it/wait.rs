//! `jobctl wait`.

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
async fn wait_returns_when_all_jobs_have_ended() {
    let service = Service::start().await;
    let one = service.submit(&job("ok")).await;
    let other = service.submit(&job("ok")).await;
    let arguments = ["wait", "--quiet", &one, &other[..10]];
    let child = service.spawn(&arguments);
    let _node = FakeNode::start(&service, 1).await;
    assert_snapshot!(service.finish(child, &arguments).await.normal());
}

#[tokio::test]
async fn the_exit_code_of_a_failed_task_is_returned() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let id = service.submit(&job("exit-42")).await;
    let waited = service.run(&["wait", &id]).await;
    assert_eq!(waited.code, Some(42), "{waited}");
    assert_eq!(waited.stdout, format!("{id} Failed\n"));
}

#[tokio::test]
async fn a_stopped_job_has_no_exit_code_of_its_own() {
    let service = Service::start().await;
    let id = service.submit(&job("ok")).await;
    let arguments = ["wait", "-q", &id];
    let child = service.spawn(&arguments);
    service.client.stop_job(&id, "").await.unwrap();
    let waited = service.finish(child, &arguments).await;
    assert_snapshot!(waited.normal());
}

#[tokio::test]
async fn waiting_for_running_does_not_wait_for_the_end() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let id = service.submit(&job("forever")).await;
    let waited = service.run(&["wait", "--for", "running", &id]).await;
    assert_eq!(waited.code, Some(0), "{waited}");
    assert_eq!(waited.stdout, format!("{id} Running\n"));
    service.until(&id, JobStateType::Running).await;
}

#[tokio::test]
async fn a_timeout_ends_the_wait_and_not_the_job() {
    let service = Service::start().await;
    let id = service.submit(&job("ok")).await;
    let waited = service.run(&["wait", "-q", "--timeout", "1s", &id]).await;
    assert_snapshot!(waited.normal());
    service.until(&id, JobStateType::Queued).await;
}
