//! Concurrency groups on real nodes: limits that several jobs share, and jobs that replace others.

use std::path::Path;

use api_types::JobId;
use api_types::execution::ComputeState;
use api_types::group::PutGroup;
use api_types::job::{JobStateType, JobType};
use serde_json::{Value, json};
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, batch, eventually};

const JOBS: usize = 8;
const LIMIT: usize = 2;

async fn put(cluster: &Cluster, name: &str, limit: i64) {
    let body = PutGroup { limit: Some(limit) };
    cluster.client().put_group(None, name, &body).await.expect("the group is put");
}

/// A job that notes its start and its end in a file of this directory.
fn noting(cluster: &Cluster, directory: &Path, number: usize) -> Value {
    let mut job = batch(&cluster.image, &["span", "/shared/notes", &number.to_string(), "2"]);
    let params = json!({ "SourcePath": directory.display().to_string(), "ReadWrite": true });
    job["Tasks"][0]["InputSources"] = json!([
        { "Source": { "Type": "localdirectory", "Params": params }, "Target": "/shared" }
    ]);
    job["ConcurrencyGroups"] = json!(["db"]);
    job
}

/// What ran, and the most at the same time.
fn spans(directory: &Path) -> (usize, usize) {
    let notes = std::fs::read_to_string(directory.join("notes")).unwrap_or_default();
    let (mut running, mut most, mut begun) = (0_usize, 0, 0);
    for line in notes.lines() {
        match line.starts_with('+') {
            true => (running, begun) = (running + 1, begun + 1),
            false => running -= 1,
        }
        most = most.max(running);
    }
    (begun, most)
}

async fn starts(cluster: &Cluster, job: JobId) {
    cluster.wait_for_job(job, JobStateType::Running).await;
}

async fn running(cluster: &Cluster) -> usize {
    let containers = cluster.containers().await.into_iter();
    containers.filter(|container| container.state == "running").count()
}

#[tokio::test]
async fn jobs_of_a_group_stay_within_its_limit_although_the_orchestrator_is_killed_twice() {
    let shared = tempfile::tempdir().unwrap();
    let path = shared.path().display().to_string();
    let agents = [(); 2]
        .map(|()| AgentSpec::new().cpu("8").setting("COMPUTE_AGENT_ALLOW_LOCAL_PATHS", &path));
    let spec = agents.into_iter().fold(ClusterSpec::new(), ClusterSpec::agent);
    let Some(mut cluster) = spec.start().await else { return };
    put(&cluster, "db", i64::try_from(LIMIT).expect("small")).await;
    let mut jobs = Vec::new();
    for number in 0..JOBS {
        jobs.push(cluster.submit(&noting(&cluster, shared.path(), number)).await);
    }
    for begun in [1, 4] {
        eventually("some have begun", async || {
            let found = spans(shared.path());
            if found.0 >= begun { Ok(()) } else { Err(format!("{found:?}")) }
        })
        .await;
        cluster.orchestrator.kill();
        cluster.orchestrator.restart().await;
    }
    for job in jobs {
        cluster.wait_for_job(job, JobStateType::Completed).await;
    }
    assert_eq!(spans(shared.path()), (JOBS, LIMIT));
}

