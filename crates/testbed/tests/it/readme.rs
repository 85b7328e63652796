//! The quick start of the README, executed line by line in a fresh home and network namespace.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use task_image::{docker, image};
use tempfile::TempDir;
use testbed::harness::binary;

const SECTION: &str = "\n## Your own cluster\n";

/// Time limit in seconds on a busy machine; the commands take about five.
const TIMEOUT: &str = "120";

/// The command that the test skips, since its programs are already built.
const BUILD: &str = "cargo build --release --workspace";

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("this crate is two folders below the root")
}

/// The lines of the section's `sh` blocks, in order.
fn lines() -> Vec<String> {
    let page = fs::read_to_string(root().join("README.md")).expect("the page exists");
    let section = page.split(SECTION).nth(1).expect("README.md has the section 'Your own cluster'");
    let section = section.split("\n## ").next().unwrap_or_default();
    let mut lines = Vec::new();
    let mut inside = false;
    for line in section.lines() {
        match line {
            "```sh" => inside = true,
            "```" => inside = false,
            line if inside => lines.push(line.to_owned()),
            _ => assert!(!line.starts_with("```"), "only sh blocks are executed: {line}"),
        }
    }
    assert!(lines.len() > 25, "commands are missing: {lines:#?}");
    lines
}

/// A checkout with built programs, and an empty home.
fn checkout() -> TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let release = directory.path().join("checkout/target/release");
    fs::create_dir_all(&release).expect("an empty directory takes it");
    fs::create_dir(directory.path().join("home")).expect("an empty directory takes it");
    for name in ["orchestrator", "compute-agent", "wasm-runner", "jobctl"] {
        std::os::unix::fs::symlink(binary(name), release.join(name)).expect("a new link");
    }
    let deploy = directory.path().join("checkout/deploy");
    std::os::unix::fs::symlink(root().join("deploy"), deploy).expect("a new link");
    directory
}

/// Runs the script in network and process namespaces, so that port 1234 is free and all its
/// processes end with it.
fn run(script: &Path, directory: &Path, image: &str) -> Output {
    Command::new("timeout")
        .args([TIMEOUT, "unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"])
        .args(["bash", "-c", "ip link set lo up && exec bash \"$0\""])
        .arg(script)
        .current_dir(directory.join("checkout"))
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", directory.join("home"))
        .env("IMAGE", image)
        // Sandboxes outlive their agents, and the test must leave nothing behind.
        .env("COMPUTE_AGENT_DOCKER__SANDBOX_POOL", "0")
        .output()
        .expect("it starts")
}

#[tokio::test]
async fn the_quick_start_works() {
    let engine = match docker::connect().await {
        Ok(engine) => engine,
        Err(missing) => {
            assert!(std::env::var_os("CI").is_none(), "{missing}");
            return eprintln!("skipped: {missing}");
        }
    };
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var_os("CI").is_none(), "network namespaces need root");
        return eprintln!("skipped: a network namespace needs root");
    }
    let image = image::ensure(&engine).await.expect("the task image");
    let lines = lines();
    let build = lines.iter().filter(|line| *line == BUILD).count();
    assert_eq!(build, 1, "the quick start begins with the build");
    let path: Vec<_> = lines.into_iter().filter(|line| line != BUILD).collect();

    let directory = checkout();
    let script = directory.path().join("path.sh");
    // The script shows its commands and stops at the first failure.
    let text = format!("set -emuxo pipefail\n{}\n", path.join("\n"));
    fs::write(&script, text).expect("the directory is writable");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let output = run(&script, directory.path(), &image);
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let log = |name: &str| {
        fs::read_to_string(directory.path().join("home/jobs").join(name)).unwrap_or_default()
    };
    assert!(
        output.status.success(),
        "{}\n{stdout}\n{stderr}\n{}\n{}",
        output.status,
        log("orchestrator.log"),
        log("node-1.log")
    );
    // One line of output for each part of the quick start.
    for shown in [
        "\nhello\n",
        "\"EvaluationID\": \"v-",
        "\nover here\n",
        "\"stdout\": \"hello\\n\"",
        "\"NewRevision\": 6",
        "\"zone\": \"a\"",
        "\"Phase\":",
    ] {
        assert!(stdout.contains(shown), "the output lacks {shown}:\n{stdout}\n{stderr}");
    }
}
