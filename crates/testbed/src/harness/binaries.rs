//! Where the programs are: built by cargo on first use, so that they are never stale.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::Context;
use serde::Deserialize;

/// Names a directory with programs that are built already; nothing is built then.
const DIRECTORY_VARIABLE: &str = "TESTBED_BIN_DIR";

const PROGRAMS: [&str; 3] = ["orchestrator", "compute-agent", "jobctl"];
const DAEMONS: [&str; 2] = ["orchestrator", "compute-agent"];

/// How the variables begin by which cargo tells a test whose test it is.
const OF_THIS_TEST: [&str; 4] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_BIN_"];

/// One line of `cargo build --message-format=json`, as far as it matters here.
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

static BINARIES: OnceLock<BTreeMap<String, PathBuf>> = OnceLock::new();

/// Has the daemons be those in the directory of this program, with nothing built: those that a
/// release has, without failpoints.
pub fn take_binaries_beside_this_program() -> anyhow::Result<()> {
    let program = std::env::current_exe()?;
    let directory = program.parent().context("a program lies in a directory")?;
    let daemons = named_in(directory, &DAEMONS).context("build them as this program was built")?;
    // Whoever asked for a daemon before has decided for this process.
    let _ = BINARIES.set(daemons);
    Ok(())
}

/// One of the programs: `orchestrator`, `compute-agent` or `jobctl`.
pub fn binary(name: &str) -> &'static Path {
    let binaries = BINARIES.get_or_init(|| match std::env::var_os(DIRECTORY_VARIABLE) {
        Some(directory) => named_in(Path::new(&directory), &PROGRAMS)
            .unwrap_or_else(|error| panic!("{DIRECTORY_VARIABLE} is set, but {error}")),
        None => build(),
    });
    binaries.get(name).unwrap_or_else(|| panic!("there is no program '{name}'"))
}

fn named_in(directory: &Path, names: &[&str]) -> anyhow::Result<BTreeMap<String, PathBuf>> {
    let found = |name: &&str| {
        let path = directory.join(name);
        anyhow::ensure!(path.is_file(), "{} is no file", path.display());
        Ok(((*name).to_owned(), path))
    };
    names.iter().map(found).collect()
}

/// What the daemons of tests have besides: places that a test can arm. They lie idle otherwise,
/// so that one build serves all tests.
const FEATURES: &str = "orchestrator/failpoints,compute-agent/failpoints";

/// Asks cargo for the daemons as tests want them; what is fresh is not built again.
fn build() -> BTreeMap<String, PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(["build", "--workspace", "--message-format=json", "--quiet"])
        .args(["--features", FEATURES, "--manifest-path"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml"))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    for name in PROGRAMS {
        command.args(["--bin", name]);
    }
    // What cargo tells its tests, build scripts would take as meant for them, and be run again.
    for (name, _) in std::env::vars_os() {
        let of_this_test = |name: &str| {
            name == "OUT_DIR" || OF_THIS_TEST.iter().any(|prefix| name.starts_with(prefix))
        };
        if name.to_str().is_some_and(of_this_test) {
            command.env_remove(name);
        }
    }
    if cfg!(debug_assertions) {
        // With a test among what is built, cargo gives dependencies the features that
        // dev-dependencies ask for, as `cargo test` did: nothing is compiled a second time.
        command.args(["--test", "it"]);
    } else {
        // The programs are as optimised as whoever asks for them.
        command.arg("--release");
    }
    let output = command.output().unwrap_or_else(|error| panic!("cannot start cargo: {error}"));
    assert!(output.status.success(), "cargo could not build the daemons: {}", output.status);
    let binaries: BTreeMap<_, _> = output
        .stdout
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice::<Message>(line).ok())
        .filter(|message| message.reason == "compiler-artifact")
        .filter_map(|message| Some((message.target?.name, message.executable?)))
        .filter(|(name, _)| PROGRAMS.contains(&name.as_str()))
        .collect();
    assert_eq!(binaries.len(), PROGRAMS.len(), "cargo named only {binaries:?}");
    binaries
}
