//! `jobctl describe`.

use api_types::job::JobStateType;
use insta::assert_snapshot;
use serde_json::Value;

use crate::fake_node::FakeNode;
use crate::service::Service;

#[tokio::test]
async fn a_job_is_shown_with_its_executions_and_events() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let id = service.submit("Type: batch\nName: words\nTasks: [{Name: main, Engine: {Type: docker, Params: {Image: ok}}}]").await;
    service.until(&id, JobStateType::Completed).await;
    assert_snapshot!(service.run(&["describe", &id[..10]]).await.normal());

    let yaml = service.run(&["describe", &id, "-o", "yaml"]).await;
    assert!(yaml.stdout.starts_with(&format!("ID: {id}\nName: words\n")), "{yaml}");
    let json = service.run(&["describe", &id, "-o", "json"]).await;
    let job: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(job["State"]["StateType"], "Completed");
}

#[tokio::test]
async fn an_unknown_job_is_reported_with_the_hint_of_the_service() {
    let service = Service::start().await;
    assert_snapshot!(service.run(&["describe", "j-12ab34cd"]).await.normal());
}
