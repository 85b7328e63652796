//! Limits of a task: memory, processor, processes, time.

use std::time::Instant;

use api_types::execution::ComputeState;
use api_types::job::JobStateType;
use serde_json::json;
use testbed::harness::{Cluster, TIMEOUT, batch};

#[tokio::test]
async fn a_task_that_exceeds_its_memory_is_killed_with_the_reason() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let mut job = batch(&cluster.image, &["memory", "256"]);
    job["Tasks"][0]["ResourcesConfig"] = json!({ "Memory": "64MB" });
    let id = cluster.submit(&job).await;
    cluster.wait_for_job(id, JobStateType::Failed).await;
    let execution = cluster.execution(id).await;
    assert_eq!(execution.compute_state.state_type, ComputeState::Failed);
    assert_eq!(execution.run_output.exit_code, 137, "{:?}", execution.run_output);
    let words = "used more than its 64 MB of memory and was killed; its limit is Resources.Memory";
    assert_eq!(execution.run_output.runner_error, words);
    assert_eq!(execution.compute_state.message, words);
    let peak = execution.usage.expect("it was measured").memory_peak;
    assert!((57_600_000..=64_000_000).contains(&peak), "{peak}");
}

#[tokio::test]
async fn the_control_group_of_a_task_has_the_requested_limits() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let mut job = batch(&cluster.image, &["limits"]);
    job["Tasks"][0]["ResourcesConfig"] = json!({ "CPU": "250m", "Memory": "100MB" });
    let execution = cluster.run_one(&job).await;

    let stdout = &execution.run_output.stdout;
    let field = |name: &str| {
        let line = stdout.lines().find_map(|line| line.strip_prefix(name));
        line.map(str::trim).unwrap_or_default().to_owned()
    };
    assert_eq!(field("cpu"), "0.25");
    let memory: u64 = field("memory").parse().unwrap();
    // The kernel counts whole pages.
    assert!((100_000_000 - 4096..=100_000_000).contains(&memory), "{memory}");
    assert!(field("pids").parse::<u64>().is_ok(), "processes are limited: {stdout}");

    let allocated = &execution.allocated_resources.tasks["main"];
    assert_eq!((allocated.cpu, allocated.memory), (0.25, 100_000_000));
}

#[tokio::test]
async fn a_task_without_requests_gets_the_nodes_defaults() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let execution = cluster.run_one(&batch(&cluster.image, &["limits"])).await;
    let allocated = &execution.allocated_resources.tasks["main"];
    assert_eq!((allocated.cpu, allocated.memory), (0.5, 512_000_000));
    assert!(execution.run_output.stdout.starts_with("cpu 0.5\n"), "{:?}", execution.run_output);
}

#[tokio::test]
async fn a_task_that_exceeds_its_timeout_is_ended_and_fails_the_job() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let mut job = batch(&cluster.image, &["sleep", "600"]);
    job["Tasks"][0]["Timeouts"] = json!({ "ExecutionTimeout": 1 });
    let begin = Instant::now();
    let id = cluster.submit(&job).await;
    let job = cluster.wait_for_job(id, JobStateType::Failed).await;
    assert!(begin.elapsed() < TIMEOUT);
    assert!(job.state.message.to_lowercase().contains("timeout"), "{}", job.state.message);

    let execution = cluster.execution(id).await;
    assert_eq!(execution.compute_state.state_type, ComputeState::Failed);
    let reason = &execution.run_output.runner_error;
    assert!(reason.contains("timeout") && reason.contains("1 s"), "{reason}");
    assert_eq!(execution.run_output.stdout, "ended by SIGTERM\n");
    cluster.no_container_left().await;
}
