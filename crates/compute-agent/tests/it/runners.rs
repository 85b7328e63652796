//! The processes that run and compile wasm programs, and their isolation.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use api_types::ExecutionId;
use api_types::engine::EngineType;
use api_types::execution::{ComputeState, DesiredState};
use api_types::protocol::FailureCause;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use wasm_run::{Claim, process};

use crate::node::{Node, eventually};
use crate::programs::{endless, printing, wasm_work};

async fn wasm_node() -> Node {
    Node::start(|settings| settings.engines = vec![EngineType::Wasm]).await
}

fn run_directory(node: &Node, id: ExecutionId) -> PathBuf {
    node.execution_dir(id).join("wasm")
}

/// The process that runs it, once there is one.
async fn runner_of(node: &Node, id: ExecutionId) -> Claim {
    let directory = run_directory(node, id);
    eventually("a runner", async || matches!(Claim::read(&directory), Ok(Some(_)))).await;
    Claim::read(&directory).expect("a test sees to that").expect("a test sees to that")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_killed_by_hand_is_a_failure_of_the_node() {
    let node = wasm_node().await;
    let id = node.orchestrator.run(wasm_work(&endless(), json!({}))).await;
    node.orchestrator.reported(id, ComputeState::BidAccepted).await;
    let claim = runner_of(&node, id).await;
    assert!(claim.is_alive(&process::boot_id().unwrap()), "{claim:?}");
    let pid = Pid::from_raw(i32::try_from(claim.pid).unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    let report = node.orchestrator.reported(id, ComputeState::Failed).await;
    assert_eq!(report.cause, FailureCause::Node);
    assert!(report.message.contains("ended without recording an outcome (signal: 9"), "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_one_runner_runs_an_execution() {
    let node = wasm_node().await;
    let id = node.orchestrator.run(wasm_work(&endless(), json!({}))).await;
    node.orchestrator.reported(id, ComputeState::BidAccepted).await;
    let claim = runner_of(&node, id).await;
    node.printed(id, "running\n").await;
    // The actions of an agent that does not know what the previous one did.
    let directory = run_directory(&node, id);
    let second = Command::new(&node.settings.wasm.runner)
        .arg(wasm_run::RUN)
        .arg(&directory)
        .arg(process::boot_id().unwrap())
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(wasm_run::EXIT_CLAIMED.into()), "{second:?}");
    assert_eq!(Claim::read(&directory).unwrap(), Some(claim));
    node.orchestrator.want_state(id, DesiredState::Stopped, "enough");
    let report = node.orchestrator.reported(id, ComputeState::Cancelled).await;
    assert_eq!(report.run_output.unwrap().stdout, "running\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_inherits_nothing_from_its_agent() {
    let node = wasm_node().await;
    let id = node.orchestrator.run(wasm_work(&endless(), json!({}))).await;
    node.orchestrator.reported(id, ComputeState::BidAccepted).await;
    let claim = runner_of(&node, id).await;
    let proc = PathBuf::from(format!("/proc/{}", claim.pid));
    assert_eq!(fs::read(proc.join("environ")).unwrap(), b"");
    let data = node.settings.data_dir.canonicalize().unwrap();
    let own = data.join("executions").join(id.to_string());
    for descriptor in fs::read_dir(proc.join("fd")).unwrap() {
        let Ok(open) = fs::read_link(descriptor.unwrap().path()) else { continue };
        let is_agents = open.starts_with(&data) && !open.starts_with(&own);
        let is_socket = open.to_string_lossy().starts_with("socket:");
        assert!(!is_agents && !is_socket, "{}", open.display());
    }
    let stat = fs::read_to_string(proc.join("stat")).unwrap();
    let group = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(2).unwrap();
    assert_eq!(group, claim.pid.to_string(), "no signal for the agent's group reaches it");
}

/// A module of this many nested loops, in the innermost of which every local is used: the compiler
/// makes a value for each local in each loop.
fn bomb(loops: usize, locals: usize) -> Vec<u8> {
    let (open, close) = ("(loop ".repeat(loops), "(br_if 0 (local.get 0)))".repeat(loops));
    let uses: String = (0..locals)
        .map(|local| format!("(local.set {local} (i32.add (local.get {local}) (i32.const 1)))"))
        .collect();
    let locals = " i32".repeat(locals);
    wat::parse_str(format!(
        "(module (func (export \"_start\") (local{locals}) {open}{uses}{close}))"
    ))
    .expect("a test sees to that")
}

/// Whether a compiler works below this data directory.
fn is_compiling(data_dir: &Path) -> bool {
    let new = data_dir.canonicalize().expect("a test sees to that").join("wasm-cache/new");
    fs::read_dir("/proc").expect("a test sees to that").flatten().any(|process| {
        fs::read_link(process.path().join("fd/1")).is_ok_and(|stdout| stdout.starts_with(&new))
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_a_compilation_immediately() {
    let node = wasm_node().await;
    let id = node.orchestrator.run(wasm_work(&bomb(1000, 20_000), json!({}))).await;
    eventually("the compiler to be at work", async || is_compiling(&node.settings.data_dir)).await;
    node.orchestrator.want_state(id, DesiredState::Stopped, "enough");
    let report = node.orchestrator.reported(id, ComputeState::Cancelled).await;
    assert_eq!(report.message, "enough");
    eventually("the compiler to be gone", async || !is_compiling(&node.settings.data_dir)).await;
}

/// A replacement of the runner that records each compilation. Another process writes it, so that
/// no process that another test starts can have it open for writing.
fn counting_runner(directory: &Path) -> String {
    let runner = programs::binary("wasm-runner").display().to_string();
    let (program, log) = (directory.join("runner"), directory.join("compilations"));
    let script = format!(
        "#!/bin/sh\n[ \"$1\" != compile ] || echo >>'{}'\nexec '{runner}' \"$@\"\n",
        log.display()
    );
    let status = Command::new("sh")
        .args(["-c", "printf %s \"$1\" >\"$0\" && chmod +x \"$0\""])
        .arg(&program)
        .arg(script)
        .stdin(Stdio::null())
        .status()
        .expect("a test sees to that");
    assert!(status.success());
    program.display().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_is_compiled_once_for_all_executions() {
    let directory = tempfile::tempdir().unwrap();
    let runner = counting_runner(directory.path());
    let mut node = Node::start(|settings| {
        settings.engines = vec![EngineType::Wasm];
        settings.wasm.runner = runner;
    })
    .await;
    let compilations = || {
        fs::read_to_string(directory.path().join("compilations"))
            .unwrap_or_default()
            .lines()
            .count()
    };
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(node.orchestrator.run(wasm_work(&printing("x", "", 0), json!({}))).await);
    }
    for id in ids {
        node.orchestrator.reported(id, ComputeState::Completed).await;
    }
    assert_eq!(compilations(), 1);

    // The next agent still has it, and recompiles what was damaged.
    for expected in [1, 2] {
        node.shut_down_agent().await;
        if expected == 2 {
            damage(&node.settings.data_dir.join("wasm-cache"));
        }
        node.start_agent().await;
        let id = node.orchestrator.run(wasm_work(&printing("x", "", 0), json!({}))).await;
        let report = node.orchestrator.reported(id, ComputeState::Completed).await;
        assert_eq!(report.run_output.unwrap().stdout, "x");
        assert_eq!(compilations(), expected);
    }
}

/// Cuts all compiled code in half.
fn damage(cache: &Path) {
    let directories = fs::read_dir(cache)
        .expect("a test sees to that")
        .map(|entry| entry.expect("a test sees to that").path());
    let files =
        directories.flat_map(|directory| fs::read_dir(directory).expect("a test sees to that"));
    let code = files.map(|file| file.expect("a test sees to that").path());
    let mut damaged = 0;
    for path in code.filter(|path| path.extension().is_some_and(|ending| ending == "code")) {
        let file = fs::OpenOptions::new().write(true).open(&path).expect("a test sees to that");
        file.set_len(file.metadata().expect("a test sees to that").len() / 2)
            .expect("a test sees to that");
        damaged += 1;
    }
    assert_eq!(damaged, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_a_runner_does_not_offer_wasm() {
    let node = Node::start(|settings| {
        settings.engines = vec![EngineType::Wasm, EngineType::Noop];
        settings.wasm.runner = "/nowhere/wasm-runner".to_owned();
    })
    .await;
    node.orchestrator
        .joined(|request| request.compute_node_info.execution_engines == [EngineType::Noop])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_outlives_an_agent_that_finds_no_runner() {
    let mut node = wasm_node().await;
    let id = node.orchestrator.run(wasm_work(&endless(), json!({}))).await;
    let stopped = node.orchestrator.run(wasm_work(&endless(), json!({}))).await;
    for id in [id, stopped] {
        node.orchestrator.reported(id, ComputeState::BidAccepted).await;
        node.printed(id, "running\n").await;
    }
    node.kill_agent().await;
    let directory = tempfile::tempdir().unwrap();
    let link = directory.path().join("wasm-runner");
    let runner = std::mem::replace(&mut node.settings.wasm.runner, link.display().to_string());
    node.start_agent().await;
    node.orchestrator
        .joined(|request| request.compute_node_info.execution_engines.is_empty())
        .await;
    node.wait_for_phase(id, "Running").await;
    node.orchestrator.want_state(stopped, DesiredState::Stopped, "enough");
    let report = node.orchestrator.reported(stopped, ComputeState::Cancelled).await;
    assert_eq!(report.run_output.unwrap().stdout, "running\n");

    std::os::unix::fs::symlink(runner, link).unwrap();
    node.orchestrator
        .joined(|request| request.compute_node_info.execution_engines == [EngineType::Wasm])
        .await;
    assert_eq!(node.phase(id).await.as_deref(), Some("Running"));
    let next = node.orchestrator.run(wasm_work(&printing("x", "", 0), json!({}))).await;
    node.orchestrator.reported(next, ComputeState::Completed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_claim_a_crash_of_the_machine_has_damaged_ends_and_leaves_nothing() {
    let mut node = wasm_node().await;
    let id = node.orchestrator.run(wasm_work(&endless(), json!({}))).await;
    node.orchestrator.reported(id, ComputeState::BidAccepted).await;
    let claim = runner_of(&node, id).await;
    node.kill_agent().await;
    let pid = Pid::from_raw(i32::try_from(claim.pid).unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    let directory = run_directory(&node, id);
    fs::write(directory.join("claim.json"), "").unwrap();
    node.start_agent().await;
    node.orchestrator.report_that(id, |report| report.compute_state.is_terminal()).await;
    eventually("the run to be removed", async || !directory.exists()).await;
}
