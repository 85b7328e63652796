//! Locates the workspace's programs: cargo builds them on first use, so that they are never stale.
//!
//! The runner of wasm programs is built separately: it takes longest to compile, and a test or a
//! demo that needs it may need no daemon, or the other way round.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::Context;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::Deserialize;
use wasm_run::{Claim, process};

/// Names a directory with programs that are built already; nothing is built then.
const DIRECTORY_VARIABLE: &str = "TESTBED_BIN_DIR";

const DAEMONS: [&str; 3] = ["orchestrator", "compute-agent", "jobctl"];
const RUNNER: [&str; 1] = ["wasm-runner"];

/// The programs that must lie next to a benchmark.
const NEIGHBOURS: [&str; 3] = ["orchestrator", "compute-agent", "wasm-runner"];

/// Prefixes of the variables through which cargo describes a test to itself.
const OF_THIS_TEST: [&str; 4] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_BIN_"];

/// The parts of one line of `cargo build --message-format=json` that matter here.
#[derive(Deserialize)]
struct Message {
    reason: String,
    target: Option<Target>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

type Programs = BTreeMap<String, PathBuf>;

static TAKEN: OnceLock<Programs> = OnceLock::new();
static DAEMONS_BUILT: OnceLock<Programs> = OnceLock::new();
static RUNNER_BUILT: OnceLock<Programs> = OnceLock::new();

/// Uses the programs in the directory of this program and builds nothing: release programs,
/// without failpoints.
pub fn use_binaries_next_to_this_program() -> anyhow::Result<()> {
    let program = std::env::current_exe()?;
    let directory = program.parent().context("a program lies in a directory")?;
    let neighbours =
        named_in(directory, &NEIGHBOURS).context("build them as this program was built")?;
    // An earlier caller has already decided for this process.
    let _ = TAKEN.set(neighbours);
    Ok(())
}

/// A program that lies in the directory of this one.
pub fn next_to_this_program(name: &str) -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    Some(program.parent()?.join(name)).filter(|path| path.is_file())
}

/// A program, built unless it is there.
pub fn built(name: &str) -> anyhow::Result<PathBuf> {
    let programs = build(&[name])?;
    programs.get(name).cloned().with_context(|| format!("cargo named no program '{name}'"))
}

/// One of the programs: `orchestrator`, `compute-agent`, `jobctl` or `wasm-runner`.
pub fn binary(name: &str) -> &'static Path {
    let names: &[&str] = if RUNNER.contains(&name) { &RUNNER } else { &DAEMONS };
    let built = if RUNNER.contains(&name) { &RUNNER_BUILT } else { &DAEMONS_BUILT };
    let programs = TAKEN.get().unwrap_or_else(|| {
        built.get_or_init(|| match std::env::var_os(DIRECTORY_VARIABLE) {
            Some(directory) => named_in(Path::new(&directory), names)
                .unwrap_or_else(|error| panic!("{DIRECTORY_VARIABLE} is set, but {error}")),
            None => build(names).unwrap_or_else(|error| panic!("{error:#}")),
        })
    });
    programs.get(name).unwrap_or_else(|| panic!("there is no program '{name}'"))
}

fn named_in(directory: &Path, names: &[&str]) -> anyhow::Result<Programs> {
    let found = |name: &&str| {
        let path = directory.join(name);
        anyhow::ensure!(path.is_file(), "{} is no file", path.display());
        Ok(((*name).to_owned(), path))
    };
    names.iter().map(found).collect()
}

/// Additional features of the daemons in tests: failpoints that a test can arm. They are inert
/// otherwise, so that one build serves all tests.
const FEATURES: &str = "orchestrator/failpoints,compute-agent/failpoints";

/// Builds programs with cargo as tests need them; fresh ones are not rebuilt.
fn build(names: &[&str]) -> anyhow::Result<Programs> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(["build", "--workspace", "--message-format=json", "--quiet"])
        .args(["--features", FEATURES, "--manifest-path"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml"))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    for name in names {
        command.args(["--bin", name]);
    }
    // Build scripts would misread the variables that cargo sets for tests, and rerun.
    for (name, _) in std::env::vars_os() {
        let of_this_test = |name: &str| {
            name == "OUT_DIR" || OF_THIS_TEST.iter().any(|prefix| name.starts_with(prefix))
        };
        if name.to_str().is_some_and(of_this_test) {
            command.env_remove(name);
        }
    }
    if cfg!(debug_assertions) {
        // With a test target in the build, cargo enables the features that dev-dependencies
        // request, as `cargo test` did: nothing compiles a second time.
        command.args(["--test", "it"]);
    } else {
        // The programs have the same optimisation level as the caller.
        command.arg("--release");
    }
    let output = command.output().context("cannot start cargo")?;
    anyhow::ensure!(
        output.status.success(),
        "cargo could not build the programs: {}",
        output.status
    );
    let programs: Programs = output
        .stdout
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice::<Message>(line).ok())
        .filter(|message| message.reason == "compiler-artifact")
        .filter_map(|message| Some((message.target?.name, message.executable?)))
        .filter(|(name, _)| names.contains(&name.as_str()))
        .collect();
    anyhow::ensure!(programs.len() == names.len(), "cargo named only {programs:?}");
    Ok(programs)
}

/// Ends the wasm programs of an agent that is gone, by its data directory: they outlive the agent,
/// and the test or demo that started them must clean up.
pub fn end_runners(data_dir: &Path) {
    let Ok(boot_id) = process::boot_id() else { return };
    let Ok(executions) = std::fs::read_dir(data_dir.join("executions")) else { return };
    for execution in executions.flatten() {
        let Ok(Some(claim)) = Claim::read(&execution.path().join("wasm")) else { continue };
        let pid = i32::try_from(claim.pid).ok().and_then(Pid::from_raw);
        let Some(Ok(pidfd)) = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) else { continue };
        if claim.is_alive(&boot_id) {
            // It may have ended in the meantime.
            let _ = pidfd_send_signal(pidfd, Signal::KILL);
        }
    }
}
