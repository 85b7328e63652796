//! Inputs that cannot be had, in the words that a user reads; and agents that die over data.

use api_client::HistoryQuery;
use api_types::execution::{ComputeState, Execution};
use api_types::job::JobStateType;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use peers::noise;
use peers::pages::{Page, Pages};
use peers::s3::{BUCKET, S3Server};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, batch, eventually};

use crate::sources::{open_agent, printed, reading, s3_agent};

/// The first execution of the job, which fails; its words are the same wherever a user looks.
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
    // It would be tried again on and on, as the node's failure.
    let _ = cluster.client().stop_job(id, "seen enough").await;
    let history = cluster
        .history(
            id,
            &HistoryQuery { execution_id: Some(first.id.to_string()), ..Default::default() },
        )
        .await;
    let told = first.run_output.runner_error.clone();
    assert_eq!(first.compute_state.message, told);
    assert!(history.iter().any(|event| event.comment.contains(&told)), "{history:#?}");
    (first, told)
}

#[tokio::test]
async fn what_is_missing_or_another_is_named() {
    let server = S3Server::start().await;
    server.put("object", b"content");
    let Some(cluster) = ClusterSpec::new().agent(s3_agent()).start().await else { return };
    let endpoint = server.endpoint();
    let absent = json!({ "Bucket": BUCKET, "Key": "absent", "Endpoint": endpoint });
    let (_, told) = first_failure(&cluster, &reading(&cluster, "s3", &absent, &["/in"])).await;
    let words = format!(
        "input 0 (s3, for '/in'): there is no object 'absent' in bucket 'bucket' at {endpoint}; \
         check Key and VersionID"
    );
    assert_eq!(told, words);
    let sum = |bytes: &[u8]| BASE64_STANDARD.encode(digest(&SHA256, bytes));
    let (is, wanted) = (sum(b"content"), sum(b"other"));
    let other = json!({
        "Bucket": BUCKET, "Key": "object", "Endpoint": endpoint, "ChecksumSHA256": wanted,
    });
    let (_, told) = first_failure(&cluster, &reading(&cluster, "s3", &other, &["/in"])).await;
    let words = format!(
        "input 0 (s3, for '/in'): object 'object' in bucket 'bucket' is not what was asked for: \
         its SHA-256 is {is}, the job's ChecksumSHA256 is {wanted}"
    );
    assert_eq!(told, words);
}

#[tokio::test]
async fn what_is_too_large_is_the_jobs_own_failure() {
    let pages = Pages::start().await;
    let bytes = noise(200_000).into();
    let url = pages.put("/large", Page { bytes, ..Page::default() });
    let Some(cluster) = ClusterSpec::new().agent(open_agent()).start().await else { return };
    let mut job = reading(&cluster, "urldownload", &json!({ "URL": url }), &["/in"]);
    job["Tasks"][0]["ResourcesConfig"] = json!({ "Disk": "100kB" });
    let id = cluster.submit(&job).await;
    cluster.job_in(id, JobStateType::Failed).await;
    let told = cluster.execution(id).await.run_output.runner_error;
    let words = "input 0 (urldownload, for '/in'): the inputs are larger than the 100 kB of the \
                 task's Resources.Disk; ask for more";
    assert_eq!(told, words);
}

#[tokio::test]
async fn an_address_that_is_not_public_is_refused_before_anything_is_asked_of_it() {
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
async fn a_connection_that_is_always_cut_is_given_up_with_the_reason() {
    let pages = Pages::start().await;
    let page = Page { bytes: noise(3).into(), cuts: usize::MAX, ..Page::default() };
    let url = pages.put("/cut", page);
    let Some(cluster) = ClusterSpec::new().agent(open_agent()).start().await else { return };
    let job = reading(&cluster, "urldownload", &json!({ "URL": url }), &["/in"]);
    let (_, told) = first_failure(&cluster, &job).await;
    let words = "input 0 (urldownload, for '/in'): the connection broke off after 0 bytes: ";
    assert!(told.starts_with(words) && told.ends_with("(tried 7 times)"), "{told}");
}

#[tokio::test]
async fn how_far_a_long_fetch_is_stands_in_the_history() {
    let pages = Pages::start().await;
    // A quarter comes, then the server says no more.
    let page = Page { bytes: noise(400_000).into(), stalls: usize::MAX, ..Page::default() };
    let url = pages.put("/slow", page);
    let Some(cluster) = ClusterSpec::new().agent(open_agent()).start().await else { return };
    let job = reading(&cluster, "urldownload", &json!({ "URL": url }), &["/in"]);
    let id = cluster.submit(&job).await;
    let words = "fetching input 0 (urldownload, for '/in'): 100 kB of 400 kB";
    eventually("it is told", async || {
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

/// Nothing of the execution's inputs and archive is left on the node's disk.
async fn nothing_is_left(cluster: &Cluster, data: &std::path::Path, execution: &Execution) {
    let dir = data.join("executions").join(execution.id.to_string());
    eventually("nothing is left", async || {
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
async fn an_agent_that_is_killed_while_it_fetches_fetches_anew_and_the_task_runs_once() {
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
    eventually("a part of it has come", async || {
        let execution = cluster.executions(id).await.pop().ok_or("none yet")?;
        let dir = data.path().join("executions").join(execution.id.to_string());
        match std::fs::metadata(dir.join("inputs/0/partial")) {
            Ok(part) if part.len() > 0 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    cluster.agents[0].kill();
    cluster.agents[0].start_again().await;
    cluster.job_in(id, JobStateType::Completed).await;
    let execution = cluster.execution(id).await;
    assert_eq!(execution.revision, 6, "it is the same run");
    assert_eq!(pages.page("/slow").requests, 2);
    nothing_is_left(&cluster, data.path(), &execution).await;
    assert!(printed(&cluster, &job).await == bytes);
}

#[tokio::test]
async fn an_agent_that_is_killed_while_it_publishes_publishes_once_and_leaves_nothing() {
    let server = S3Server::start().await;
    server.stall_puts(1);
    let data = tempfile::tempdir().unwrap();
    let path = data.path().display().to_string();
    let agent = s3_agent().setting("COMPUTE_AGENT_DATA_DIR", &path);
    let Some(mut cluster) = ClusterSpec::new().agent(agent).start().await else { return };
    let mut job = batch(&cluster.image, &["echo", "published"]);
    job["Tasks"][0]["Publisher"] = json!({
        "Type": "s3",
        "Params": { "Bucket": BUCKET, "Key": "r/{executionID}", "Endpoint": server.endpoint() },
    });
    let id = cluster.submit(&job).await;
    eventually("the archive is on its way", async || match server.stalled() {
        1 => Ok(()),
        other => Err(other.to_string()),
    })
    .await;
    cluster.agents[0].kill();
    cluster.agents[0].start_again().await;
    cluster.job_in(id, JobStateType::Completed).await;
    let execution = cluster.execution(id).await;
    assert_eq!(execution.revision, 6, "it is the same run");
    assert_eq!(execution.run_output.stdout, "published\n");
    let objects: Vec<_> = std::fs::read_dir(server.object("r"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(objects, [execution.id.to_string()]);
    nothing_is_left(&cluster, data.path(), &execution).await;
}
