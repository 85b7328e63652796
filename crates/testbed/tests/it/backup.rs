//! Backups of a running service, and what is found again after a restore.

use std::path::Path;
use std::process::Output;

use api_types::execution::ComputeState;
use api_types::job::JobStateType;
use programs::binary;
use serde_json::json;
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, batch, eventually};
use tokio::process::Command;

/// Runs a command of the orchestrator's program against this data directory.
async fn run(arguments: [&str; 2], data_dir: &Path) -> Output {
    Command::new(binary("orchestrator"))
        .args(arguments)
        .env("ORCHESTRATOR_DATA_DIR", data_dir)
        .kill_on_drop(true)
        .output()
        .await
        .expect("run the orchestrator's program")
}

/// As an argument or the value of a variable.
fn text(path: &Path) -> &str {
    path.to_str().expect("temporary directories have plain names")
}

/// What it said, of one that succeeded.
fn said(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {stderr}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Ends the service, and starts it on what was restored from the backup.
async fn restore(cluster: &mut Cluster, backup: &Path, data_dir: &Path) {
    cluster.orchestrator.kill();
    let told = said(&run(["restore", text(backup)], data_dir).await);
    assert!(told.contains("are valid again"), "{told}");
    cluster.orchestrator.set_variable("ORCHESTRATOR_DATA_DIR", text(data_dir));
    cluster.orchestrator.restart().await;
}

#[tokio::test]
async fn a_service_that_started_after_the_backup_is_found_in_its_container() {
    let spec = ClusterSpec::new().setting("ORCHESTRATOR_NODE_TTL", "60");
    let Some(mut cluster) = spec.agent(AgentSpec::new()).start().await else { return };
    let ended = cluster.run_one(&batch(&cluster.image, &["echo", "before"])).await;
    let mut service = batch(&cluster.image, &["await"]);
    service["Type"] = json!("service");
    // The node has the offer, and answers it after the backup.
    cluster.agents[0].pause();
    let job = cluster.submit(&service).await;
    let offered = cluster.wait_for_execution(job, ComputeState::AskForBid).await;
    let directory = tempfile::tempdir().unwrap();
    let (backup, data_dir) = (directory.path().join("backup"), directory.path().join("restored"));
    let told = run(["backup", text(&backup)], cluster.orchestrator.data_dir()).await;
    assert!(said(&told).contains("2 jobs"), "{told:?}");
    said(&run(["check", text(&backup)], &data_dir).await);
    cluster.agents[0].resume();
    cluster.wait_for_job(job, JobStateType::Running).await;
    let ids = async |cluster: &Cluster| {
        let containers = cluster.containers().await;
        containers.into_iter().map(|container| container.id).collect::<Vec<_>>()
    };
    let containers = ids(&cluster).await;
    assert_eq!(containers.len(), 1);

    restore(&mut cluster, &backup, &data_dir).await;
    eventually("the service runs", async || {
        let found = cluster.execution(job).await;
        match found.compute_state.state_type {
            ComputeState::BidAccepted if found.id == offered.id => Ok(()),
            state => Err(format!("{state:?}")),
        }
    })
    .await;
    assert_eq!(ids(&cluster).await, containers, "it was not started again");
    let before = cluster.client().describe_execution(ended.id).await.unwrap();
    assert_eq!(before.run_output.stdout, "before\n");
    cluster.client().stop_job(job, "").await.unwrap();
    cluster.wait_for_job(job, JobStateType::Stopped).await;
    cluster.no_container_left().await;
}

#[tokio::test]
async fn a_restore_needs_an_empty_directory_and_the_key_of_the_backup() {
    let cluster = ClusterSpec::new().protected().start_without_agents().await;
    let directory = tempfile::tempdir().unwrap();
    let (backup, data_dir) = (directory.path().join("backup"), directory.path().join("restored"));
    let service = cluster.orchestrator.data_dir();
    let named = text(&backup);
    let told = said(&run(["backup", named], service).await);
    assert!(told.contains("a restore requires the cluster key"), "{told}");
    let mut files: Vec<_> = std::fs::read_dir(&backup)
        .unwrap()
        .map(|entry| entry.unwrap())
        .inspect(|entry| {
            use std::os::unix::fs::PermissionsExt;
            let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{entry:?}");
        })
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    files.sort();
    assert_eq!(files, ["backup.json", "identity.json", "orchestrator.db"]);

    let refused = async |data_dir: &Path, why: &str| {
        let output = run(["restore", named], data_dir).await;
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && stderr.contains(why), "{stderr}");
    };
    refused(&data_dir, "copy that key there first").await;
    refused(service, "is not empty: it holds").await;
    let key = data_dir.join("cluster.key");
    std::fs::write(&key, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n").unwrap();
    refused(&data_dir, "was encrypted with the cluster key").await;
    assert!(!data_dir.join("orchestrator.db").exists(), "nothing was restored");
    std::fs::copy(service.join("cluster.key"), &key).unwrap();
    said(&run(["restore", named], &data_dir).await);
    assert!(data_dir.join("orchestrator.db").exists());
    refused(&data_dir, "is not empty: it holds").await;
}
