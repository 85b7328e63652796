//! WebAssembly programs in processes of their own: they outlive their agent, and nothing that they
//! do to the compiler reaches it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use api_types::execution::ComputeState;
use api_types::job::JobStateType;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, eventually, eventually_within};

/// Prints `line` this many times, a tenth of a second apart, and exits with the code.
pub(crate) fn ticking(lines: u32, code: u32) -> Vec<u8> {
    let text = format!(
        r#"(module
          (import "wasi_snapshot_preview1" "fd_write"
            (func $write (param i32 i32 i32 i32) (result i32)))
          (import "wasi_snapshot_preview1" "poll_oneoff"
            (func $poll (param i32 i32 i32 i32) (result i32)))
          (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
          (memory (export "memory") 1)
          (data (i32.const 1024) "line\n")
          (func (export "_start") (local $left i32)
            (local.set $left (i32.const {lines}))
            (loop $again
              (i32.store (i32.const 0) (i32.const 1024))
              (i32.store (i32.const 4) (i32.const 5))
              (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))
              (i32.store (i32.const 2064) (i32.const 1))
              (i64.store (i32.const 2072) (i64.const 100000000))
              (drop (call $poll (i32.const 2048) (i32.const 3072) (i32.const 1) (i32.const 16)))
              (local.set $left (i32.sub (local.get $left) (i32.const 1)))
              (br_if $again (local.get $left)))
            (call $exit (i32.const {code}))))"#
    );
    wat::parse_str(text).expect("a module")
}

/// Nested loops, in the innermost of which every local is used: the compiler makes a value for each
/// local in each loop, twenty million in all.
pub(crate) fn bomb() -> Vec<u8> {
    const LOOPS: usize = 1000;
    const LOCALS: usize = 20_000;
    let (open, close) = ("(loop ".repeat(LOOPS), "(br_if 0 (local.get 0)))".repeat(LOOPS));
    let uses: String = (0..LOCALS)
        .map(|local| format!("(local.set {local} (i32.add (local.get {local}) (i32.const 1)))"))
        .collect();
    let locals = " i32".repeat(LOCALS);
    let text = format!("(module (func (export \"_start\") (local{locals}) {open}{uses}{close}))");
    wat::parse_str(text).expect("a module")
}

pub(crate) fn job(module: &[u8]) -> Value {
    let url = format!("data:application/wasm;base64,{}", STANDARD.encode(module));
    json!({
        "Type": "batch",
        "Count": 1,
        "Tasks": [{
            "Name": "main",
            "Engine": {
                "Type": "wasm",
                "Params": { "EntryModule": { "Source": { "Type": "inline", "Params": { "URL": url } } } },
            },
        }],
    })
}

async fn cluster() -> Cluster {
    ClusterSpec::new().agent(AgentSpec::new().engines("wasm")).start_without_docker().await
}

/// The memory of a process that no file backs.
fn anonymous_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a test sees to that");
    let line =
        status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a test sees to that");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a test sees to that") << 10
}

fn exit_file(data_dir: &Path, id: impl std::fmt::Display) -> PathBuf {
    data_dir.join("executions").join(id.to_string()).join("wasm/exit.json")
}

#[tokio::test]
async fn wasm_programs_outlive_their_agent_and_are_told_with_all_their_output() {
    let mut cluster = cluster().await;
    cluster.agents[0].misses_ends().await;
    let long = cluster.submit(&job(&ticking(30, 0))).await;
    let short = cluster.submit(&job(&ticking(5, 7))).await;
    let before = cluster.wait_for_execution(long, ComputeState::BidAccepted).await;
    let ending = cluster.wait_for_execution(short, ComputeState::BidAccepted).await;
    let data_dir = cluster.agents[0].data_dir().to_owned();
    cluster.agents[0].kill();
    let exit = exit_file(&data_dir, ending.id);
    eventually("the short one to end without its agent", async || match exit.is_file() {
        true => Ok(()),
        false => Err("it has not".to_owned()),
    })
    .await;
    cluster.agents[0].restart().await;

    cluster.wait_for_job(long, JobStateType::Completed).await;
    let after = cluster.execution(long).await;
    assert_eq!((after.id, after.revision), (before.id, 6), "it is the same run");
    assert_eq!(after.run_output.stdout, "line\n".repeat(30));
    cluster.wait_for_job(short, JobStateType::Failed).await;
    let ended = cluster.execution(short).await;
    assert_eq!((ended.id, ended.run_output.exit_code), (ending.id, 7));
    assert_eq!(ended.run_output.stdout, "line\n".repeat(5));
}

#[tokio::test]
async fn a_module_that_is_too_much_to_compile_ends_with_its_own_execution() {
    /// An agent has some megabytes, and some more in a debug build.
    const SMALL: u64 = 100 << 20;
    /// A compiler has a minute of a processor, which it may have to share.
    const COMPILED_WITHIN: Duration = Duration::from_secs(300);
    let cluster = cluster().await;
    let agent = cluster.agents[0].pid().unwrap();
    let running = cluster.submit(&job(&ticking(20, 0))).await;
    cluster.wait_for_execution(running, ComputeState::BidAccepted).await;
    let bomb = cluster.submit(&job(&bomb())).await;
    let mut most = 0;
    let failed = eventually_within(COMPILED_WITHIN, "the bomb to fail", async || {
        most = most.max(anonymous_bytes(agent));
        let execution = cluster.execution(bomb).await;
        match execution.compute_state.state_type {
            ComputeState::Failed => Ok(execution),
            state => Err(format!("{state:?}")),
        }
    })
    .await;
    let message = failed.compute_state.message;
    assert!(message.starts_with("the EntryModule takes more than"), "{message}");
    assert!(most < SMALL, "{most} bytes");
    cluster.wait_for_job(running, JobStateType::Completed).await;
    assert_eq!(cluster.execution(running).await.run_output.stdout, "line\n".repeat(20));
    assert_eq!(cluster.agents[0].crashes(), 0);
}
