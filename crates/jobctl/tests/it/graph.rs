//! `jobctl graph`, and `run --after`.

use api_types::job::JobStateType;

use crate::fake_node::FakeNode;
use crate::service::Service;

const TASK: &str =
    "Type: batch, Tasks: [{Name: main, Engine: {Type: docker, Params: {Image: IMAGE}}}]";

fn graph() -> String {
    let job = |image: &str, rest: &str| format!("{{{}{rest}}}", TASK.replace("IMAGE", image));
    let (first, second) = (job("ok", ""), job("ok", ", DependsOn: [{Job: build}]"));
    let alarm = job("ok", ", DependsOn: [{Job: test, Condition: failed}]");
    format!("Name: nightly\nJobs:\n  build: {first}\n  test: {second}\n  alarm: {alarm}\n")
}

#[tokio::test]
async fn a_graph_is_submitted_from_a_file_and_shown_with_its_states() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    service.write("graph.yaml", &graph());
    let submitted = service.run(&["graph", "submit", "graph.yaml"]).await;
    assert!(submitted.stdout.starts_with("g-"), "{submitted}");
    let alarm = service.run(&["describe", "alarm", "-o", "name"]).await;
    service.until(alarm.stdout.trim(), JobStateType::Stopped).await;
    let shown = service.run(&["graph", "describe", "nightly"]).await;
    for part in ["Completed", "build (completed)", "test (failed)", "skipped: job 'test' completed"]
    {
        assert!(shown.stdout.contains(part), "{part}: {shown}");
    }
    let listed = service.run(&["graph", "list"]).await;
    assert!(listed.stdout.contains("1 stopped"), "{listed}");
    let stopped = service.run(&["graph", "stop", submitted.stdout.trim()]).await;
    assert_eq!(stopped.stdout, "0 jobs are stopped\n");
    let missing = service.run(&["graph", "describe", "weekly"]).await;
    assert!(missing.stderr.contains("no graph has the name or ID 'weekly'"), "{missing}");
}

#[tokio::test]
async fn a_job_runs_after_another_that_is_named() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let task = "Tasks: [{Name: main, Engine: {Type: docker, Params: {Image: ok}}}]";
    let first = service.submit(&format!("Name: build\nType: batch\n{task}\n")).await;
    service.until(&first, JobStateType::Completed).await;
    let args = ["run", "--detach", "--name", "next", "--after", "build:ended", "ok"];
    let next = service.run(&args).await;
    service.until(next.stdout.trim(), JobStateType::Completed).await;
    let shown = service.run(&["describe", "next"]).await;
    assert!(shown.stdout.contains("build (ended)"), "{shown}");
    let missing = service.run(&["run", "--detach", "--after", "none", "ok"]).await;
    assert!(missing.stderr.contains("none"), "{missing}");
}
