//! The newcomer's path of the README, executed line by line in a fresh home on a network of its
//! own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use testbed::harness::binary;
use testbed::{docker, image};

const SECTION: &str = "\n## Your own cluster\n";

/// Seconds that the path may take on a busy machine; it takes about five.
const PATIENCE: &str = "120";

/// What the test does itself: it has programs that are built already.
const BUILD: &str = "cargo build --release --workspace";

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("this crate is two folders below the root")
}

/// The lines of the section's `sh` blocks, in order.
fn lines() -> Vec<String> {
    let page = fs::read_to_string(root().join("README.md")).expect("the page is there");
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
    assert!(lines.len() > 25, "that cannot be the whole path: {lines:#?}");
    lines
}

/// A checkout in which the programs were just built, and an empty home.
fn checkout() -> TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let release = directory.path().join("checkout/target/release");
    fs::create_dir_all(&release).expect("an empty directory takes it");
    fs::create_dir(directory.path().join("home")).expect("an empty directory takes it");
    for name in ["orchestrator", "compute-agent", "jobctl"] {
        std::os::unix::fs::symlink(binary(name), release.join(name)).expect("a new link");
    }
    let deploy = directory.path().join("checkout/deploy");
    std::os::unix::fs::symlink(root().join("deploy"), deploy).expect("a new link");
    directory
}

/// Runs the script where port 1234 is free, whatever runs on this machine, and where all that it
/// leaves running ends with it.
fn run(script: &Path, directory: &Path, image: &str) -> Output {
    Command::new("timeout")
        .args([PATIENCE, "unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"])
        .args(["bash", "-c", "ip link set lo up && exec bash \"$0\""])
        .arg(script)
        .current_dir(directory.join("checkout"))
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", directory.join("home"))
        .env("IMAGE", image)
        // They outlive their agents, by half an hour; a person may wait for that.
        .env("COMPUTE_AGENT_DOCKER__SANDBOX_POOL", "0")
        .output()
        .expect("it starts")
}

#[tokio::test]
async fn the_newcomers_path_can_be_walked() {
    let engine = match docker::connect().await {
        Ok(engine) => engine,
        Err(missing) => {
            assert!(std::env::var_os("CI").is_none(), "{missing}");
            return eprintln!("skipped: {missing}");
        }
    };
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var_os("CI").is_none(), "a network of its own needs root");
        return eprintln!("skipped: a network of its own needs root");
    }
    let image = image::ensure(&engine).await.expect("the task image");
    let lines = lines();
    let build = lines.iter().filter(|line| *line == BUILD).count();
    assert_eq!(build, 1, "the path begins with the build");
    let path: Vec<_> = lines.into_iter().filter(|line| line != BUILD).collect();

    let directory = checkout();
    let script = directory.path().join("path.sh");
    // The first line that fails ends it and is shown, as are all before it.
    let text = format!("set -emuxo pipefail\n{}\n", path.join("\n"));
    fs::write(&script, text).expect("the script can be written");
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
    // What each part of the path is there to show.
    for shown in [
        "\nhello\n",
        "\"EvaluationID\": \"v-",
        "\nover here\n",
        "\"stdout\": \"hello\\n\"",
        "\"NewRevision\": 6",
        "\"zone\": \"a\"",
        "\"Phase\":",
    ] {
        assert!(stdout.contains(shown), "nothing shows {shown}:\n{stdout}\n{stderr}");
    }
}
