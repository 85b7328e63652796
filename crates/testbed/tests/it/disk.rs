//! Disk limits of tasks, and nodes whose disk is full.

use std::process::Command;

use api_types::execution::{ComputeState, Execution};
use api_types::job::JobStateType;
use serde_json::{Value, json};
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, DataUrl, SmallDisk, batch};

/// Size of a node's disk: enough for a ledger and small inputs.
const MEGABYTES: u32 = 24;

fn with_disk(mut job: Value, disk: &str) -> Value {
    job["Tasks"][0]["ResourcesConfig"] = json!({ "Disk": disk });
    job
}

fn keeping(mut job: Value, path: &str) -> Value {
    job["Tasks"][0]["ResultPaths"] = json!([{ "Name": "outputs", "Path": path }]);
    job
}

/// Runs a job whose only execution fails without a retry; returns the execution.
async fn run_failing(cluster: &Cluster, job: &Value) -> Execution {
    let id = cluster.submit(job).await;
    cluster.wait_for_job(id, JobStateType::Failed).await;
    let execution = cluster.execution(id).await;
    assert_eq!(execution.compute_state.state_type, ComputeState::Failed);
    assert_eq!(execution.run_output.runner_error, execution.compute_state.message);
    execution
}

#[tokio::test]
async fn a_task_that_exceeds_its_disk_limit_is_ended_while_it_runs() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let job = with_disk(batch(&cluster.image, &["fill", "/big", "25", "600"]), "10MB");
    let output = run_failing(&cluster, &job).await.run_output;
    let message = "what the task wrote (below '/', its inputs apart) has 25 MB, more than the 10 MB \
                of the task's Resources.Disk; ask for more";
    assert_eq!(output.runner_error, message);
    assert_eq!(output.exit_code, 143, "{output:?}");
    assert!(output.stdout.starts_with("wrote 25 MB\n"), "{output:?}");
    cluster.no_container_left().await;
}

/// Removes the image when it is dropped.
struct OwnImage(String);

impl Drop for OwnImage {
    fn drop(&mut self) {
        drop(docker(&["image", "rm", "--force", &self.0]));
    }
}

