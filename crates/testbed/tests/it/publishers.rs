//! Every kind of publisher: the published results are byte-identical to the task's.

use std::collections::BTreeMap;
use std::io::Read;

use api_client::{HistoryQuery, ResultsQuery};
use api_types::execution::{ComputeState, Execution};
use api_types::job::JobStateType;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::read::GzDecoder;
use peers::kubo::KuboServer;
use peers::s3::{BUCKET, S3Server};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, batch, eventually};

use crate::runs::{SIX_TRANSITIONS, transitions};
use crate::sources::s3_agent;

/// A job that writes a file to its result path and prints a line.
fn job_with_results(cluster: &Cluster, publisher: &Value) -> Value {
    let mut job = batch(&cluster.image, &["fill", "/outputs/data.bin", "1"]);
    job["Tasks"][0]["ResultPaths"] = json!([{ "Name": "outputs", "Path": "/outputs" }]);
    job["Tasks"][0]["Publisher"] = publisher.clone();
    job
}

fn files(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut tar = tar::Archive::new(GzDecoder::new(archive));
    let entries = tar.entries().expect("a tar").map(|entry| {
        let mut entry = entry.expect("an entry");
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).expect("the entry is complete");
        (entry.path().expect("a path").display().to_string(), bytes)
    });
    entries.collect()
}

/// Checks the archive of [`job_with_results`].
fn assert_complete(archive: &[u8]) {
    let expected: BTreeMap<String, Vec<u8>> = [
        ("stdout", &b"wrote 1 MB\n"[..]),
        ("stderr", b""),
        ("exitCode", b"0"),
        ("outputs", b""),
        ("outputs/data.bin", &[b'x'; 1_000_000]),
    ]
    .map(|(path, bytes)| (path.to_owned(), bytes.to_vec()))
    .into();
    let found = files(archive);
    assert!(found == expected, "{:?}", found.keys());
}

async fn download(execution: &Execution) -> Vec<u8> {
    let url = execution.published_result.params["URL"].as_str().expect("a URL");
    let own = format!("/api/v1/orchestrator/executions/{}/results", execution.id);
    assert!(url.ends_with(&own), "the service's own, and not the node's: {url}");
    let response = reqwest::get(url).await.expect("the archive is served");
    response.bytes().await.expect("the download is complete").to_vec()
}

#[tokio::test]
async fn noop_publishes_nothing() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let execution = cluster.run_one(&job_with_results(&cluster, &json!({ "Type": "noop" }))).await;
    assert!(execution.published_result.params.is_empty(), "{execution:?}");
    let results =
        cluster.client().job_results(execution.job_id, &ResultsQuery::default()).await.unwrap();
    assert_eq!(results.results.len(), 0);
}

#[tokio::test]
async fn local_serves_the_archive_even_of_failed_tasks() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    let local = json!({ "Type": "local" });
    let execution = cluster.run_one(&job_with_results(&cluster, &local)).await;
    assert_complete(&download(&execution).await);
    let mut failing = batch(&cluster.image, &["exit", "3", "so", "far"]);
    failing["Tasks"][0]["Publisher"] = local;
    let id = cluster.submit(&failing).await;
    cluster.wait_for_job(id, JobStateType::Failed).await;
    let found = files(&download(&cluster.execution(id).await).await);
    assert_eq!((&found["stdout"][..], &found["exitCode"][..]), (&b"so far\n"[..], &b"3"[..]));
}

#[tokio::test]
async fn s3_stores_the_archive_under_the_key_with_its_checksum() {
    let server = S3Server::start().await;
    let Some(cluster) = ClusterSpec::new().agent(s3_agent(&server.endpoint())).start().await else {
        return;
    };
    let publisher = json!({
        "Type": "s3",
        "Params": {
            "Bucket": BUCKET, "Key": "{jobID}/{nodeID}/{executionID}.tar.gz",
            "Region": "eu-north-1", "Endpoint": server.endpoint(),
        },
    });
    let execution = cluster.run_one(&job_with_results(&cluster, &publisher)).await;
    let Execution { id, job_id, node_id, .. } = &execution;
    let key = format!("{job_id}/{node_id}/{id}.tar.gz");
    let archive = std::fs::read(server.object(&key)).unwrap();
    assert_complete(&archive);
    let checksum = BASE64_STANDARD.encode(digest(&SHA256, &archive));
    let params = Value::Object(execution.published_result.params.clone());
    let expected = json!({
        "Bucket": BUCKET, "Key": key, "Region": "eu-north-1", "ChecksumSHA256": checksum,
        "VersionID": "",
    });
    assert_eq!(params, expected);
}

