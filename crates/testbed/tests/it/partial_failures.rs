//! Arrays of which some executions fail: how many a job allows, and what it says of them.

use api_client::ExecutionsQuery;
use api_types::JobId;
use api_types::job::{Job, JobStateType};
use serde_json::{Value, json};
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, batch, noop, ops};

/// Records of jobs stay below this, however many executions fail.
const RECORD_BYTES: usize = 8 << 10;

/// An array whose odd executions fail.
fn array(cluster: &Cluster, max_failed: i32) -> Value {
    let mut job = batch(&cluster.image, &["exit", "odd"]);
    job["Count"] = json!(20);
    job["MaxFailed"] = json!(max_failed);
    job["Tasks"][0]["Resources"] = json!({ "CPU": "0.1", "Memory": "20MB" });
    job
}

async fn completed(cluster: &Cluster, job: JobId) -> usize {
    let query = ExecutionsQuery { state: Some("Completed".to_owned()), ..Default::default() };
    let found = cluster.client().job_executions(job, &query).await.expect("it is stored");
    found.executions.len()
}

fn message(job: &Job) -> &str {
    &job.state.message
}

#[tokio::test]
async fn an_array_that_allows_failures_completes_the_rest_and_lists_them() {
    let Some(cluster) = ClusterSpec::new().agent(AgentSpec::new()).start().await else { return };
    let id = cluster.submit(&array(&cluster, 100)).await;
    let job = cluster.wait_for_job(id, JobStateType::Failed).await;
    assert_eq!(job.state.failed_count, 10);
    assert_eq!(job.state.failed_indexes, "1,3,5,7,9,11,13,15,17,19");
    let said = "10 of 20 indexes failed; the first, [";
    assert!(message(&job).starts_with(said), "{}", message(&job));
    assert_eq!(completed(&cluster, id).await, 10);
    let slots = cluster.client().job_slots(id, Some(1000)).await.expect("it is stored");
    assert_eq!((slots.completed, slots.failed, slots.unfinished), (10, 10, 0));
    let failed = slots.buckets.iter().filter(|bucket| bucket.failed == 1);
    assert!(failed.clone().all(|bucket| bucket.first % 2 == 1) && failed.count() == 10);
    let query = ExecutionsQuery { index: Some("0-3,19".to_owned()), ..Default::default() };
    let found = cluster.client().job_executions(id, &query).await.expect("it is stored");
    assert_eq!(found.executions.len(), 5);
}

#[tokio::test]
async fn an_array_ends_early_once_more_executions_failed_than_it_allows() {
    // One at a time, so that the first three failures are known.
    let agent = AgentSpec::new().cpu("0.1");
    let Some(cluster) = ClusterSpec::new().agent(agent).start().await else { return };
    let id = cluster.submit(&array(&cluster, 2)).await;
    let job = cluster.wait_for_job(id, JobStateType::Failed).await;
    assert_eq!((job.state.failed_count, job.state.failed_indexes.as_str()), (3, "1,3,5"));
    let said = "3 of 20 indexes failed, more than MaxFailed (2); the first, [1] on ";
    assert!(message(&job).starts_with(said), "{}", message(&job));
    assert!(message(&job).ends_with(": exit code 1"), "{}", message(&job));
    assert_eq!(completed(&cluster, id).await, 3);
}

#[tokio::test]
async fn an_ops_job_that_allows_failures_runs_on_every_node() {
    let Some(cluster) = Cluster::with_agents(3).await else { return };
    let mut job = ops(&cluster.image, &["exit", "odd"]);
    job["MaxFailed"] = json!(1);
    let id = cluster.submit(&job).await;
    let job = cluster.wait_for_job(id, JobStateType::Failed).await;
    assert_eq!((job.state.failed_count, job.state.failed_indexes.as_str()), (1, "1"));
    let said = "1 of 3 indexes failed; the first, [1] on ";
    assert!(message(&job).starts_with(said), "{}", message(&job));
    assert_eq!(completed(&cluster, id).await, 2);
}

#[tokio::test]
async fn the_record_of_a_large_array_of_which_half_fails_stays_small() {
    let mut cluster =
        ClusterSpec::new().agent(AgentSpec::new().engines("noop")).start_without_docker().await;
    let mut job = noop();
    job["Count"] = json!(3000);
    job["MaxFailed"] = json!(-1);
    job["Tasks"][0]["Engine"]["Params"] = json!({ "FailEvery": 2 });
    job["Tasks"][0]["Resources"] = json!({ "CPU": "0.01", "Memory": "1MB" });
    let id = cluster.submit(&job).await;
    cluster.orchestrator.kill();
    cluster.orchestrator.restart().await;
    let job = cluster.wait_for_job(id, JobStateType::Failed).await;
    assert_eq!(job.state.failed_count, 1500);
    let indexes = &job.state.failed_indexes;
    assert!(indexes.starts_with("1,3,5,7,") && indexes.ends_with(",…"), "{indexes}");
    let record = serde_json::to_string(&job).expect("a record is plain data");
    assert!(record.len() < RECORD_BYTES, "{} bytes", record.len());
    let slots = cluster.client().job_slots(id, None).await.expect("it is stored");
    assert_eq!((slots.completed, slots.failed, slots.buckets.len()), (1500, 1500, 100));
    assert!(slots.buckets.iter().all(|bucket| bucket.failed == 15 && bucket.completed == 15));
}
