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

#[tokio::test]
async fn what_did_not_run_because_of_a_job_runs_again_with_it() {
    let service = Service::start().await;
    let _node = FakeNode::start(&service, 1).await;
    let job =
        |image: &str, rest: &str| format!("{{{}, Count: 2{rest}}}", TASK.replace("IMAGE", image));
    let same = ", DependsOn: [{Job: split, Indexes: same}]";
    let graph = format!("Jobs:\n  split: {}\n  map: {}\n", job("exit-1", ""), job("ok", same));
    service.write("graph.yaml", &graph);
    let submitted = service.run(&["graph", "submit", "graph.yaml"]).await;
    let map = service.run(&["describe", "map", "-o", "name"]).await;
    service.until(map.stdout.trim(), JobStateType::Failed).await;
    let shown = service.run(&["graph", "describe", submitted.stdout.trim()]).await;
    assert!(shown.stdout.contains("split (completed, index by index)"), "{shown}");
    let dry = service.run(&["rerun", "split", "--downstream", "--dry-run"]).await;
    assert!(dry.stdout.contains("Would run after it: map"), "{dry}");
    service.write("patch.yaml", "Tasks: [{Engine: {Params: {Image: ok}}}]");
    let again = service.run(&["rerun", "split", "--downstream", "--patch", "patch.yaml"]).await;
    assert!(again.stdout.starts_with("g-"), "{again}");
    let map = service.run(&["describe", "map", "-o", "name"]).await;
    service.until(map.stdout.trim(), JobStateType::Completed).await;
}

#[tokio::test]
async fn an_input_that_is_results_of_a_job_names_it_and_waits_for_it() {
    let service = Service::start().await;
    let task = "Name: main, Engine: {Type: docker, Params: {Image: ok}}, Publisher: {Type: local}";
    let first = service.submit(&format!("Name: build\nType: batch\nTasks: [{{{task}}}]\n")).await;
    let input = "job://build/outputs#0:/in";
    let args = ["run", "--detach", "--name", "next", "-i", input, "--after", "build", "ok"];
    for args in [&args[..], &[&args[..6], &args[8..]].concat()] {
        let next = service.run(args).await;
        let shown = service.run(&["describe", next.stdout.trim(), "-o", "json"]).await;
        let job: serde_json::Value = serde_json::from_str(&shown.stdout).expect("JSON");
        let named = &job["DependsOn"];
        assert_eq!(
            (named.as_array().map(Vec::len), &named[0]["JobID"]),
            (Some(1), &serde_json::json!(first))
        );
        let params = &job["Tasks"][0]["InputSources"][0]["Source"]["Params"];
        let expected = serde_json::json!({
            "JobID": first, "Job": "build", "Path": "outputs", "Index": 0,
        });
        assert_eq!(*params, expected);
    }
    let missing = service.run(&["run", "--detach", "-i", "job://none", "ok"]).await;
    assert!(missing.stderr.contains("none"), "{missing}");
}
