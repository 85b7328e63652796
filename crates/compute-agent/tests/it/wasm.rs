//! WebAssembly programs: their environment, their results, and their failures.

use api_types::engine::{EngineType, NetworkType};
use api_types::execution::{ComputeState, RunOutput};
use api_types::protocol::{FailureCause, Report, Work};
use api_types::source::ResultPath;
use serde_json::json;

use crate::node::{Node, work};
use crate::programs::{inline, module, printing, program, wasm_work};

async fn wasm_node() -> Node {
    Node::start(|settings| settings.engines = vec![EngineType::Wasm]).await
}

/// Runs it to its end, which has to be this one.
async fn run(node: &Node, work: Work, end: ComputeState) -> Report {
    let id = node.orchestrator.run(work).await;
    node.orchestrator.reported(id, end).await
}

async fn failure(node: &Node, work: Work) -> (String, FailureCause, RunOutput) {
    let report = run(node, work, ComputeState::Failed).await;
    (report.message, report.cause, report.run_output.expect("its output"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_gets_its_arguments_and_environment() {
    let node = wasm_node().await;
    node.orchestrator
        .joined(|request| request.compute_node_info.execution_engines == [EngineType::Wasm])
        .await;
    let echo = program(
        r#"(func (export "_start")
          (call $must (call $args_sizes (i32.const 16) (i32.const 20)))
          (call $must (call $args (i32.const 1024) (i32.const 8192)))
          (call $print (i32.const 1) (i32.const 8192) (i32.load (i32.const 20)))
          (call $must (call $environ_sizes (i32.const 16) (i32.const 20)))
          (call $must (call $environ (i32.const 1024) (i32.const 8192)))
          (call $print (i32.const 2) (i32.const 8192) (i32.load (i32.const 20))))"#,
    );
    let mut work = wasm_work(
        &echo,
        json!({
            "EntryModule": module(&echo, "echo"),
            "Parameters": ["a", "b c"],
            "EnvironmentVariables": {"BOTH": "engine", "SERVICE_JOB_ID": "fake"},
        }),
    );
    work.task.env = [("TASK_ONLY", "task"), ("BOTH", "task")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    let (job_id, resources) = (work.job_id, work.resources);
    let report = run(&node, work, ComputeState::Completed).await;
    let output = report.run_output.unwrap();
    assert_eq!(output.stdout, "echo\0a\0b c\0");
    let expected = format!(
        "BOTH=engine\0SERVICE_CPU={}\0SERVICE_EXECUTION_COUNT=3\0SERVICE_EXECUTION_ID={}\0\
         SERVICE_EXECUTION_INDEX=2\0SERVICE_JOB_ID={job_id}\0SERVICE_JOB_NAME=test\0\
         SERVICE_JOB_TYPE=batch\0SERVICE_MEMORY={}\0SERVICE_NODE_ID={}\0TASK_ONLY=task\0",
        resources.cpu,
        report.execution_id,
        resources.memory,
        node.id()
    );
    assert_eq!(output.stderr, expected);
}

/// Runs a program that writes thirty megabytes to `big` in the one directory that it is shown, with
/// these instructions before and after.
async fn fails_beyond_its_disk_limit(before: &str, after: &str) {
    let node = wasm_node().await;
    let filling = program(&format!(
        r#"(data (i32.const 1024) "big")
        (func (export "_start") (local $left i32)
          (call $must (call $open (i32.const 3) (i32.const 0) (i32.const 1024) (i32.const 3)
            (i32.const 9) (i64.const 64) (i64.const 64) (i32.const 0) (i32.const 16)))
          {before}
          (local.set $left (i32.const 500))
          (loop $again
            (call $print (i32.load (i32.const 16)) (i32.const 2048) (i32.const 60000))
            (local.set $left (i32.sub (local.get $left) (i32.const 1)))
            (br_if $again (local.get $left)))
          {after})"#,
    ));
    let mut work = wasm_work(&filling, json!({ "EntryModule": module(&filling, "") }));
    work.resources.disk = 10_000_000;
    work.task.result_paths = vec![ResultPath { name: "out".to_owned(), path: "/out".to_owned() }];
    let (message, cause, _) = failure(&node, work).await;
    let words = ", more than the 10 MB of the task's Resources.Disk, of which its inputs take";
    assert!(message.contains(words), "{message}");
    assert_eq!(cause, FailureCause::Task);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_beyond_its_disk_limit_fails() {
    fails_beyond_its_disk_limit("", "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_whose_deleted_file_is_beyond_its_disk_limit_fails() {
    let delete = "(call $must (call $unlink (i32.const 3) (i32.const 1024) (i32.const 3)))";
    fails_beyond_its_disk_limit(delete, "(loop $forever (br $forever))").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_megabytes_is_cut() {
    let node = wasm_node().await;
    let program = printing("", "", 0);
    let mut params = json!({ "EntryModule": module(&program, "") });
    params["EntryPoint"] = json!("x".repeat(6 << 20));
    let (message, _, output) = failure(&node, wasm_work(&program, params)).await;
    assert!(message.ends_with(" […]") && message.len() <= 16 << 10, "{} bytes", message.len());
    assert!(output.runner_error.len() <= 16 << 10, "{} bytes", output.runner_error.len());
}

/// Reads `in.txt` of the first directory it is shown, writes it to `out.txt` of the second, with
/// `oflags` for the latter. Exits with the number of the first error.
fn copying(from: &str, into: u32, to: &str) -> Vec<u8> {
    let (from_length, to_length) = (from.len(), to.len());
    program(&format!(
        r#"(data (i32.const 512) "{from}") (data (i32.const 768) "{to}")
        (func (export "_start")
          (call $must (call $open (i32.const 3) (i32.const 1) (i32.const 512)
            (i32.const {from_length}) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0)
            (i32.const 16)))
          (i32.store (i32.const 0) (i32.const 1024))
          (i32.store (i32.const 4) (i32.const 4096))
          (call $must (call $read (i32.load (i32.const 16)) (i32.const 0) (i32.const 1)
            (i32.const 24)))
          (call $must (call $open (i32.const {into}) (i32.const 0) (i32.const 768)
            (i32.const {to_length}) (i32.const 9) (i64.const 64) (i64.const 0) (i32.const 0)
            (i32.const 20)))
          (i32.store (i32.const 4) (i32.load (i32.const 24)))
          (call $must (call $write (i32.load (i32.const 20)) (i32.const 0) (i32.const 1)
            (i32.const 8))))"#
    ))
}

fn with_files(bytes: &[u8]) -> Work {
    let mut work = wasm_work(bytes, json!({}));
    work.task.input_sources = vec![inline(b"the input", "/inputs/in.txt")];
    work.task.result_paths = vec![
        ResultPath { name: "outputs".to_owned(), path: "/outputs".to_owned() },
        ResultPath { name: "one".to_owned(), path: "/outputs/out.txt".to_owned() },
    ];
    work
}

#[tokio::test(flavor = "multi_thread")]
async fn inputs_are_readable_and_results_are_collected() {
    let node = wasm_node().await;
    let report =
        run(&node, with_files(&copying("in.txt", 4, "out.txt")), ComputeState::Completed).await;
    assert_eq!(report.message, "");
    let results = node.execution_dir(report.execution_id).join("results");
    for place in ["outputs/out.txt", "one/out.txt"] {
        assert_eq!(std::fs::read_to_string(results.join(place)).unwrap(), "the input", "{place}");
    }
    // The files of the engine and of the inputs are removed.
    for place in ["wasm", "inputs"] {
        let place = node.execution_dir(report.execution_id).join(place);
        crate::node::eventually("the execution's files to be removed", async || !place.exists())
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_result_is_reported() {
    let node = wasm_node().await;
    let mut work = with_files(&copying("in.txt", 4, "other.txt"));
    work.task.result_paths.remove(0);
    let report = run(&node, work, ComputeState::Completed).await;
    assert_eq!(report.message, "result path 'one' (/outputs/out.txt) does not exist");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_isolated() {
    let node = wasm_node().await;
    for (what, bytes) in [
        ("write to an input", copying("in.txt", 3, "out.txt")),
        ("replace an input", copying("in.txt", 3, "in.txt")),
        ("read above its directory", copying("../../output", 4, "out.txt")),
        ("read by an absolute path", copying("/etc/passwd", 4, "out.txt")),
        ("write above its directory", copying("in.txt", 4, "../../exit.json")),
    ] {
        let (message, cause, output) = failure(&node, with_files(&bytes)).await;
        assert!(message.starts_with("exit code "), "{what}: {message}");
        assert_eq!((cause, output.stdout.as_str()), (FailureCause::Task, ""), "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn inputs_and_results_with_overlapping_paths_are_refused() {
    let node = wasm_node().await;
    let mut work = with_files(&copying("in.txt", 4, "out.txt"));
    work.task.result_paths[0].path = "/inputs".to_owned();
    let (message, cause, _) = failure(&node, work).await;
    assert!(message.contains("meet in '/inputs'"), "{message}");
    assert_eq!(cause, FailureCause::Task);
}

#[tokio::test(flavor = "multi_thread")]
async fn modules_import_each_other() {
    let node = wasm_node().await;
    let base = wat::parse_str(r#"(module (func (export "three") (result i32) i32.const 3))"#);
    let sum = wat::parse_str(
        r#"(module (import "base" "three" (func $three (result i32)))
          (func (export "add") (param i32) (result i32)
            (i32.add (local.get 0) (call $three))))"#,
    );
    let main = wat::parse_str(
        r#"(module (import "sum" "add" (func $add (param i32) (result i32)))
          (func (export "run") (result i32) (call $add (i32.const 4))))"#,
    );
    let imports = [module(&base.unwrap(), "base"), module(&sum.unwrap(), "sum")];
    let params = json!({"EntryPoint": "run", "ImportModules": imports});
    let (message, _, output) = failure(&node, wasm_work(&main.unwrap(), params)).await;
    assert_eq!((message.as_str(), output.exit_code), ("exit code 7", 7));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reactor_is_initialised_once() {
    let node = wasm_node().await;
    let reactor = wat::parse_str(
        r#"(module (global $n (mut i32) (i32.const 0))
          (func (export "_initialize") (global.set $n (i32.add (global.get $n) (i32.const 5))))
          (func (export "run") (result i32) (global.get $n)))"#,
    )
    .unwrap();
    let (_, _, output) = failure(&node, wasm_work(&reactor, json!({"EntryPoint": "run"}))).await;
    assert_eq!(output.exit_code, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trap_fails_the_task_with_its_message_and_keeps_the_output() {
    let node = wasm_node().await;
    let bytes = program(
        r#"(data (i32.const 1024) "before\n")
        (func $careless (unreachable))
        (func (export "_start")
          (call $print (i32.const 1) (i32.const 1024) (i32.const 7))
          (call $careless))"#,
    );
    let (message, cause, output) = failure(&node, wasm_work(&bytes, json!({}))).await;
    let said = "wasm trap: wasm `unreachable` instruction executed (in function 'careless')";
    assert_eq!((message.as_str(), cause), (said, FailureCause::Task));
    let expected = RunOutput {
        stdout: "before\n".to_owned(),
        exit_code: 134,
        runner_error: said.to_owned(),
        ..RunOutput::default()
    };
    assert_eq!(output, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_recursion_is_a_trap_and_not_the_end_of_the_agent() {
    let node = wasm_node().await;
    let bytes = program(r#"(func $down (export "_start") (call $down))"#);
    let (message, _, _) = failure(&node, wasm_work(&bytes, json!({}))).await;
    assert!(message.contains("call stack exhausted"), "{message}");
    let report = run(&node, wasm_work(&printing("ok", "", 0), json!({})), ComputeState::Completed);
    assert_eq!(report.await.run_output.unwrap().stdout, "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_beyond_the_limit_is_refused_and_reported() {
    let node = wasm_node().await;
    // Behaves like a language's allocator: traps when it gets no more memory.
    let grow = program(
        r#"(func $allocate (export "_start")
          (loop $more
            (br_if $more (i32.ne (memory.grow (i32.const 16)) (i32.const -1))))
          (unreachable))"#,
    );
    let (message, cause, _) = failure(&node, wasm_work(&grow, json!({}))).await;
    assert_eq!(
        message,
        "needed more than its 64 MB of memory, the limit in Resources.Memory: wasm trap: wasm `unreachable` instruction executed (in \
         function 'allocate')"
    );
    assert_eq!(cause, FailureCause::Task);
    // A program that makes do with the refusal is fine.
    let modest = program(
        r#"(func (export "_start")
          (drop (memory.grow (i32.const 60000))))"#,
    );
    run(&node, wasm_work(&modest, json!({})), ComputeState::Completed).await;
    let large = wat::parse_str(r#"(module (memory 2000) (func (export "_start")))"#).unwrap();
    let (message, _, output) = failure(&node, wasm_work(&large, json!({}))).await;
    let words =
        "needed more than its 64 MB of memory, the limit in Resources.Memory: the program cannot";
    assert!(message.starts_with(words), "{message}");
    assert_eq!(output.exit_code, 126);
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_that_cannot_run_are_the_tasks_own_failure() {
    let node = wasm_node().await;
    let unknown =
        wat::parse_str(r#"(module (import "env" "missing" (func)) (func (export "_start")))"#)
            .unwrap();
    let start = printing("x", "", 0);
    for (work, said) in [
        (wasm_work(b"no module", json!({})), "the EntryModule is not a WebAssembly module"),
        (wasm_work(&start, json!({"EntryPoint": "main"})), "has no function 'main'"),
        (wasm_work(&unknown, json!({})), "unknown import: `env::missing`"),
        (
            wasm_work(&start, json!({"ImportModules": [module(b"none", "lib")]})),
            "the import module 'lib' is not a WebAssembly module",
        ),
    ] {
        let (message, cause, _) = failure(&node, work).await;
        assert!(message.contains(said), "{message}");
        assert_eq!(cause, FailureCause::Task, "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unsupported_wasm_work_is_declined() {
    let node = wasm_node().await;
    let bytes = printing("x", "", 0);
    let plain = || wasm_work(&bytes, json!({}));
    let mut networked = plain();
    networked.task.network.network_type = NetworkType::Full;
    let with = |params| wasm_work(&bytes, params);
    let s3 = json!({"Source": {"Type": "s3", "Params": {"Bucket": "b", "Key": "k"}}});
    for (offered, reason) in [
        (work(EngineType::Wasm, json!({})), "the Params of the wasm engine are invalid"),
        (networked, "network type 'Full' is not supported by the wasm engine"),
        (with(json!({"ImportModules": [module(&bytes, "")]})), "ImportModules[0] needs an Alias"),
        (
            with(json!({"ImportModules": [module(&bytes, "wasi_snapshot_preview1")]})),
            "there is another module 'wasi_snapshot_preview1'",
        ),
        (with(json!({"Parameters": ["a\0b"]})), "cannot hold a NUL"),
        (with(json!({"EntryModule": s3})), "EntryModule (s3): "),
    ] {
        let id = node.orchestrator.offer(offered);
        let report = node.orchestrator.reported(id, ComputeState::AskForBidRejected).await;
        assert!(report.message.contains(reason), "{}", report.message);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_uses_no_more_than_its_cpu_share() {
    let node = wasm_node().await;
    // Counts its clock reads within one second.
    let counting = program(
        r#"(func (export "count") (result i32) (local $until i64) (local $count i32)
          (call $must (call $time (i32.const 1) (i64.const 1) (i32.const 16)))
          (local.set $until (i64.add (i64.load (i32.const 16)) (i64.const 1000000000)))
          (loop $again
            (local.set $count (i32.add (local.get $count) (i32.const 1)))
            (call $must (call $time (i32.const 1) (i64.const 1) (i32.const 16)))
            (br_if $again (i64.lt_u (i64.load (i32.const 16)) (local.get $until))))
          (local.get $count))"#,
    );
    let mut counts = Vec::new();
    for cpu in [0.02, 1.0] {
        let mut work = wasm_work(&counting, json!({"EntryPoint": "count"}));
        work.resources.cpu = cpu;
        counts.push(failure(&node, work).await.2.exit_code);
    }
    // Fifty times as much on a machine that has nothing else to do.
    assert!(counts[1] > 2 * counts[0], "{counts:?}");
}
