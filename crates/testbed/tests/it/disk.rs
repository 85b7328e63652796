//! The disk that a task may have, and a node whose disk has no room for it.

use api_types::execution::{ComputeState, Execution};
use api_types::job::JobStateType;
use serde_json::{Value, json};
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, DataUrl, SmallDisk, batch};

/// Of a node's disk: room for a ledger, small inputs and little more.
const MEGABYTES: u32 = 24;

fn with_disk(mut job: Value, disk: &str) -> Value {
    job["Tasks"][0]["ResourcesConfig"] = json!({ "Disk": disk });
    job
}

fn keeping(mut job: Value, path: &str) -> Value {
    job["Tasks"][0]["ResultPaths"] = json!([{ "Name": "outputs", "Path": path }]);
    job
}

/// The one execution of a job that fails for good at its first try: its own failure.
async fn fails(cluster: &Cluster, job: &Value) -> Execution {
    let id = cluster.submit(job).await;
    cluster.job_in(id, JobStateType::Failed).await;
    let execution = cluster.execution(id).await;
    assert_eq!(execution.compute_state.state_type, ComputeState::Failed);
    assert_eq!(execution.run_output.runner_error, execution.compute_state.message);
    execution
}

#[tokio::test]
async fn a_task_that_writes_beyond_its_disk_is_ended_while_it_runs() {
    let Some(cluster) = Cluster::of(1).await else { return };
    let job = with_disk(batch(&cluster.image, &["fill", "/big", "25", "600"]), "10MB");
    let output = fails(&cluster, &job).await.run_output;
    let told = "what the task wrote (below '/', its inputs apart) has 25 MB, more than the 10 MB \
                of the task's Resources.Disk; ask for more";
    assert_eq!(output.runner_error, told);
    assert_eq!(output.exit_code, 143, "{output:?}");
    assert!(output.stdout.starts_with("wrote 25 MB\n"), "{output:?}");
    cluster.no_container_left().await;
}

#[tokio::test]
async fn what_a_task_leaves_beyond_its_disk_fails_it_with_path_and_size() {
    let spec = AgentSpec::new().setting("COMPUTE_AGENT_RESULTS__MAX_BYTES", "3MB");
    let Some(cluster) = ClusterSpec::new().agent(spec).start().await else { return };
    let left = |disk: &str| {
        let mut job = keeping(batch(&cluster.image, &["fill", "/outputs/big", "8"]), "/outputs");
        job["Tasks"][0]["Publisher"] = json!({ "Type": "local" });
        with_disk(job, disk)
    };
    let execution = fails(&cluster, &left("5MB")).await;
    let told = "result path 'outputs' (/outputs) has with what was taken in before at least \
                8 MB, more than the 5 MB of the task's Resources.Disk; ask for more";
    assert_eq!(execution.run_output.runner_error, told);
    assert_eq!(execution.run_output.stdout, "wrote 8 MB\n");
    let published = execution.published_result;
    assert!(published.params["URL"].is_string(), "what could be kept is published: {published:?}");
    // Neither one that wrote elsewhere, nor one that printed it.
    let elsewhere = with_disk(batch(&cluster.image, &["fill", "/big", "8"]), "5MB");
    let told = fails(&cluster, &elsewhere).await.run_output.runner_error;
    assert!(told.starts_with("what the task wrote (below '/', its inputs apart) has 8"), "{told}");
    let printed = with_disk(batch(&cluster.image, &["bytes", "200000"]), "100kB");
    let told = "what it printed (stdout and stderr) has 200 kB, more than the 100 kB of the \
                task's Resources.Disk; ask for more";
    assert_eq!(fails(&cluster, &printed).await.run_output.runner_error, told);
    // A task that asks for none has what the node gives.
    let plain = keeping(batch(&cluster.image, &["fill", "/outputs/big", "8"]), "/outputs");
    let told = fails(&cluster, &plain).await.run_output.runner_error;
    let words = ", more than the 3 MB that this node gives a task that asks for none; ask for";
    assert!(told.contains(words), "{told}");
    // Within its disk all is well.
    let enough = cluster.run_one(&left("20MB")).await;
    assert!(enough.published_result.params["URL"].is_string());
}

#[tokio::test]
async fn what_a_node_has_no_room_for_is_done_by_another_and_the_node_goes_on() {
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
    // The small one is the emptier of the two from now on, and asked first.
    let mut holder = batch(&cluster.image, &["sleep", "600"]);
    holder["Tasks"][0]["ResourcesConfig"] = json!({ "CPU": "1" });
    holder["Constraints"] = json!([{ "Key": "disk", "Operator": "=", "Values": ["large"] }]);
    let holder = cluster.submit(&holder).await;
    cluster.execution_in(holder, ComputeState::BidAccepted).await;
    let zeros = "0".repeat(30_000_000);
    let url = DataUrl::archive(&[("zeros", &zeros)]);
    let mut large_input = batch(&cluster.image, &["wc", "/inputs"]);
    large_input["Tasks"][0]["InputSources"] = json!([
        { "Source": { "Type": "inline", "Params": { "URL": url } }, "Target": "/inputs" }
    ]);
    let large_output = batch(&cluster.image, &["wide", "150", "100000"]);
    let large_result = keeping(batch(&cluster.image, &["fill", "/out/big", "30"]), "/out");
    for (job, told) in [
        (large_input, "input 0 (inline, for '/inputs'): no space left on the node's disk ("),
        (large_output, "its output cannot be kept: no space left on the node's disk ("),
        (
            large_result,
            "result path 'outputs' (/out) cannot be kept: no space left on the node's disk (",
        ),
    ] {
        let id = cluster.submit(&job).await;
        cluster.job_in(id, JobStateType::Completed).await;
        let executions = cluster.executions(id).await;
        assert_eq!(executions.len(), 2, "one of each node: {executions:#?}");
        let message = &executions[0].compute_state.message;
        assert!(message.starts_with(told), "{message}");
        let end = "for itself); make room on it, or let the task run on another node";
        assert!(message.ends_with(end), "{message}");
        assert_eq!(executions[0].node_id, cluster.agents[0].node_id());
        assert_eq!(executions[1].compute_state.state_type, ComputeState::Completed);
        // It has its room back, and does what it has room for.
        let mut small = batch(&cluster.image, &["echo", "here"]);
        small["Constraints"] = json!([{ "Key": "disk", "Operator": "=", "Values": ["small"] }]);
        assert_eq!(cluster.run_one(&small).await.run_output.stdout, "here\n");
    }
    cluster.client().stop_job(holder, "done with").await.expect("it runs");
    assert_eq!(cluster.revive().await, 0, "it was the same process throughout");
    let log = cluster.agents[0].log_tail();
    assert!(!log.contains("the ledger cannot be written"), "{log}");
    cluster.no_container_left().await;
}
