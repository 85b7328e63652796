//! Peers and tasks that mean harm: each costs its own execution, and the agent nothing.

use api_types::engine::EngineType;
use api_types::execution::{ComputeState, DesiredState};
use api_types::protocol::{FailureCause, Work};
use api_types::source::{InputSource, ResultPath, SourceSpec, SourceType};
use axum::Router;
use axum::routing::get;
use peers::Serving;
use peers::hostile::{archive_of_a_long_name, endless, endless_references};
use serde_json::{Value, json};

use crate::node::{Node, eventually, work};
use crate::programs::{module, program, wasm_work};

fn with_input(kind: SourceType, params: Value) -> Work {
    let mut work = work(EngineType::Noop, json!({}));
    let params = serde_json::from_value(params).expect("an object");
    work.task.input_sources = vec![InputSource {
        source: SourceSpec { source_type: kind, params },
        target: "/in".to_owned(),
        alias: String::new(),
    }];
    work
}

async fn node() -> Node {
    Node::start(|_| ()).await
}

/// The message of an execution that fails for its input, after which the node does other work.
async fn failure(node: &Node, hostile: Work) -> String {
    let id = node.orchestrator.run(hostile).await;
    let report = node.orchestrator.reported(id, ComputeState::Failed).await;
    assert!(matches!(report.cause, FailureCause::Fetch | FailureCause::Task), "{report:?}");
    let next = node.orchestrator.run(work(EngineType::Noop, json!({}))).await;
    node.orchestrator.reported(next, ComputeState::Completed).await;
    report.message
}

/// How many processes of this node have a file of it open.
fn fetchers(node: &Node) -> usize {
    let has_file = |pid: &std::path::Path| {
        let files = std::fs::read_dir(pid.join("fd")).into_iter().flatten().flatten();
        files
            .filter_map(|file| std::fs::read_link(file.path()).ok())
            .any(|file| file.starts_with(node.settings.data_dir.join("executions")))
    };
    let processes = std::fs::read_dir("/proc").expect("processes").flatten();
    processes
        .map(|process| process.path())
        .filter(|pid| {
            let arguments = std::fs::read(pid.join("cmdline")).unwrap_or_default();
            arguments.split(|byte| *byte == 0).nth(1) == Some(compute_agent::FETCH.as_bytes())
        })
        .filter(|pid| has_file(pid))
        .count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repository_with_references_without_end_costs_its_fetch() {
    let node = node().await;
    let server = endless_references().await;
    let repo = json!({ "Repo": format!("{}/r.git", server.url) });
    let message = failure(&node, with_input(SourceType::RepoClone, repo)).await;
    assert!(message.contains("git ls-remote"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_whose_name_has_gigabytes_costs_its_fetch() {
    let node = node().await;
    let url = json!({ "URL": archive_of_a_long_name() });
    let message = failure(&node, with_input(SourceType::Inline, url)).await;
    assert!(message.contains("has 4294967296 bytes, more than the 65536"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_process_of_a_fetch_that_is_no_longer_wanted_ends() {
    let node = node().await;
    let body = async || endless(b"", b"some content\n");
    let server = Serving::start(Router::new().route("/file", get(body))).await;
    let url = json!({ "URL": format!("{}/file", server.url) });
    let id = node.orchestrator.run(with_input(SourceType::UrlDownload, url)).await;
    eventually("a process that fetches", async || fetchers(&node) == 1).await;
    node.orchestrator.want_state(id, DesiredState::Stopped, "stopped");
    node.orchestrator.reported(id, ComputeState::Cancelled).await;
    eventually("no process that fetches", async || fetchers(&node) == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn results_nested_without_end_cost_their_execution() {
    let mut node = Node::start(|settings| settings.engines = vec![EngineType::Wasm]).await;
    // Each directory is made in the one before, so that no path limits the depth.
    let nesting = program(
        r#"(data (i32.const 1024) "d")
        (func (export "_start") (local $at i32) (local $left i32)
          (local.set $at (i32.const 3))
          (local.set $left (i32.const 18000))
          (loop $next
            (call $must (call $mkdir (local.get $at) (i32.const 1024) (i32.const 1)))
            (call $must (call $open (local.get $at) (i32.const 0) (i32.const 1024) (i32.const 1)
              (i32.const 2) (i64.const 8704) (i64.const 8704) (i32.const 0) (i32.const 16)))
            (if (i32.ne (local.get $at) (i32.const 3))
              (then (call $must (call $close (local.get $at)))))
            (local.set $at (i32.load (i32.const 16)))
            (local.set $left (i32.sub (local.get $left) (i32.const 1)))
            (br_if $next (local.get $left))))"#,
    );
    let mut work = wasm_work(&nesting, json!({ "EntryModule": module(&nesting, "nesting") }));
    work.task.result_paths = vec![ResultPath { name: "out".to_owned(), path: "/out".to_owned() }];
    work.resources.disk = 10_000_000;
    let id = node.orchestrator.run(work).await;
    let report = node.orchestrator.reported(id, ComputeState::Failed).await;
    assert_eq!(report.cause, FailureCause::Task, "{report:?}");
    assert!(report.message.contains("nested deeper than 128"), "{}", report.message);
    // The next agent finds it, and ends no more of it than this one.
    node.kill_agent().await;
    node.start_agent().await;
    let program = crate::programs::printing("next", "", 0);
    let work = wasm_work(&program, json!({ "EntryModule": module(&program, "next") }));
    let next = node.orchestrator.run(work).await;
    node.orchestrator.reported(next, ComputeState::Completed).await;
}

/// A process of a fetch that was taken over offers a link, and has it mounted or kept.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_was_taken_over_gets_nothing_mounted_but_its_own() {
    use std::os::unix::fs::PermissionsExt;

    let dir = tempfile::tempdir().expect("a directory");
    let program = dir.path().join("fetcher");
    let find = r#"{"Find":{"key":"k","directory":"'$root'/directory/sub"}}"#;
    let done = r#"{"Done":{"mounted":{"source":"'$root'/directory","target":"/in","writable":false},"taken_bytes":0}}"#;
    for says in [find, done] {
        let script = format!(
            "#!/bin/sh\nread -r order\n\
             root=$(echo \"$order\" | sed 's/.*\"root\":\"\\([^\"]*\\)\".*/\\1/')\n\
             ln -s /etc \"$root/directory\"\necho '{says}'\nread -r answer\n"
        );
        std::fs::write(&program, script).expect("write");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("chmod");
        let node = Node::start(|settings| settings.program = Some(program.clone())).await;
        let url = json!({ "URL": "http://127.0.0.1:9/file" });
        let id = node.orchestrator.run(with_input(SourceType::UrlDownload, url)).await;
        let report = node.orchestrator.reported(id, ComputeState::Failed).await;
        assert!(report.message.contains("the process that fetches it"), "{}", report.message);
    }
}
