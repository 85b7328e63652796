//! Jobs that ended and run again, as far as a user names their indexes.

use std::collections::BTreeSet;
use std::process::Output;
use std::time::Duration;

use api_client::ExecutionsQuery;
use api_types::JobId;
use api_types::execution::Execution;
use api_types::job::{Job, JobStateType};
use api_types::rerun::RerunJobRequest;
use serde_json::{Value, json};
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, batch, eventually_within, noop};
use tokio::process::Command;

/// Executions of the array that runs again while the orchestrator is killed.
const COUNT: u32 = 3000;

/// The same in the long test.
const LONG_COUNT: u32 = 1_000_000;

/// Far longer than a million executions take.
const ENDS_WITHIN: Duration = Duration::from_secs(3000);

async fn jobctl(cluster: &Cluster, arguments: &[&str]) -> Output {
    let program =
        tokio::task::spawn_blocking(|| programs::binary("jobctl")).await.expect("it is built");
    let mut command = Command::new(program);
    command.args(arguments).env("JOBCTL_URL", cluster.client().base_url());
    command.output().await.expect("the program runs")
}

fn index_of(execution: &Execution) -> u32 {
    let index = execution.name.rsplit('[').next().and_then(|rest| rest.strip_suffix(']'));
    index.and_then(|index| index.parse().ok()).expect("executions are named after their index")
}

/// The indexes of a job that have run, and how many executions it took.
async fn ran(cluster: &Cluster, job: JobId) -> (BTreeSet<u32>, usize) {
    let mut query = ExecutionsQuery { limit: Some(1000), ..Default::default() };
    let (mut indexes, mut executions) = (BTreeSet::new(), 0);
    loop {
        let page = cluster.client().job_executions(job, &query).await.expect("it is stored");
        indexes.extend(page.executions.iter().map(index_of));
        executions += page.executions.len();
        if page.next_token.is_empty() {
            return (indexes, executions);
        }
        query.next_token = Some(page.next_token);
    }
}

#[tokio::test]
async fn failed_indexes_run_again_with_a_patched_command_under_their_indexes() {
    let Some(cluster) = ClusterSpec::new().agent(AgentSpec::new()).start().await else { return };
    let mut job = batch(&cluster.image, &["exit", "odd"]);
    job["Count"] = json!(20);
    job["MaxFailed"] = json!(100);
    job["Tasks"][0]["Resources"] = json!({ "CPU": "0.1", "Memory": "20MB" });
    let first = cluster.submit(&job).await;
    cluster.wait_for_job(first, JobStateType::Failed).await;
    let directory = tempfile::tempdir().expect("make a directory");
    let patch = directory.path().join("patch.yaml");
    std::fs::write(&patch, "Tasks: [{Engine: {Params: {Parameters: [env]}}}]").expect("write it");
    let patch = patch.display().to_string();
    let job = first.to_string();
    let arguments = ["rerun", &job, "--failed", "--patch", &patch];

    let shown = jobctl(&cluster, &[&arguments[..], &["--dry-run"]].concat()).await;
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(text.contains("Indexes that would run: 1,3,5,7,9,11,13,15,17,19"), "{text}");
    let done = jobctl(&cluster, &[&arguments[..], &["--quiet"]].concat()).await;
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{text} {}", String::from_utf8_lossy(&done.stderr));
    let told = |name: &str| {
        let lines = text.lines().filter_map(|line| line.split_once(&format!("{name}=")));
        lines.map(|(_, value)| value.to_owned()).collect::<Vec<_>>()
    };
    let indexes: BTreeSet<u32> =
        told("SERVICE_EXECUTION_INDEX").iter().filter_map(|index| index.parse().ok()).collect();
    assert_eq!(indexes, (0..10).map(|at| 2 * at + 1).collect(), "{text}");
    assert_eq!(told("SERVICE_EXECUTION_COUNT"), vec!["20"; 10], "{text}");
}

async fn ended_as(cluster: &Cluster, id: JobId, expected: JobStateType) -> Job {
    let job = eventually_within(ENDS_WITHIN, "the end of the job", async || {
        let job = cluster.client().describe_job(id).await.expect("it is stored");
        let state = job.state.state_type;
        if state.is_terminal() { Ok(job) } else { Err(format!("it is {state}")) }
    })
    .await;
    assert_eq!(job.state.state_type, expected, "{}", job.state.message);
    job
}

/// Runs the failed half of an array of this size again, each for so long, and kills the orchestrator
/// halfway.
async fn rerun_half(count: u32, wait_milliseconds: u32) {
    let agent = AgentSpec::new().engines("noop").cpu("8");
    let mut cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    let mut job = noop();
    job["Count"] = json!(count);
    job["MaxFailed"] = json!(-1);
    job["Tasks"][0]["Engine"]["Params"] = json!({ "FailEvery": 2 });
    job["Tasks"][0]["Resources"] = json!({ "CPU": "0.01", "Memory": "1MB" });
    let first = cluster.submit(&job).await;
    let ended = ended_as(&cluster, first, JobStateType::Failed).await;
    assert_eq!(ended.state.failed_count, count / 2);
    let params = json!({ "FailEvery": null, "WaitMilliseconds": wait_milliseconds });
    let patch: Value = json!({ "Tasks": [{ "Engine": { "Params": params } }] });
    let request = RerunJobRequest {
        only: Some("Failed".to_owned()),
        patch: Some(patch),
        ..Default::default()
    };
    let made = cluster.client().rerun_job(first, &request, Some("once")).await.expect("it runs");
    let again = cluster.client().rerun_job(first, &request, Some("once")).await.expect("it runs");
    assert_eq!(made.job_id, again.job_id);
    eventually_within(ENDS_WITHIN, "half of the rerun", async || {
        let slots = cluster.client().job_slots(made.job_id, None).await.expect("it is stored");
        let ended = slots.completed + slots.failed;
        if ended >= count / 4 { Ok(()) } else { Err(format!("{ended} have ended")) }
    })
    .await;
    cluster.orchestrator.kill();
    cluster.orchestrator.restart().await;
    let again = cluster.client().rerun_job(first, &request, Some("once")).await.expect("it runs");
    assert_eq!(made.job_id, again.job_id);
    let ended = ended_as(&cluster, made.job_id, JobStateType::Completed).await;
    assert_eq!(ended.spec.count, count / 2);
    let (indexes, executions) = ran(&cluster, made.job_id).await;
    let odd = (0..count / 2).map(|at| 2 * at + 1);
    assert!(indexes.into_iter().eq(odd), "exactly the failed indexes ran");
    assert_eq!(executions, count as usize / 2, "each of them once");
}

#[tokio::test]
async fn exactly_the_failed_half_of_an_array_runs_again_across_a_crash() {
    // The node has room for 800 of them, so the rest has not run when those have.
    rerun_half(COUNT, 500).await;
}

#[tokio::test]
#[ignore = "long"]
async fn exactly_the_failed_half_of_a_million_runs_again_across_a_crash() {
    rerun_half(LONG_COUNT, 0).await;
}