fn docker(arguments: &[&str]) -> String {
    let output = Command::new("docker").args(arguments).output().expect("docker runs");
    assert!(output.status.success(), "docker {arguments:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[tokio::test]
async fn what_a_task_writes_to_a_volume_of_its_image_counts_and_is_removed() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let volumes =
        || docker(&["volume", "ls", "--quiet", "--filter", "label=com.docker.volume.anonymous"]);
    let before = volumes();
    let container = docker(&["create", &cluster.image]);
    let image = OwnImage(format!("testbed-volume:{}", std::process::id()));
    docker(&["commit", "--change", "VOLUME /data", &container, &image.0]);
    docker(&["rm", &container]);
    let job = with_disk(batch(&image.0, &["fill", "/data/big", "25", "600"]), "10MB");
    let output = run_failing(&cluster, &job).await.run_output;
    let message = "what the task wrote (below '/', its inputs apart) has 25";
    assert!(output.runner_error.starts_with(message), "{output:?}");
    assert_eq!(output.exit_code, 143, "{output:?}");
    // What is written at the very end counts as well.
    let job = with_disk(batch(&image.0, &["fill", "/data/big", "25"]), "10MB");
    let output = run_failing(&cluster, &job).await.run_output;
    assert!(output.runner_error.starts_with(message), "{output:?}");
    cluster.no_container_left().await;
    assert_eq!(volumes(), before, "they are removed with their container");
}

#[tokio::test]
async fn results_beyond_the_disk_limit_fail_the_task_with_path_and_size() {
    let spec = AgentSpec::new().setting("COMPUTE_AGENT_RESULTS__MAX_BYTES", "3MB");
    let Some(cluster) = ClusterSpec::new().agent(spec).start().await else { return };
    let left = |disk: &str| {
        let mut job = keeping(batch(&cluster.image, &["fill", "/outputs/big", "8"]), "/outputs");
        job["Tasks"][0]["Publisher"] = json!({ "Type": "local" });
        with_disk(job, disk)
    };
    let execution = run_failing(&cluster, &left("5MB")).await;
    let message = "result path 'outputs' (/outputs) has at least 5 MB together with \
                earlier results, more than the 5 MB of the task's Resources.Disk; ask for more";
    assert_eq!(execution.run_output.runner_error, message);
    assert_eq!(execution.run_output.stdout, "wrote 8 MB\n");
    let published = execution.published_result;
    assert!(published.params["URL"].is_string(), "the collected part is published: {published:?}");
    // Files elsewhere and output count too.
    let elsewhere = with_disk(batch(&cluster.image, &["fill", "/big", "8"]), "5MB");
    let message = run_failing(&cluster, &elsewhere).await.run_output.runner_error;
    assert!(
        message.starts_with("what the task wrote (below '/', its inputs apart) has 8"),
        "{message}"
    );
    let printed = with_disk(batch(&cluster.image, &["bytes", "200000"]), "100kB");
    let message = "what it printed (stdout and stderr) has 200 kB, more than the 100 kB of the \
                task's Resources.Disk; ask for more";
    assert_eq!(run_failing(&cluster, &printed).await.run_output.runner_error, message);
    // A task without a request has the node's default.
    let plain = keeping(batch(&cluster.image, &["fill", "/outputs/big", "8"]), "/outputs");
    let message = run_failing(&cluster, &plain).await.run_output.runner_error;
    let words = ", more than the 3 MB that this node gives a task that asks for none; ask for";
    assert!(message.contains(words), "{message}");
    // Results within the limit are published.
    let enough = cluster.run_one(&left("20MB")).await;
    assert!(enough.published_result.params["URL"].is_string());
}

#[tokio::test]
async fn tasks_that_a_full_node_cannot_run_move_and_the_node_continues() {
    let Some(disk) = SmallDisk::mount(MEGABYTES) else { return };
    let data = disk.path().join("data").display().to_string();
    let small = AgentSpec::new()
        .cpu("8")
        .memory("64GB")
        .label("disk", "small")
        .setting("COMPUTE_AGENT_CAPACITY__DISK", "1GB")
        .setting("COMPUTE_AGENT_DATA_DIR", &data);
    let Some(mut cluster) = ClusterSpec::new().agent(small).start().await else { return };
    cluster.add_agent(&AgentSpec::new().label("disk", "large")).await;
    // From now on the small node is emptier and gets offers first.
    let mut holder = batch(&cluster.image, &["sleep", "600"]);
    holder["Tasks"][0]["ResourcesConfig"] = json!({ "CPU": "1" });
    holder["Constraints"] = json!([{ "Key": "disk", "Operator": "=", "Values": ["large"] }]);
    let holder = cluster.submit(&holder).await;
    cluster.wait_for_execution(holder, ComputeState::BidAccepted).await;
    let zeros = "0".repeat(30_000_000);
    let url = DataUrl::archive(&[("zeros", &zeros)]);
    let mut large_input = batch(&cluster.image, &["wc", "/inputs"]);
    large_input["Tasks"][0]["InputSources"] = json!([
        { "Source": { "Type": "inline", "Params": { "URL": url } }, "Target": "/inputs" }
    ]);
    let large_output = batch(&cluster.image, &["wide", "150", "100000"]);
    let large_result = keeping(batch(&cluster.image, &["fill", "/out/big", "30"]), "/out");
    for (job, expected) in [
        (large_input, "input 0 (inline, for '/inputs'): no space left on the node's disk ("),
        (large_output, "cannot store its output: no space left on the node's disk ("),
        (
            large_result,
            "cannot collect result path 'outputs' (/out): no space left on the node's disk (",
        ),
    ] {
        let id = cluster.submit(&job).await;
        cluster.wait_for_job(id, JobStateType::Completed).await;
        let executions = cluster.executions(id).await;
        assert_eq!(executions.len(), 2, "one per node: {executions:#?}");
        let message = &executions[0].compute_state.message;
        assert!(message.starts_with(expected), "{message}");
        let end = "for itself); free space on it, or let the task run on another node";
        assert!(message.ends_with(end), "{message}");
        assert_eq!(executions[0].node_id, cluster.agents[0].node_id());
        assert_eq!(executions[1].compute_state.state_type, ComputeState::Completed);
        // The node has its space back and runs smaller tasks.
        let mut small = batch(&cluster.image, &["echo", "here"]);
        small["Constraints"] = json!([{ "Key": "disk", "Operator": "=", "Values": ["small"] }]);
        assert_eq!(cluster.run_one(&small).await.run_output.stdout, "here\n");
    }
    cluster.client().stop_job(holder, "done with").await.expect("it runs");
    assert_eq!(cluster.restart_crashed().await, 0, "no daemon crashed");
    let log = cluster.agents[0].log_tail();
    assert!(!log.contains("cannot write the ledger"), "{log}");
    cluster.no_container_left().await;
}
