//! Secrets: they reach their tasks, and nothing else.

use std::fs;
use std::path::Path;
use std::process::Command;

use api_client::HistoryQuery;
use api_types::JobId;
use api_types::execution::ComputeState;
use api_types::job::JobStateType;
use api_types::secret::PutSecret;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, TIMEOUT, batch, eventually};

use crate::programs;

/// With everything that is written differently in JSON and in URLs.
const VALUE: &str = "pa\"55/wörd\\with+everything~0123456789";

/// What is in every place that is searched, so that the search is known to find something.
pub(crate) const CANARY: &str = "canary-5d1c7f";

async fn put(cluster: &Cluster, name: &str, value: &str) {
    let body = PutSecret::of_bytes(value.as_bytes());
    cluster.client().put_secret(None, name, &body).await.expect("the secret is set");
}

fn with_secrets(mut job: Value, secrets: Value) -> Value {
    job["Tasks"][0]["Secrets"] = secrets;
    job
}

/// Prints its variables, then the file `key` in its first directory.
fn showing_module() -> Vec<u8> {
    wat::parse_str(
        r#"(module
          (import "wasi_snapshot_preview1" "fd_write"
            (func $write (param i32 i32 i32 i32) (result i32)))
          (import "wasi_snapshot_preview1" "fd_read"
            (func $read (param i32 i32 i32 i32) (result i32)))
          (import "wasi_snapshot_preview1" "path_open"
            (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
          (import "wasi_snapshot_preview1" "environ_sizes_get"
            (func $sizes (param i32 i32) (result i32)))
          (import "wasi_snapshot_preview1" "environ_get"
            (func $environ (param i32 i32) (result i32)))
          (memory (export "memory") 2)
          (data (i32.const 64) "key")
          (func $print (param $at i32) (param $length i32)
            (i32.store (i32.const 0) (local.get $at))
            (i32.store (i32.const 4) (local.get $length))
            (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))
          (func (export "_start")
            (drop (call $sizes (i32.const 16) (i32.const 20)))
            (drop (call $environ (i32.const 1024) (i32.const 4096)))
            (call $print (i32.const 4096) (i32.load (i32.const 20)))
            (drop (call $open (i32.const 3) (i32.const 0) (i32.const 64) (i32.const 3)
              (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 24)))
            (i32.store (i32.const 0) (i32.const 65536))
            (i32.store (i32.const 4) (i32.const 1024))
            (drop (call $read (i32.load (i32.const 24)) (i32.const 0) (i32.const 1) (i32.const 28)))
            (call $print (i32.const 65536) (i32.load (i32.const 28)))))"#,
    )
    .expect("a module")
}

/// The message of the execution's event that tells which secrets it received.
async fn received(cluster: &Cluster, job: JobId) -> String {
    let history = cluster.history(job, &HistoryQuery::default()).await;
    let told = history.into_iter().map(|event| event.comment);
    told.filter(|comment| comment.starts_with("received secret")).collect::<Vec<_>>().join("; ")
}

#[tokio::test]
async fn a_task_finds_its_secrets_in_files_and_variables() {
    let Some(cluster) = Cluster::with_agents(1).await else { return };
    put(&cluster, "db", VALUE).await;
    put(&cluster, "key", "of the task").await;
    let places = json!([
        { "Name": "db" },
        { "Name": "key", "Path": "/etc/app/key" },
        { "Name": "key", "Env": "KEY" },
    ]);
    let job = batch(&cluster.image, &["cat", "/run/secrets/db", "/etc/app/key"]);
    let id = cluster.submit(&with_secrets(job, places.clone())).await;
    cluster.wait_for_job(id, JobStateType::Completed).await;
    let execution = cluster.execution(id).await;
    assert_eq!(execution.run_output.stdout, format!("{VALUE}of the task"));
    let expected = "received secrets 'db' (version 1), 'key' (version 1), 'key' (version 1)";
    assert_eq!(received(&cluster, id).await, expected);

    let printed = cluster.run_one(&with_secrets(batch(&cluster.image, &["env"]), places)).await;
    let printed = printed.run_output.stdout;
    assert!(printed.lines().any(|line| line == "KEY=of the task"), "{printed}");

    // The next run gets the next value.
    put(&cluster, "key", "another").await;
    let job = batch(&cluster.image, &["cat", "/run/secrets/key"]);
    let id = cluster.submit(&with_secrets(job, json!([{ "Name": "key" }]))).await;
    cluster.wait_for_job(id, JobStateType::Completed).await;
    assert_eq!(cluster.execution(id).await.run_output.stdout, "another");
    assert_eq!(received(&cluster, id).await, "received secret 'key' (version 2)");
}

#[tokio::test]
async fn a_wasm_program_finds_its_secrets_and_they_stay_in_memory() {
    let agent = AgentSpec::new().engines("wasm");
    let mut cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    put(&cluster, "key", "shown by the program").await;
    put(&cluster, "quiet", VALUE).await;
    let secrets = json!([{ "Name": "key" }, { "Name": "key", "Env": "KEY" }]);
    let id = cluster.submit(&with_secrets(programs::job(&showing_module()), secrets)).await;
    cluster.wait_for_job(id, JobStateType::Completed).await;
    let printed = cluster.execution(id).await.run_output.stdout;
    let variables: Vec<_> = printed.split('\0').collect();
    assert!(variables.contains(&"KEY=shown by the program"), "{printed}");
    assert_eq!(variables.last(), Some(&"shown by the program"), "the file comes last");

    // While one runs, its value is in no file of the agent; another agent goes on with it.
    let secrets = json!([{ "Name": "quiet" }, { "Name": "quiet", "Env": "KEY" }]);
    let running = with_secrets(programs::job(&programs::ticking(40, 0)), secrets);
    let id = cluster.submit(&running).await;
    cluster.wait_for_execution(id, ComputeState::BidAccepted).await;
    cluster.agents[0].kill();
    assert_eq!(found(data_dir(&cluster), &forms(VALUE)), Vec::<String>::new());
    assert_ne!(found(data_dir(&cluster), &forms("shown by the program")), Vec::<String>::new());
    cluster.agents[0].restart().await;
    cluster.wait_for_job(id, JobStateType::Completed).await;
}

#[tokio::test]
async fn a_job_waits_for_a_secret_that_does_not_exist() {
    let agent = AgentSpec::new().engines("noop");
    let cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    let mut job = with_secrets(testbed::harness::noop(), json!([{ "Name": "late" }]));
    job["RetryPolicy"] = json!({ "Delay": 1, "MaxDelay": 1 });
    let id = cluster.submit(&job).await;
    eventually("the job says what it waits for", async || {
        let job = cluster.client().describe_job(id).await.map_err(|error| error.to_string())?;
        let message = job.state.message;
        match message.contains("secret 'late' does not exist in namespace 'default'") {
            true => Ok(()),
            false => Err(message),
        }
    })
    .await;
    put(&cluster, "late", "here").await;
    cluster.wait_for_job(id, JobStateType::Completed).await;
    let node = cluster.client().describe_node(cluster.agents[0].node_id()).await.expect("the node");
    assert_eq!(node.health.reason, "", "the node is not to blame");
}

#[tokio::test]
async fn an_agent_that_is_killed_before_the_start_asks_again() {
    let Some(mut cluster) = Cluster::with_agents(1).await else { return };
    put(&cluster, "db", "first").await;
    cluster.agents[0].failpoints().arm("docker.create", "crash").await;
    let job = batch(&cluster.image, &["cat", "/run/secrets/db"]);
    let id = cluster.submit(&with_secrets(job, json!([{ "Name": "db" }]))).await;
    eventually("the agent ends before it makes the container", async || {
        let hits = cluster.agents[0].failpoints().hits("docker.create", "crash");
        (hits == 1).then_some(()).ok_or_else(|| "it does not".to_owned())
    })
    .await;
    put(&cluster, "db", "second").await;
    let ended = async {
        while !cluster.agents[0].restart_if_crashed().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TIMEOUT, ended).await.expect("it ends");
    cluster.wait_for_job(id, JobStateType::Completed).await;
    assert_eq!(cluster.execution(id).await.run_output.stdout, "second");
    let told = received(&cluster, id).await;
    assert!(told.ends_with("received secret 'db' (version 2)"), "{told}");
}

#[tokio::test]
async fn a_value_is_nowhere_but_in_its_task() {
    let agent = AgentSpec::new().setting("RUST_LOG", "trace");
    let cluster = ClusterSpec::new().setting("RUST_LOG", "trace").agent(agent).start().await;
    let Some(cluster) = cluster else { return };
    put(&cluster, "db", VALUE).await;
    let mut job = with_secrets(batch(&cluster.image, &["wc", "/run"]), json!([{ "Name": "db" }]));
    job["Name"] = json!(CANARY);
    let id = cluster.submit(&job).await;
    cluster.wait_for_job(id, JobStateType::Completed).await;
    let counted = cluster.execution(id).await.run_output.stdout;
    assert!(counted.contains(&VALUE.len().to_string()), "the task had it: {counted}");

    // And one that runs, of which the Engine tells.
    let mut running =
        with_secrets(batch(&cluster.image, &["sleep", "600"]), json!([{ "Name": "db" }]));
    running["Name"] = json!(CANARY);
    let runs = cluster.submit(&running).await;
    cluster.wait_for_execution(runs, ComputeState::BidAccepted).await;

    assert_nowhere(&cluster, id, VALUE).await;
    cluster.client().stop_job(runs, "").await.expect("it is stopped");
    cluster.no_container_left().await;
}

/// Searches everything that could have kept a value that a job with the name [`CANARY`] has used,
/// while another one of this name runs.
pub(crate) async fn assert_nowhere(cluster: &Cluster, id: JobId, value: &str) {
    let mut places = vec![
        ("the orchestrator's log", cluster.orchestrator.log()),
        ("the agent's log", cluster.agents[0].log()),
        ("docker inspect", inspected(cluster).await),
    ];
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    for path in [
        "/metrics".to_owned(),
        format!("/api/v1/orchestrator/jobs/{id}"),
        format!("/api/v1/orchestrator/jobs/{id}/executions"),
        format!("/api/v1/orchestrator/jobs/{id}/history"),
        format!("/api/v1/orchestrator/jobs/{id}/explain"),
        "/api/v1/orchestrator/secrets".to_owned(),
        "/api/v1/orchestrator/credentials".to_owned(),
        "/api/v1/orchestrator/nodes".to_owned(),
    ] {
        let url = format!("{}{path}", cluster.client().base_url());
        let text = http.get(url).send().await.expect("an answer").text().await.expect("a body");
        places.push(("the API", text));
    }
    let forms = forms(value);
    for (place, text) in &places {
        for (form, pattern) in &forms {
            assert!(!contains(text.as_bytes(), pattern), "{place} has the value in {form}");
        }
    }
    // Each has what it should have, so that the search is known to find something there.
    let job = id.to_string();
    for (place, canary) in [
        ("the orchestrator's log", job.as_str()),
        ("the agent's log", job.as_str()),
        ("docker inspect", CANARY),
        ("the API", CANARY),
    ] {
        let is_there = places.iter().any(|(name, text)| *name == place && text.contains(canary));
        assert!(is_there, "{place} has no {canary}");
    }
    let orchestrators = cluster.orchestrator.data_dir();
    for directory in [orchestrators, data_dir(cluster)] {
        assert_eq!(found(directory, &forms), Vec::<String>::new());
        let canary = [("plain".to_owned(), CANARY.as_bytes().to_vec())];
        assert_ne!(found(directory, &canary), Vec::<String>::new(), "{directory:?}");
    }
}

fn data_dir(cluster: &Cluster) -> &Path {
    cluster.agents[0].data_dir()
}

async fn inspected(cluster: &Cluster) -> String {
    let containers = cluster.containers().await;
    let ids = containers.iter().map(|container| container.id.clone());
    let output = Command::new("docker").arg("inspect").args(ids).output().expect("docker inspect");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// How a value may be written.
fn forms(value: &str) -> Vec<(String, Vec<u8>)> {
    let json = serde_json::to_string(value).expect("a text");
    let hex: String = value.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut forms = vec![
        ("plain".to_owned(), value.as_bytes().to_vec()),
        ("JSON".to_owned(), json.trim_matches('"').as_bytes().to_vec()),
        ("JSON in JSON".to_owned(), json[1..json.len() - 1].escape_default().to_string().into()),
        ("hex".to_owned(), hex.clone().into()),
        ("HEX".to_owned(), hex.to_uppercase().into()),
    ];
    // What comes before it shifts base64 by up to two bytes; its edges mix with its neighbours.
    for shift in 0..3 {
        let padded = [&vec![0; shift], value.as_bytes()].concat();
        let whole = padded.len() / 3 * 3;
        let edge = if shift == 0 { 0 } else { 4 };
        for (name, text) in [
            ("base64", STANDARD_NO_PAD.encode(&padded[..whole])),
            ("base64url", URL_SAFE_NO_PAD.encode(&padded[..whole])),
        ] {
            forms.push((format!("{name} + {shift}"), text.as_bytes()[edge..].to_vec()));
        }
    }
    forms
}

fn contains(bytes: &[u8], pattern: &[u8]) -> bool {
    !pattern.is_empty() && bytes.windows(pattern.len()).any(|part| part == pattern)
}

/// The files below the directory that have one of the forms.
fn found(directory: &Path, forms: &[(String, Vec<u8>)]) -> Vec<String> {
    let mut hits = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(next) = directories.pop() {
        for entry in fs::read_dir(&next).expect("a directory").flatten() {
            let (path, kind) = (entry.path(), entry.file_type().expect("a kind"));
            if kind.is_dir() {
                directories.push(path);
            } else if kind.is_file() {
                let bytes = fs::read(&path).unwrap_or_default();
                let forms = forms.iter().filter(|(_, pattern)| contains(&bytes, pattern));
                hits.extend(forms.map(|(form, _)| format!("{} ({form})", path.display())));
            }
        }
    }
    hits
}

#[test]
fn every_form_of_a_value_is_found() {
    let directory = tempfile::tempdir().expect("a directory");
    for (name, text) in [
        ("raw", format!("xx{VALUE}yy")),
        ("json", serde_json::to_string(&json!({ "a": VALUE })).expect("JSON")),
        ("base64", STANDARD_NO_PAD.encode(format!("{{\"a\":{VALUE}}}"))),
        ("base64-1", STANDARD_NO_PAD.encode(format!("x{VALUE}"))),
        ("base64-2", URL_SAFE_NO_PAD.encode(format!("xy{VALUE}z"))),
        ("hex", VALUE.bytes().map(|byte| format!("{byte:02x}")).collect()),
    ] {
        fs::write(directory.path().join(name), text).expect("written");
        let hits = found(directory.path(), &forms(VALUE));
        assert!(hits.iter().any(|hit| hit.contains(&format!("/{name} ("))), "{name}: {hits:?}");
    }
}
