//! Arrays of which some executions fail: how many a job allows, and what it says of them.

use std::time::{Duration, Instant};

use api_client::ExecutionsQuery;
use api_types::JobId;
use api_types::job::{Job, JobStateType};
use serde_json::{Value, json};
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, batch, eventually_within, noop, ops};

/// Records of jobs stay below this, however many executions fail.
const RECORD_BYTES: usize = 8 << 10;

/// Time limit of a million executions, for a busy machine.
const ENDS_WITHIN: Duration = Duration::from_secs(1800);

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
    let url = format!("{}/metrics", cluster.client().base_url());
    let http = reqwest::Client::builder().no_proxy().build().expect("make a client");
    let scraped = http.get(url).send().await.expect("a response").text().await;
    let scraped = scraped.expect("a whole body");
    assert!(scraped.contains("orchestrator_failed_slots_total 10\n"), "{scraped}");
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

/// An array of small tasks, of which every second one fails if `FailEvery` is 2.
fn small(count: u32, params: Value) -> Value {
    let mut job = noop();
    job["Count"] = json!(count);
    job["MaxFailed"] = json!(-1);
    job["Tasks"][0]["Engine"]["Params"] = params;
    job["Tasks"][0]["Resources"] = json!({ "CPU": "0.01", "Memory": "1MB" });
    job
}

#[tokio::test]
async fn the_record_of_a_large_array_of_which_half_fails_stays_small() {
    let mut cluster =
        ClusterSpec::new().agent(AgentSpec::new().engines("noop")).start_without_docker().await;
    let id = cluster.submit(&small(3000, json!({ "FailEvery": 2 }))).await;
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

/// Executions a second, from the submission of the array to its end.
async fn rate(cluster: &Cluster, count: u32, params: Value) -> (Job, f64) {
    let begin = Instant::now();
    let id = cluster.submit(&small(count, params)).await;
    eventually_within(ENDS_WITHIN, "the end of the array", async || {
        let job = cluster.client().describe_job(id).await.expect("it is stored");
        let state = job.state.state_type;
        if state.is_terminal() { Ok(()) } else { Err(format!("it is {state}")) }
    })
    .await;
    let rate = f64::from(count) / begin.elapsed().as_secs_f64();
    (cluster.client().describe_job(id).await.expect("it is stored"), rate)
}

#[tokio::test]
#[ignore = "long"]
async fn a_million_executions_of_which_half_fails_end_almost_as_fast_as_ones_that_complete() {
    const COUNT: u32 = 1_000_000;
    let mut spec = ClusterSpec::new();
    for _ in 0..4 {
        spec = spec.agent(AgentSpec::new().engines("noop").cpu("100"));
    }
    let cluster = spec.start_without_docker().await;
    let (job, completing) = rate(&cluster, COUNT, json!({})).await;
    assert_eq!(job.state.state_type, JobStateType::Completed);
    let (job, failing) = rate(&cluster, COUNT, json!({ "FailEvery": 2 })).await;
    assert_eq!((job.state.state_type, job.state.failed_count), (JobStateType::Failed, COUNT / 2));
    let record = serde_json::to_string(&job).expect("a record is plain data");
    let rates = format!("{completing:.0}/s complete, {failing:.0}/s if half of them fail");
    eprintln!("{rates}; the record has {} bytes", record.len());
    assert!(record.len() < RECORD_BYTES);
    assert!(failing >= 0.8 * completing, "{rates}");
}