#[tokio::test]
async fn ipfs_adds_the_archive_under_its_content_id() {
    let server = KuboServer::start().await;
    let agent = AgentSpec::new().setting("COMPUTE_AGENT_IPFS__API", &server.api());
    let Some(cluster) = ClusterSpec::new().agent(agent).start().await else { return };
    let execution = cluster.run_one(&job_with_results(&cluster, &json!({ "Type": "ipfs" }))).await;
    let cid = execution.published_result.params["CID"].as_str().expect("a content id").to_owned();
    assert_complete(&server.file(&cid));
}

/// The upload hangs, and during it another job gets all of the node's CPU.
#[tokio::test]
async fn a_publisher_that_hangs_keeps_no_cpu_from_other_jobs() {
    const CPU: &str = "2";
    let server = S3Server::start().await;
    server.stall_puts(1);
    let agent = s3_agent(&server.endpoint()).cpu(CPU);
    let Some(mut cluster) = ClusterSpec::new().agent(agent).start().await else { return };
    let job = |line: &str| {
        let mut job = batch(&cluster.image, &["echo", line]);
        job["Tasks"][0]["Resources"] = json!({ "CPU": CPU });
        job
    };
    let (mut publishing, next) = (job("published"), job("second"));
    publishing["Tasks"][0]["Publisher"] = json!({
        "Type": "s3",
        "Params": { "Bucket": BUCKET, "Key": "{executionID}", "Endpoint": server.endpoint() },
    });
    let publishing = cluster.submit(&publishing).await;
    eventually("the upload has begun", async || match server.stalled() {
        1 => Ok(()),
        other => Err(other.to_string()),
    })
    .await;
    assert_eq!(cluster.run_one(&next).await.run_output.stdout, "second\n");
    let first = cluster.execution(publishing).await;
    assert_eq!(first.compute_state.state_type, ComputeState::BidAccepted);
    assert_eq!(
        first.compute_state.message,
        "its process has ended; its results are being collected"
    );
    // The orchestrator knows it after a restart too.
    cluster.orchestrator.kill();
    cluster.orchestrator.restart().await;
    assert_eq!(cluster.run_one(&next).await.run_output.stdout, "second\n");
    cluster.agents[0].kill();
    cluster.agents[0].restart().await;
    cluster.wait_for_job(publishing, JobStateType::Completed).await;
    let last = cluster.execution(publishing).await;
    assert_eq!((last.id, last.revision), (first.id, first.revision + 1));
    assert!(server.object(&first.id.to_string()).is_file());
}

/// `http-api.md`, "States and transitions": the end of the process is no event.
#[tokio::test]
async fn a_run_that_leaves_results_has_the_six_transitions_too() {
    let server = S3Server::start().await;
    let Some(cluster) = ClusterSpec::new().agent(s3_agent(&server.endpoint())).start().await else {
        return;
    };
    let s3 = json!({
        "Type": "s3",
        "Params": { "Bucket": BUCKET, "Key": "{executionID}", "Endpoint": server.endpoint() },
    });
    for publisher in [json!({ "Type": "" }), json!({ "Type": "local" }), s3] {
        let execution = cluster.run_one(&job_with_results(&cluster, &publisher)).await;
        let query = HistoryQuery {
            execution_id: Some(execution.id.to_string()),
            ..HistoryQuery::default()
        };
        let events = cluster.history(execution.job_id, &query).await;
        assert_eq!(transitions(&events), SIX_TRANSITIONS, "{publisher}: {events:?}");
        let revisions: Vec<_> = events.iter().map(|event| event.new_revision).collect();
        assert_eq!(revisions, [1, 2, 3, 4, 5, 6], "{publisher}");
        assert_eq!(execution.revision, 6, "{publisher}");
    }
}

/// The node's credentials are wrong.
#[tokio::test]
async fn a_task_whose_results_are_refused_ran_once() {
    let server = S3Server::start().await;
    let agent = s3_agent(&server.endpoint()).setting("AWS_SECRET_ACCESS_KEY", "wrong");
    let spec = ClusterSpec::new().agent(agent.clone()).agent(agent);
    let Some(cluster) = spec.start().await else { return };
    let publisher = json!({
        "Type": "s3",
        "Params": { "Bucket": BUCKET, "Key": "{executionID}", "Endpoint": server.endpoint() },
    });
    let mut job = job_with_results(&cluster, &publisher);
    job["RetryPolicy"] = json!({ "Attempts": 3 });
    let id = cluster.submit(&job).await;
    cluster.wait_for_job(id, JobStateType::Failed).await;
    let ending = cluster.ending(id).await;
    assert_eq!((ending.state, ending.executions), (JobStateType::Failed, 1), "it ran once");
    let execution = cluster.execution(id).await;
    assert!(execution.compute_state.message.contains("403"), "{:?}", execution.compute_state);
    let output = execution.run_output;
    assert_eq!((output.exit_code, output.stdout.as_str()), (0, "wrote 1 MB\n"));
}