#[tokio::test]
async fn a_lower_limit_stops_nothing_zero_pauses_and_a_waiting_job_is_stopped_immediately() {
    let spec = ClusterSpec::new().agent(AgentSpec::new().cpu("8"));
    let Some(cluster) = spec.start().await else { return };
    put(&cluster, "db", 2).await;
    let mut job = batch(&cluster.image, &["await"]);
    job["ConcurrencyGroups"] = json!(["db"]);
    let mut jobs = Vec::new();
    for _ in 0..4 {
        jobs.push(cluster.submit(&job).await);
    }
    starts(&cluster, jobs[0]).await;
    starts(&cluster, jobs[1]).await;
    put(&cluster, "db", 1).await;
    cluster.wait_for_job(jobs[2], JobStateType::Queued).await;
    assert_eq!(running(&cluster).await, 2, "both go on");
    put(&cluster, "db", 0).await;
    for ended in &jobs[..2] {
        let execution = cluster.execution(*ended).await;
        cluster.signal_execution(execution.id).await;
        cluster.wait_for_job(*ended, JobStateType::Completed).await;
    }
    let group = cluster.client().describe_group(None, "db").await.expect("it is there");
    assert_eq!((group.running, group.waiting), (0, 2));
    assert!(cluster.executions(jobs[2]).await.is_empty(), "the group is paused");
    cluster.client().stop_job(jobs[2], "enough").await.expect("it is stopped");
    cluster.wait_for_job(jobs[2], JobStateType::Stopped).await;
    assert!(cluster.client().delete_group(None, "db").await.is_err(), "a live job names it");
    put(&cluster, "db", 1).await;
    starts(&cluster, jobs[3]).await;
    let execution = cluster.execution(jobs[3]).await;
    cluster.signal_execution(execution.id).await;
    cluster.wait_for_job(jobs[3], JobStateType::Completed).await;
    cluster.client().delete_group(None, "db").await.expect("no live job names it");
}

#[tokio::test]
async fn of_jobs_that_replace_each_other_the_last_one_runs_once_the_first_process_is_gone() {
    let spec = ClusterSpec::new().agent(AgentSpec::new().cpu("8"));
    let Some(cluster) = spec.start().await else { return };
    put(&cluster, "deploy", 1).await;
    // It ignores SIGTERM, so that its process lasts for a while.
    let mut job = batch(&cluster.image, &["stubborn", "300"]);
    job["ConcurrencyGroups"] = json!(["deploy"]);
    let first = cluster.submit(&job).await;
    starts(&cluster, first).await;
    let mut job = batch(&cluster.image, &["await"]);
    (job["ConcurrencyGroups"], job["OnConflict"]) = (json!(["deploy"]), json!("Replace"));
    let mut jobs = Vec::new();
    for _ in 0..3 {
        jobs.push(cluster.submit(&job).await);
    }
    for stopped in [first, jobs[0], jobs[1]] {
        cluster.wait_for_job(stopped, JobStateType::Stopped).await;
    }
    eventually("the last one runs", async || {
        let most = running(&cluster).await;
        assert!(most <= 1, "two processes of the group run");
        let found = cluster.executions(jobs[2]).await;
        let has_begun =
            found.iter().any(|it| it.compute_state.state_type >= ComputeState::BidAccepted);
        if has_begun { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
    let execution = cluster.execution(jobs[2]).await;
    let first = cluster.execution(first).await;
    assert!(first.modify_time <= execution.create_time, "{first:?} {execution:?}");
    for never in &jobs[..2] {
        assert!(cluster.executions(*never).await.is_empty());
    }
    cluster.signal_execution(execution.id).await;
    cluster.wait_for_job(jobs[2], JobStateType::Completed).await;
}

#[tokio::test]
async fn an_ops_job_that_fails_on_its_second_node_never_reaches_the_third() {
    let agents = [(); 3].map(|()| AgentSpec::new());
    let spec = agents.into_iter().fold(ClusterSpec::new(), ClusterSpec::agent);
    let Some(cluster) = spec.start().await else { return };
    // Index 1 fails; of three nodes it is the second one that the job reaches.
    let mut job = batch(&cluster.image, &["exit", "odd"]);
    job["Type"] = json!(JobType::Ops);
    (job["MaxRunning"], job["MaxFailed"]) = (json!(1), json!(0));
    let job = cluster.submit(&job).await;
    cluster.wait_for_job(job, JobStateType::Failed).await;
    let executions = cluster.executions(job).await;
    assert_eq!(executions.len(), 2, "the third is never touched: {executions:?}");
}
