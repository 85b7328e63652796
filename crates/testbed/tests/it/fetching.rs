//! Error messages of unavailable inputs, and agents that crash during transfers.

use std::time::{Duration, Instant};

use api_client::HistoryQuery;
use api_types::execution::{ComputeState, Execution};
use api_types::job::JobStateType;
use api_types::node::HealthState;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use failpoint::CRASH;
use peers::forge::{Forge, Service};
use peers::noise;
use peers::pages::{Page, Pages};
use peers::s3::{BUCKET, S3Server};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, batch, eventually};

use crate::sources::{open_agent, printed, reading, s3_agent};

/// The failed first execution of a job, and its message, which is the same in all records.
async fn first_failure(cluster: &Cluster, job: &Value) -> (Execution, String) {
    let id = cluster.submit(job).await;
    let first = eventually("the first execution has failed", async || {
        match cluster.executions(id).await.first() {
            Some(first) if first.compute_state.state_type == ComputeState::Failed => {
                Ok(first.clone())
            }
            other => Err(format!("{:?}", other.map(|one| &one.compute_state))),
        }
    })
    .await;
    // Otherwise the job would be retried endlessly as a failure of the node.
    let _ = cluster.client().stop_job(id, "seen enough").await;
    let history = cluster
        .history(
            id,
            &HistoryQuery { execution_id: Some(first.id.to_string()), ..Default::default() },
        )
        .await;
    let message = first.run_output.runner_error.clone();
    assert_eq!(first.compute_state.message, message);
    assert!(history.iter().any(|event| event.comment.contains(&message)), "{history:#?}");
    (first, message)
}

#[tokio::test]
async fn a_missing_or_different_object_is_named() {
    let server = S3Server::start().await;
    server.put("object", b"content");
    let Some(cluster) = ClusterSpec::new().agent(s3_agent(&server.endpoint())).start().await else {
        return;
    };
    let endpoint = server.endpoint();
    let absent = json!({ "Bucket": BUCKET, "Key": "absent", "Endpoint": endpoint });
    let (_, message) = first_failure(&cluster, &reading(&cluster, "s3", &absent, &["/in"])).await;
    let words = format!(
        "input 0 (s3, for '/in'): there is no object 'absent' in bucket 'bucket' at {endpoint}; \
         check Key and VersionID"
    );
    assert_eq!(message, words);
    let sum = |bytes: &[u8]| BASE64_STANDARD.encode(digest(&SHA256, bytes));
    let (is, wanted) = (sum(b"content"), sum(b"other"));
    let other = json!({
        "Bucket": BUCKET, "Key": "object", "Endpoint": endpoint, "ChecksumSHA256": wanted,
    });
    let (_, message) = first_failure(&cluster, &reading(&cluster, "s3", &other, &["/in"])).await;
    let words = format!(
        "input 0 (s3, for '/in'): object 'object' in bucket 'bucket' is not what was asked for: \
         its SHA-256 is {is}, the job's ChecksumSHA256 is {wanted}"
    );
    assert_eq!(message, words);
}

/// A server knows commits by their whole IDs alone, so another try would hear the same.
#[tokio::test]
async fn an_abbreviated_commit_fails_its_job_within_a_minute() {
    let Some(forge) = Forge::new() else { return };
    let commit = forge.commit("file", b"content", "main");
    let (url, _serving) = forge.serve(Service::Smart).await;
    let Some(cluster) = ClusterSpec::new().agent(open_agent()).start().await else { return };
    let short = &commit[..7];
    let params = json!({ "Repo": url, "Ref": short });
    let begin = Instant::now();
    let id = cluster.submit(&reading(&cluster, "repoclone", &params, &["/in/file"])).await;
    let job = cluster.wait_for_job(id, JobStateType::Failed).await;
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
    let why = format!("has no branch or tag '{short}'; check Ref (a commit needs its whole id)");
    assert!(job.state.message.contains(&why), "{}", job.state.message);
    assert!(job.state.message.contains("definite"), "{}", job.state.message);
    let health = cluster.client().describe_node(cluster.agents[0].node_id()).await;
    assert_eq!(health.expect("the node").health.state, HealthState::Healthy);
}

#[tokio::test]
async fn an_input_that_is_too_large_is_the_jobs_own_failure() {
    let pages = Pages::start().await;
    let bytes = noise(200_000).into();
    let url = pages.put("/large", Page { bytes, ..Page::default() });
    let Some(cluster) = ClusterSpec::new().agent(open_agent()).start().await else { return };
    let mut job = reading(&cluster, "urldownload", &json!({ "URL": url }), &["/in"]);
    job["Tasks"][0]["ResourcesConfig"] = json!({ "Disk": "100kB" });
    let id = cluster.submit(&job).await;
    cluster.wait_for_job(id, JobStateType::Failed).await;
    let message = cluster.execution(id).await.run_output.runner_error;
    let words = "input 0 (urldownload, for '/in'): the inputs are larger than the 100 kB of the \
                 task's Resources.Disk; ask for more";
    assert_eq!(message, words);
}

