//! `jobctl validate`.

use insta::assert_snapshot;

use crate::fake_node::FakeNode;
use crate::service::Service;

const JOB: &str = "\
Name: words
Type: batch
Count: 2
Labels: {team: docs}
Constraints: [{Key: zone, Operator: in, Values: [a]}]
RetryPolicy: {Attempts: 3}
Tasks:
- Name: main
  Engine: {Type: docker, Params: {Image: ok, Parameters: [wc, -l]}}
  Env: {LANG: C}
  InputSources:
  - {Source: {Type: inline, Params: {URL: 'data:,fox'}}, Target: /inputs/fox}
  ResultPaths: [{Name: out, Path: /outputs}]
  Publisher: {Type: s3, Params: {Bucket: b, Key: 'k/{index}'}}
  Resources: {CPU: '1', Memory: 1gb}
  Timeouts: {ExecutionTimeout: 60}
Colour: blue
";

#[tokio::test]
async fn the_normalised_job_and_the_chosen_nodes_are_shown() {
    let service = Service::start().await;
    let _alpha = FakeNode::idle(&service, 1).await;
    let _beta = FakeNode::idle(&service, 2).await;
    let job = JOB.replace("  Publisher: {Type: s3, Params: {Bucket: b, Key: 'k/{index}'}}\n", "");
    service.write("job.yaml", &job);
    let validated = service.run(&["validate", "job.yaml"]).await;
    assert_snapshot!(validated.normal());
    assert!(service.client.list_jobs(&Default::default()).await.unwrap().jobs.is_empty());
}

#[tokio::test]
async fn a_job_that_no_node_can_run_would_wait() {
    let service = Service::start().await;
    let _alpha = FakeNode::idle(&service, 1).await;
    assert_snapshot!(service.run_with_input(&["validate", "-"], JOB).await.normal());
}

#[tokio::test]
async fn a_job_without_nodes_would_wait() {
    let service = Service::start().await;
    let validated = service.run_with_input(&["validate", "-"], JOB).await;
    assert!(validated.stdout.ends_with("\nThere is no compute node: the job would wait.\n"));
}

#[tokio::test]
async fn programs_get_the_ids_of_the_chosen_nodes() {
    let service = Service::start().await;
    let alpha = FakeNode::idle(&service, 1).await;
    let _beta = FakeNode::idle(&service, 2).await;
    let job = JOB.replace("  Publisher: {Type: s3, Params: {Bucket: b, Key: 'k/{index}'}}\n", "");
    let validated = service.run_with_input(&["validate", "-", "-o", "name"], &job).await;
    assert_eq!(validated.stdout, format!("{}\n", alpha.id));
}
