//! `jobctl submit`.

use insta::assert_snapshot;

use crate::played::PlayedNode;
use crate::service::Service;

const YAML: &str = "\
# a comment, as people write them
Name: words
Type: batch
Tasks:
- Name: main
  Engine:
    Type: docker
    Params: {Image: ok, Parameters: [wc]}
";

#[tokio::test]
async fn a_job_in_yaml_is_stored_as_it_is_meant() {
    let service = Service::start().await;
    service.write("job.yaml", YAML);
    let submitted = service.run(&["submit", "job.yaml"]).await;
    assert_snapshot!(submitted.normal());
    let job = service.client.describe_job(submitted.stdout.trim()).await.unwrap();
    assert_eq!(job.spec.name, "words");
    assert_eq!(job.spec.tasks[0].engine.params["Parameters"], serde_json::json!(["wc"]));
}

#[tokio::test]
async fn a_job_in_json_comes_from_standard_input_and_the_answer_goes_to_programs() {
    let service = Service::start().await;
    let job = r#"{"Job": {"Type": "batch", "CreateTime": 1,
        "Tasks": [{"Name": "main", "Engine": {"Type": "docker", "Params": {"Image": "ok"}}}]}}"#;
    let json = service.run_with_input(&["submit", "-", "-o", "json"], job).await;
    assert_snapshot!(json.normal());
}

#[tokio::test]
async fn a_repetition_with_the_same_key_makes_no_second_job() {
    let service = Service::start().await;
    service.write("job.yaml", YAML);
    let arguments = ["submit", "job.yaml", "--idempotency-key", "k-1"];
    let first = service.run(&arguments).await;
    let second = service.run(&arguments).await;
    assert_eq!(first.code, Some(0), "{first}");
    assert_eq!(first.stdout, second.stdout);
}

#[tokio::test]
async fn whoever_waits_gets_the_exit_code_of_the_task() {
    let service = Service::start().await;
    let _node = PlayedNode::start(&service, 1).await;
    service.write("job.yaml", &YAML.replace("ok", "exit-7"));
    let submitted = service.run(&["submit", "job.yaml", "--wait"]).await;
    assert_eq!(submitted.code, Some(7), "{submitted}");
    assert!(submitted.stderr.contains("exit code 7"), "{submitted}");
    service.write("job.yaml", YAML);
    let submitted = service.run(&["submit", "job.yaml", "--wait"]).await;
    assert_eq!(submitted.code, Some(0), "{submitted}");
}

#[tokio::test]
async fn every_mistake_is_told_at_once() {
    let service = Service::start().await;
    let job = "Type: weekly\nCount: -1\nTasks: [{Name: main, Engine: {Type: docker}}]";
    assert_snapshot!(service.run_with_input(&["submit", "-"], job).await.normal());
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_named() {
    let service = Service::start().await;
    assert_snapshot!(service.run(&["submit", "absent.yaml"]).await.normal());
}
