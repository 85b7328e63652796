//! The daemons against their OpenAPI documents: requests made up from them, and every answer held
//! against them.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use api_types::job::JobStateType;
use serde_json::json;
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, noop};
use tokio::process::Command;

/// Names the program; one on the `PATH` is used without it. `.ci/run` installs it.
const PROGRAM_VARIABLE: &str = "SCHEMATHESIS";

/// Lines of the program's report that are shown when it found something.
const SHOWN_LINES: usize = 200;

/// A run that makes fewer requests has passed over most of the document.
const FEWEST_REQUESTS: u32 = 100;

/// None, with the reason printed, where the program is not there; where `CI` is set that is a
/// failure.
async fn program() -> Option<PathBuf> {
    let program = std::env::var_os(PROGRAM_VARIABLE)
        .map_or_else(|| PathBuf::from("schemathesis"), PathBuf::from);
    let asked = Command::new(&program).arg("--version").stdout(Stdio::null()).status().await;
    if asked.is_ok_and(|status| status.success()) {
        return Some(program);
    }
    let missing = format!(
        "no program answers '{} --version': install schemathesis from PyPI, as .ci/run does, or \
         name it in {PROGRAM_VARIABLE}",
        program.display()
    );
    assert!(std::env::var_os("CI").is_none(), "{missing}");
    eprintln!("skipped: {missing}");
    None
}

/// Jobs in every stage, so that what is asked for is there.
async fn cluster() -> Cluster {
    let agent = AgentSpec::new().engines("noop").label("zone", "a");
    let cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    let completed = cluster.submit(&noop()).await;
    cluster.job_in(completed, JobStateType::Completed).await;
    let waits = json!({
        "Name": "waits", "Type": "service", "Labels": { "team": "docs" },
        "Tasks": [{ "Name": "main", "Engine": { "Type": "docker", "Params": { "Image": "none" } } }],
    });
    let queued = cluster.submit(&waits).await;
    cluster.job_in(queued, JobStateType::Queued).await;
    cluster
}

async fn finds_nothing(program: &Path, base_url: &str) {
    let settings = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemathesis.toml");
    // It leaves files where it runs.
    let directory = tempfile::tempdir().expect("make a directory");
    let output = Command::new(program)
        .arg("--config-file")
        .arg(&settings)
        .args(["run", "--no-color", "--url", base_url])
        .arg(format!("{base_url}/api/v1/openapi.json"))
        .env("PYTHONUTF8", "1")
        .current_dir(directory.path())
        .kill_on_drop(true)
        .output()
        .await
        .expect("run the program");
    let report = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = report.lines().collect();
    let shown = lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "it found something ({}):\n{shown}\n{errors}", output.status);
    // A run that tested nothing has found nothing, too.
    let passed = lines.iter().find_map(|line| {
        let (made, passed) = line.trim().strip_suffix(" passed")?.split_once(" generated, ")?;
        (made == passed).then(|| passed.parse::<u32>().ok()).flatten()
    });
    assert!(passed.is_some_and(|passed| passed >= FEWEST_REQUESTS), "{passed:?} passed:\n{shown}");
}

#[tokio::test]
async fn nothing_is_found_in_the_orchestrator() {
    let Some(program) = program().await else { return };
    let cluster = cluster().await;
    finds_nothing(&program, cluster.orchestrator.base_url()).await;
    // All of it has left the service whole.
    let completed = cluster.submit(&noop()).await;
    cluster.job_in(completed, JobStateType::Completed).await;
}

#[tokio::test]
async fn nothing_is_found_in_the_agent() {
    let Some(program) = program().await else { return };
    let cluster = cluster().await;
    finds_nothing(&program, cluster.agents[0].base_url()).await;
}
