//! The daemon as a process: its exit codes, and what a signal does.

use std::path::Path;
use std::process::{ExitStatus, Stdio};

use api_types::engine::EngineType;
use api_types::execution::ComputeState;
use serde_json::json;
use tokio::process::Command;

use crate::node::{DockerNode, work};
use crate::orchestrator::{Orchestrator, PATIENCE};

pub(crate) fn daemon(data_dir: &Path, orchestrator: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_compute-agent"));
    command
        .env("COMPUTE_AGENT_LISTEN", "127.0.0.1:0")
        .env("COMPUTE_AGENT_DATA_DIR", data_dir)
        .env("COMPUTE_AGENT_ORCHESTRATOR", orchestrator)
        .env("COMPUTE_AGENT_ENGINES", "noop,docker")
        .env("COMPUTE_AGENT_DOCKER__SANDBOX_POOL", "0")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// Its exit code and its output.
async fn end_of(mut command: Command) -> (Option<i32>, String) {
    let output = tokio::time::timeout(PATIENCE, command.output()).await;
    let output = output.expect("it ends").expect("it starts");
    (output.status.code(), String::from_utf8(output.stderr).expect("text"))
}

pub(crate) async fn terminate(mut child: tokio::process::Child) -> ExitStatus {
    let pid = child.id().expect("it runs").to_string();
    let sent = Command::new("kill").args(["-TERM", &pid]).status().await.expect("run kill");
    assert!(sent.success());
    tokio::time::timeout(PATIENCE, child.wait()).await.expect("it ends").expect("a status")
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_settings_are_named_and_end_with_64() {
    let dir = tempfile::tempdir().unwrap();
    for (key, value, named) in [
        ("COMPUTE_AGENT_LISTENN", "x", "listenn"),
        ("COMPUTE_AGENT_CAPACITY__CPU", "lots", "'lots' is not an amount of CPU"),
        ("COMPUTE_AGENT_ORCHESTRATOR", "nowhere", "'nowhere' is not a base URL"),
    ] {
        let mut command = daemon(dir.path(), "http://127.0.0.1:9");
        command.env(key, value);
        let (code, said) = end_of(command).await;
        assert_eq!(code, Some(64), "{said}");
        assert!(said.contains(named), "{said}");
    }
    let mut command = daemon(dir.path(), "http://127.0.0.1:9");
    command.args(["--config", "/nowhere/agent.toml"]);
    let (code, said) = end_of(command).await;
    assert_eq!(code, Some(64), "{said}");
    assert!(said.contains("/nowhere/agent.toml"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unavailable_resources_are_named_and_end_with_69() {
    let dir = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = daemon(&dir.path().join("a"), "http://127.0.0.1:9");
    command.env("COMPUTE_AGENT_LISTEN", taken.local_addr().unwrap().to_string());
    let (code, said) = end_of(command).await;
    assert_eq!(code, Some(69), "{said}");
    assert!(said.contains("cannot listen on"), "{said}");

    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let (code, said) = end_of(daemon(&file, "http://127.0.0.1:9")).await;
    assert_eq!(code, Some(69), "{said}");
    assert!(said.contains("cannot use"), "{said}");

    let damaged = dir.path().join("damaged");
    std::fs::create_dir(&damaged).unwrap();
    std::fs::write(damaged.join("ledger.sqlite"), "no database, but long enough for one").unwrap();
    let (code, said) = end_of(daemon(&damaged, "http://127.0.0.1:9")).await;
    assert_eq!(code, Some(69), "{said}");
    assert!(said.contains("ledger.sqlite") && said.contains("restore it"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_it_with_0_and_its_tasks_continue() {
    let Some(node) = DockerNode::start().await else { return };
    let orchestrator = Orchestrator::start().await;
    let dir = tempfile::tempdir().unwrap();
    let first = daemon(dir.path(), &orchestrator.url()).spawn().unwrap();
    let quick = orchestrator.run(work(EngineType::Noop, json!({}))).await;
    orchestrator.reported(quick, ComputeState::Completed).await;
    let id = orchestrator.run(node.work(&["sleep", "3000", "out", "done", "exit", "4"])).await;
    orchestrator.reported(id, ComputeState::BidAccepted).await;
    assert_eq!(terminate(first).await.code(), Some(0));
    // This time with kill -9, at an arbitrary moment.
    let mut second = daemon(dir.path(), &orchestrator.url()).spawn().unwrap();
    orchestrator.joined(|_| true).await;
    second.kill().await.unwrap();
    let third = daemon(dir.path(), &orchestrator.url()).spawn().unwrap();
    let report = orchestrator.reported(id, ComputeState::Failed).await;
    let output = report.run_output.unwrap();
    assert_eq!((output.stdout.as_str(), output.exit_code), ("done\n", 4));
    let name = format!("execution-{id}");
    crate::node::eventually("the container to be removed", async || {
        node.docker.inspect_container(&name, None).await.is_err()
    })
    .await;
    assert_eq!(terminate(third).await.code(), Some(0));
    node.nothing_is_left().await;
}