#[tokio::test]
async fn a_private_address_is_refused_before_any_request() {
    let pages = Pages::start().await;
    let url = pages.put("/secret", Page::default());
    let Some(cluster) = ClusterSpec::new().agent(AgentSpec::new()).start().await else { return };
    let id =
        cluster.submit(&reading(&cluster, "urldownload", &json!({ "URL": url }), &["/in"])).await;
    let comment = eventually("the node declines", async || {
        let history = cluster.history(id, &HistoryQuery::default()).await;
        let declined = history.iter().find(|event| {
            let state = event.execution_state.as_ref();
            state.is_some_and(|state| state.new == ComputeState::AskForBidRejected)
        });
        declined.map(|event| event.comment.clone()).ok_or_else(|| format!("{history:?}"))
    })
    .await;
    let words = "input 0 (urldownload): '127.0.0.1' leads to 127.0.0.1, a loopback address, which \
                 this node's settings do not allow (allow_private_addresses)";
    assert!(comment.contains(words), "{comment}");
    assert_eq!(pages.page("/secret").requests, 0);
}

#[tokio::test]
async fn a_connection_that_always_breaks_fails_with_the_reason() {
    let pages = Pages::start().await;
    let page = Page { bytes: noise(3).into(), cuts: usize::MAX, ..Page::default() };
    let url = pages.put("/cut", page);
    let Some(cluster) = ClusterSpec::new().agent(open_agent()).start().await else { return };
    let job = reading(&cluster, "urldownload", &json!({ "URL": url }), &["/in"]);
    let (_, message) = first_failure(&cluster, &job).await;
    let words = "input 0 (urldownload, for '/in'): the connection broke off after 0 bytes: ";
    assert!(message.starts_with(words) && message.ends_with("(tried 7 times)"), "{message}");
}

#[tokio::test]
async fn the_history_shows_the_progress_of_a_long_fetch() {
    let pages = Pages::start().await;
    // The server sends a quarter and then stalls.
    let page = Page { bytes: noise(400_000).into(), stalls: usize::MAX, ..Page::default() };
    let url = pages.put("/slow", page);
    let Some(cluster) = ClusterSpec::new().agent(open_agent()).start().await else { return };
    let job = reading(&cluster, "urldownload", &json!({ "URL": url }), &["/in"]);
    let id = cluster.submit(&job).await;
    let words = "fetching input 0 (urldownload, for '/in'): 100 kB of 400 kB";
    eventually("the progress is recorded", async || {
        let history = cluster.history(id, &HistoryQuery::default()).await;
        match history.iter().any(|event| event.comment == words) {
            true => Ok(()),
            false => Err(format!("{history:?}")),
        }
    })
    .await;
    cluster.client().stop_job(id, "seen enough").await.unwrap();
    cluster.no_container_left().await;
}

