//! The demo program.

use std::process::{Command, Stdio};

use task_image::docker;

#[tokio::test]
async fn the_demo_shows_a_job_from_submission_to_result_and_cleans_up() {
    if let Err(missing) = docker::connect().await {
        assert!(std::env::var_os("CI").is_none(), "{missing}");
        return eprintln!("skipped: {missing}");
    }
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_demo"))
        .arg("--once")
        .env("TMPDIR", directory.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{stdout}\n{stderr}", output.status);
    assert_eq!(stderr, "", "the demo writes no warnings");
    assert!(stdout.contains("the counts add up to the whole text"), "{stdout}");
    for step in ["1 → 1", "1 → 2", "2 → 3", "3 → 3", "3 → 5", "5 → 7"] {
        assert!(stdout.contains(step), "{step} is missing in\n{stdout}");
    }
    assert!(!stdout.contains('\x1b'), "no colour without a terminal");
    let left: Vec<_> = directory.path().read_dir().unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// The README's first command works on a machine without Docker.
#[test]
fn the_demo_runs_on_wasm_without_docker_and_reports_it() {
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_demo"))
        .arg("--once")
        .env("TMPDIR", directory.path())
        .env("DOCKER_HOST", "unix:///nowhere/docker.sock")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{stdout}\n{stderr}", output.status);
    assert_eq!(stderr, "", "the demo writes no warnings");
    assert!(
        stdout.contains("No Docker Engine responds at unix:///nowhere/docker.sock"),
        "{stdout}"
    );
    assert!(stdout.contains("a word count in wasm"), "{stdout}");
    assert!(stdout.contains("the counts add up to the whole text"), "{stdout}");
    let left: Vec<_> = directory.path().read_dir().unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn the_engine_can_be_chosen() {
    let demo = |engine: &str| {
        Command::new(env!("CARGO_BIN_EXE_demo"))
            .args(["--once", "--engine", engine])
            .stdin(Stdio::null())
            .output()
            .unwrap()
    };
    let output = demo("wasm");
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}\n{stdout}", output.status);
    assert!(stdout.contains("a word count in wasm") && !stdout.contains("No Docker"), "{stdout}");
    assert_eq!(demo("podman").status.code(), Some(64));
}

#[test]
fn the_demo_reports_a_missing_docker_when_docker_is_chosen() {
    let output = Command::new(env!("CARGO_BIN_EXE_demo"))
        .args(["--once", "--engine", "docker"])
        .env("DOCKER_HOST", "unix:///nowhere/docker.sock")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(69));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("/nowhere/docker.sock") && stderr.contains("apt install"), "{stderr}");
}

#[test]
fn the_demo_refuses_unknown_arguments() {
    let output = Command::new(env!("CARGO_BIN_EXE_demo")).arg("--forever").output().unwrap();
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&output.stderr).contains("usage: demo"));
}
