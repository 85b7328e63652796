//! Faults at one step of a daemon, by its failpoints.

use std::path::Path;

use api_types::engine::EngineType;
use api_types::execution::ComputeState;
use serde_json::json;
use tempfile::TempDir;
use tokio::process::Child;

use crate::daemon::{daemon, terminate};
use crate::node::{eventually, work};
use crate::orchestrator::{Orchestrator, PATIENCE};
use crate::programs::{printing, wasm_work};

/// A daemon with its directories, which outlive it.
struct Subject {
    orchestrator: Orchestrator,
    root: TempDir,
    /// In memory, as it has to be.
    secrets: TempDir,
}

impl Subject {
    async fn new() -> Self {
        Self {
            orchestrator: Orchestrator::start().await,
            root: tempfile::tempdir().expect("a directory"),
            secrets: tempfile::tempdir_in("/dev/shm").expect("a directory in memory"),
        }
    }

    async fn start(&self) -> Child {
        let runner = tokio::task::spawn_blocking(|| programs::binary("wasm-runner")).await;
        let mut command = daemon(&self.root.path().join("data"), &self.orchestrator.url());
        command
            .env("COMPUTE_AGENT_ENGINES", "noop,wasm")
            .env("COMPUTE_AGENT_WASM__RUNNER", runner.expect("the runner"))
            .env("COMPUTE_AGENT_SECRETS_DIR", self.secrets.path())
            .env(failpoint::DIRECTORY_VARIABLE, self.root.path());
        let agent = command.spawn().expect("the daemon starts");
        self.orchestrator.joined(|_| true).await;
        agent
    }

    /// Has the running daemon do this at a failpoint.
    async fn arm(&self, failpoint: &str) {
        let request = self.root.path().join("arm");
        std::fs::write(request.with_extension("new"), failpoint).expect("a request");
        std::fs::rename(request.with_extension("new"), &request).expect("a request");
        eventually("the failpoint to be armed", async || !request.exists()).await;
    }
}

fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).expect("a directory").next().is_none()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_the_engine_during_the_collection_costs_nothing() {
    let subject = Subject::new().await;
    let agent = subject.start().await;
    for (code, end) in [(0, ComputeState::Completed), (3, ComputeState::Failed)] {
        subject.arm("collect.before=2*return(error)").await;
        let id = subject.orchestrator.run(wasm_work(&printing("x", "", code), json!({}))).await;
        let report = subject.orchestrator.reported(id, end).await;
        let output = report.run_output.unwrap();
        assert_eq!((output.stdout.as_str(), output.exit_code), ("x", code.cast_signed()));
    }
    assert_eq!(terminate(agent).await.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_that_a_crash_left_of_a_finished_execution_go_with_the_next_start() {
    let subject = Subject::new().await;
    let mut agent = subject.start().await;
    subject.arm("docker.remove=return(crash)").await;
    let id = subject.orchestrator.run(work(EngineType::Noop, json!({}))).await;
    tokio::time::timeout(PATIENCE, agent.wait()).await.expect("it crashes").unwrap();
    // As the task of the execution had it.
    let files = subject.secrets.path().join(id.to_string()).join("files");
    std::fs::create_dir_all(&files).unwrap();
    std::fs::write(files.join("db"), "value").unwrap();

    let agent = subject.start().await;
    // It may have crashed before it said so.
    subject.orchestrator.reported(id, ComputeState::Completed).await;
    eventually("the secrets to go", async || is_empty(subject.secrets.path())).await;
    assert_eq!(terminate(agent).await.code(), Some(0));
}