/// Waits until the execution's inputs and archive are removed from the node's disk.
async fn wait_until_removed(cluster: &Cluster, data: &std::path::Path, execution: &Execution) {
    let dir = data.join("executions").join(execution.id.to_string());
    eventually("inputs and archive are removed", async || {
        let left: Vec<_> = ["inputs", "archive.tar.gz"]
            .into_iter()
            .filter(|name| dir.join(name).exists())
            .collect();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    cluster.no_container_left().await;
}

#[tokio::test]
async fn an_agent_killed_during_a_fetch_fetches_again_and_the_task_runs_once() {
    let pages = Pages::start().await;
    let bytes = noise(400_000);
    let page = Page { bytes: bytes.clone().into(), stalls: 1, ..Page::default() };
    let url = pages.put("/slow", page);
    let data = tempfile::tempdir().unwrap();
    let path = data.path().display().to_string();
    let agent = open_agent().setting("COMPUTE_AGENT_DATA_DIR", &path);
    let Some(mut cluster) = ClusterSpec::new().agent(agent).start().await else { return };
    let job = reading(&cluster, "urldownload", &json!({ "URL": url }), &["/in"]);
    let id = cluster.submit(&job).await;
    eventually("a part is downloaded", async || {
        let execution = cluster.executions(id).await.pop().ok_or("none yet")?;
        let dir = data.path().join("executions").join(execution.id.to_string());
        match std::fs::metadata(dir.join("inputs/0/partial")) {
            Ok(part) if part.len() > 0 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    cluster.agents[0].kill();
    cluster.agents[0].restart().await;
    cluster.wait_for_job(id, JobStateType::Completed).await;
    let execution = cluster.execution(id).await;
    assert_eq!(execution.revision, 6, "the execution is the same");
    assert_eq!(pages.page("/slow").requests, 2);
    wait_until_removed(&cluster, data.path(), &execution).await;
    assert!(printed(&cluster, &job).await == bytes);
}

/// The git processes of this machine that work for a repository.
fn git_processes(repository: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").expect("processes").flatten();
    let arguments = processes.filter_map(|process| {
        let bytes = std::fs::read(process.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&bytes).replace('\0', " "))
    });
    arguments.filter(|line| line.starts_with("git") && line.contains(repository)).collect()
}

#[tokio::test]
async fn git_ends_with_its_agent_however_that_ends() {
    let pages = Pages::start().await;
    // A server that never says all that it has.
    let page = Page { bytes: noise(400_000).into(), stalls: usize::MAX, ..Page::default() };
    let url = pages.put("/r.git/info/refs", page).replace("/info/refs", "");
    let Some(mut cluster) = ClusterSpec::new().agent(open_agent()).start().await else { return };
    let job = reading(&cluster, "repoclone", &json!({ "Repo": url }), &["/in"]);
    let id = cluster.submit(&job).await;
    eventually("git asks for the repository", async || match git_processes(&url).as_slice() {
        [] => Err("no git".to_owned()),
        _ => Ok(()),
    })
    .await;
    cluster.agents[0].kill();
    eventually("git has ended", async || {
        let left = git_processes(&url);
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    cluster.agents[0].restart().await;
    cluster.client().stop_job(id, "seen enough").await.unwrap();
}

#[tokio::test]
async fn inputs_of_an_execution_that_is_done_are_removed_after_a_crash() {
    let pages = Pages::start().await;
    let url = pages.put("/input", Page { bytes: noise(1000).into(), ..Page::default() });
    let data = tempfile::tempdir().unwrap();
    let path = data.path().display().to_string();
    let agent = open_agent().setting("COMPUTE_AGENT_DATA_DIR", &path);
    let Some(mut cluster) = ClusterSpec::new().agent(agent).start().await else { return };
    // It ends between the end of the execution and the removal of what it needed.
    cluster.agents[0].failpoints().arm("docker.remove", CRASH).await;
    let job = reading(&cluster, "urldownload", &json!({ "URL": url }), &["/in"]);
    let id = cluster.submit(&job).await;
    eventually("the agent has crashed", async || {
        match cluster.agents[0].failpoints().hits("docker.remove", CRASH) {
            0 => Err("not yet".to_owned()),
            _ => Ok(()),
        }
    })
    .await;
    let execution = cluster.execution(id).await;
    let inputs = data.path().join("executions").join(execution.id.to_string()).join("inputs");
    assert!(inputs.exists());
    cluster.agents[0].kill();
    cluster.agents[0].restart().await;
    cluster.wait_for_job(id, JobStateType::Completed).await;
    wait_until_removed(&cluster, data.path(), &execution).await;
}

#[tokio::test]
async fn an_agent_killed_during_publishing_publishes_once_and_leaves_nothing() {
    let server = S3Server::start().await;
    server.stall_puts(1);
    let data = tempfile::tempdir().unwrap();
    let path = data.path().display().to_string();
    let agent = s3_agent(&server.endpoint()).setting("COMPUTE_AGENT_DATA_DIR", &path);
    let Some(mut cluster) = ClusterSpec::new().agent(agent).start().await else { return };
    let mut job = batch(&cluster.image, &["echo", "published"]);
    job["Tasks"][0]["Publisher"] = json!({
        "Type": "s3",
        "Params": { "Bucket": BUCKET, "Key": "r/{executionID}", "Endpoint": server.endpoint() },
    });
    let id = cluster.submit(&job).await;
    eventually("the upload has begun", async || match server.stalled() {
        1 => Ok(()),
        other => Err(other.to_string()),
    })
    .await;
    cluster.agents[0].kill();
    cluster.agents[0].restart().await;
    cluster.wait_for_job(id, JobStateType::Completed).await;
    let execution = cluster.execution(id).await;
    assert_eq!(execution.revision, 6, "the execution is the same");
    assert_eq!(execution.run_output.stdout, "published\n");
    let objects: Vec<_> = std::fs::read_dir(server.object("r"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(objects, [execution.id.to_string()]);
    wait_until_removed(&cluster, data.path(), &execution).await;
}
