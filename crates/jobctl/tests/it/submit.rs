//! `jobctl submit`.

use insta::assert_snapshot;

use crate::fake_node::FakeNode;
use crate::service::Service;

const YAML: &str = "\
# a comment
Name: words
Type: batch
Tasks:
- Name: main
  Engine:
    Type: docker
    Params: {Image: ok, Parameters: [wc]}
";

#[tokio::test]
async fn a_job_in_yaml_is_stored() {
    let service = Service::start().await;
    service.write("job.yaml", YAML);
    let submitted = service.run(&["submit", "job.yaml"]).await;
    assert_snapshot!(submitted.normal());
    let job = service.client.describe_job(submitted.stdout.trim()).await.unwrap();
    assert_eq!(job.spec.name, "words");
    assert_eq!(job.spec.tasks[0].engine.params["Parameters"], serde_json::json!(["wc"]));
}

#[tokio::test]
async fn a_job_in_json_is_read_from_standard_input_and_created_with_json_output() {
    let service = Service::start().await;
    let job = r#"{"Job": {"Type": "batch", "CreateTime": 1,
        "Tasks": [{"Name": "main", "Engine": {"Type": "docker", "Params": {"Image": "ok"}}}]}}"#;
    let json = service.run_with_input(&["submit", "-", "-o", "json"], job).await;
    assert_snapshot!(json.normal());
}

#[tokio::test]
async fn repeating_an_idempotency_key_creates_no_second_job() {
    let service = Service::start().await;
    service.write("job.yaml", YAML);
    let arguments = ["submit", "job.yaml", "--idempotency-key", "k-1"];
    let first = service.run(&arguments).await;
    let second = service.run(&arguments).await;
    assert_eq!(first.code, Some(0), "{first}");
    assert_eq!(first.stdout, second.stdout);
}

#[tokio::test]
async fn waiting_returns_the_exit_code_of_the_task() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    service.write("job.yaml", &YAML.replace("ok", "exit-7"));
    let submitted = service.run(&["submit", "job.yaml", "--wait"]).await;
    assert_eq!(submitted.code, Some(7), "{submitted}");
    assert!(submitted.stderr.contains("exit code 7"), "{submitted}");
    service.write("job.yaml", YAML);
    let submitted = service.run(&["submit", "job.yaml", "--wait"]).await;
    assert_eq!(submitted.code, Some(0), "{submitted}");
}

#[tokio::test]
async fn all_mistakes_are_reported_at_once() {
    let service = Service::start().await;
    let job = "Type: weekly\nCount: -1\nTasks: [{Name: main, Engine: {Type: docker}}]";
    assert_snapshot!(service.run_with_input(&["submit", "-"], job).await.normal());
}

#[tokio::test]
async fn an_unreadable_file_is_named() {
    let service = Service::start().await;
    assert_snapshot!(service.run(&["submit", "absent.yaml"]).await.normal());
}
