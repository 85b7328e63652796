//! Credentials: jobs read and write with them elsewhere, and they are nowhere else.

use std::time::Duration;

use api_types::credential::{Login, PutCredential};
use api_types::execution::ComputeState;
use api_types::job::JobStateType;
use peers::pages::{Page, Pages};
use peers::s3::{BUCKET, KEY_ID, S3Server, SECRET};
use serde_json::{Value, json};
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, batch, eventually};

use crate::secrets::{CANARY, assert_nowhere};

/// With everything that is written differently in JSON and in URLs, as far as a header allows it.
const TOKEN: &str = "t0k\"en/wi\\th+everything~0123456789";

fn bearer(host: String, token: &str) -> PutCredential {
    PutCredential {
        credential_type: "http".to_owned(),
        hosts: vec![host],
        login: Login { token: token.to_owned(), ..Login::default() },
        ..PutCredential::default()
    }
}

async fn put(cluster: &Cluster, name: &str, credential: &PutCredential) {
    cluster.client().put_credential(None, name, credential).await.expect("they are set");
}

/// An agent that may reach this machine, and has no credentials.
fn spec(agent: AgentSpec) -> ClusterSpec {
    ClusterSpec::new().agent(agent.setting("COMPUTE_AGENT_ALLOW_PRIVATE_ADDRESSES", "true"))
}

fn download(pages: &Pages, path: &str) -> Value {
    let params = json!({ "URL": pages.url(path), "Credentials": "files" });
    json!({ "Source": { "Type": "urldownload", "Params": params }, "Target": "/in/" })
}

fn private(bytes: &'static str) -> Page {
    let login = Some(format!("Bearer {TOKEN}"));
    Page { bytes: bytes.into(), login, ..Page::default() }
}

/// What the store asks for.
fn keys(store: &S3Server) -> PutCredential {
    let login = Login {
        access_key_id: KEY_ID.to_owned(),
        secret_access_key: SECRET.to_owned(),
        ..Login::default()
    };
    PutCredential {
        credential_type: "s3".to_owned(),
        hosts: vec![store.endpoint().replace("http://", "")],
        buckets: vec![BUCKET.to_owned()],
        login,
    }
}

fn object(store: &S3Server, key: &str) -> Value {
    let params = json!({
        "Bucket": BUCKET, "Key": key, "Endpoint": store.endpoint(), "Credentials": "store",
    });
    json!({ "Type": "s3", "Params": params })
}

#[tokio::test]
async fn results_wait_for_the_publishers_credentials_and_need_no_others() {
    let Some(cluster) = spec(AgentSpec::new()).start().await else { return };
    let (pages, store) = (Pages::start().await, S3Server::start().await);
    pages.put("/data", private("from the web"));
    put(&cluster, "files", &bearer(pages.address().to_string(), TOKEN)).await;
    put(&cluster, "store", &keys(&store)).await;
    let mut job = batch(&cluster.image, &["await"]);
    job["Tasks"][0]["InputSources"] = json!([download(&pages, "/data")]);
    job["Tasks"][0]["Publisher"] = object(&store, "results/{executionID}.tar.gz");
    let id = cluster.submit(&job).await;
    cluster.wait_for_execution(id, ComputeState::BidAccepted).await;
    for name in ["files", "store"] {
        cluster.client().delete_credential(None, name).await.expect("they are deleted");
    }
    cluster.signal(id).await;
    eventually("the results are collected", async || {
        let execution = cluster.execution(id).await;
        match execution.compute_state.message.as_str() {
            message if message.contains("results are being collected") => Ok(()),
            message => Err(message.to_owned()),
        }
    })
    .await;
    // Longer than the first of its tries.
    tokio::time::sleep(Duration::from_secs(1)).await;
    put(&cluster, "store", &keys(&store)).await;
    cluster.wait_for_job(id, JobStateType::Completed).await;
    let execution = cluster.execution(id).await;
    assert!(store.object(&format!("results/{}.tar.gz", execution.id)).is_file());
}

#[tokio::test]
async fn a_job_reads_and_writes_with_credentials_that_are_nowhere_else() {
    let agent = AgentSpec::new().setting("RUST_LOG", "trace");
    let Some(cluster) = spec(agent).setting("RUST_LOG", "trace").start().await else { return };
    let (pages, store) = (Pages::start().await, S3Server::start().await);
    pages.put("/data", private("from the web "));
    store.put("data", b"from the bucket");
    put(&cluster, "files", &bearer(pages.address().to_string(), TOKEN)).await;
    put(&cluster, "store", &keys(&store)).await;
    let object = |key: &str| object(&store, key);
    let mut job = batch(&cluster.image, &["cat", "/in/data", "/bucket/data"]);
    job["Name"] = json!(CANARY);
    job["Tasks"][0]["InputSources"] =
        json!([download(&pages, "/data"), { "Source": object("data"), "Target": "/bucket/" }]);
    job["Tasks"][0]["Publisher"] = object("results/{executionID}.tar.gz");
    let id = cluster.submit(&job).await;
    cluster.wait_for_job(id, JobStateType::Completed).await;
    let execution = cluster.execution(id).await;
    assert_eq!(execution.run_output.stdout, "from the web from the bucket");
    assert!(store.object(&format!("results/{}.tar.gz", execution.id)).is_file());

    // While another one of them runs, the login is in no file, log or answer.
    let mut running = batch(&cluster.image, &["sleep", "600"]);
    running["Name"] = json!(CANARY);
    running["Tasks"][0]["InputSources"] = json!([download(&pages, "/data")]);
    let runs = cluster.submit(&running).await;
    cluster.wait_for_execution(runs, ComputeState::BidAccepted).await;
    eventually("the task runs", async || {
        let count = cluster.containers().await.len();
        (count > 0).then_some(()).ok_or_else(|| "there is no container".to_owned())
    })
    .await;
    assert_nowhere(&cluster, id, TOKEN).await;
    cluster.client().stop_job(runs, "").await.expect("it is stopped");
    cluster.no_container_left().await;
}

#[tokio::test]
async fn a_job_waits_for_credentials_and_starts_as_soon_as_they_are_there() {
    let cluster = spec(AgentSpec::new().engines("noop")).start_without_docker().await;
    let pages = Pages::start().await;
    pages.put("/data", private("here"));
    let mut job = testbed::harness::noop();
    job["Tasks"][0]["InputSources"] = json!([download(&pages, "/data")]);
    job["RetryPolicy"] = json!({ "Delay": 1, "MaxDelay": 1 });
    let id = cluster.submit(&job).await;
    let waits_for = async |words: &str| {
        eventually(words, async || {
            let job = cluster.client().describe_job(id).await.map_err(|error| error.to_string())?;
            let message = job.state.message;
            let state = job.state.state_type;
            if message.contains(words) { Ok(()) } else { Err(format!("{state:?} {message}")) }
        })
        .await;
    };
    waits_for("credentials 'files' do not exist in namespace 'default'").await;
    let host = pages.address().to_string();
    put(&cluster, "files", &bearer("h.example".to_owned(), TOKEN)).await;
    waits_for("credentials 'files' are not for 127.0.0.1").await;
    put(&cluster, "files", &bearer(host, TOKEN)).await;
    cluster.wait_for_job(id, JobStateType::Completed).await;
    let node = cluster.client().describe_node(cluster.agents[0].node_id()).await.expect("the node");
    assert_eq!(node.health.reason, "", "the node is not to blame");
}
