//! The daemons against their OpenAPI documents: generated requests, and validated responses.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use api_types::access::{CreateToken, Role};
use api_types::job::JobStateType;
use serde_json::json;
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, noop};
use tokio::process::Command;

/// The environment variable with the path of the program, if it is not on the `PATH`. `.ci/run`
/// installs it.
const PROGRAM_VARIABLE: &str = "SCHEMATHESIS";

/// Lines of the program's report that a failure shows.
const SHOWN_LINES: usize = 200;

/// A run with fewer requests has skipped most of the document.
const MIN_REQUESTS: u32 = 100;

/// The program. If it is not installed, prints the reason and returns `None`, or panics when `CI`
/// is set.
async fn program() -> Option<PathBuf> {
    let program = std::env::var_os(PROGRAM_VARIABLE)
        .map_or_else(|| PathBuf::from("schemathesis"), PathBuf::from);
    let asked = Command::new(&program).arg("--version").stdout(Stdio::null()).status().await;
    if asked.is_ok_and(|status| status.success()) {
        return Some(program);
    }
    let missing = format!(
        "cannot run '{} --version': install schemathesis from PyPI, as .ci/run does, or \
         set {PROGRAM_VARIABLE} to its path",
        program.display()
    );
    assert!(std::env::var_os("CI").is_none(), "{missing}");
    eprintln!("skipped: {missing}");
    None
}

/// A cluster with a completed and a queued job, so that requests find records.
async fn cluster(spec: ClusterSpec) -> Cluster {
    let agent = AgentSpec::new().engines("noop").label("zone", "a");
    let cluster = spec.agent(agent).start_without_docker().await;
    let completed = cluster.submit(&noop()).await;
    cluster.wait_for_job(completed, JobStateType::Completed).await;
    let waits = json!({
        "Name": "waits", "Type": "service", "Labels": { "team": "docs" },
        "Tasks": [{ "Name": "main", "Engine": { "Type": "docker", "Params": { "Image": "none" } } }],
    });
    let queued = cluster.submit(&waits).await;
    cluster.wait_for_job(queued, JobStateType::Queued).await;
    cluster
}

async fn assert_conforms(program: &Path, base_url: &str, options: &[String]) {
    let settings = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemathesis.toml");
    // The program leaves files in its working directory.
    let directory = tempfile::tempdir().expect("make a directory");
    let output = Command::new(program)
        .arg("--config-file")
        .arg(&settings)
        .args(["run", "--no-color", "--url", base_url])
        .args(options)
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
    assert!(output.status.success(), "the program failed ({}):\n{shown}\n{errors}", output.status);
    // A run without requests would pass too.
    let passed = lines.iter().find_map(|line| {
        let (made, passed) = line.trim().strip_suffix(" passed")?.split_once(" generated, ")?;
        (made == passed).then(|| passed.parse::<u32>().ok()).flatten()
    });
    assert!(passed.is_some_and(|passed| passed >= MIN_REQUESTS), "{passed:?} passed:\n{shown}");
}

#[tokio::test]
#[ignore = "long"]
async fn the_orchestrator_conforms_to_its_document() {
    let Some(program) = program().await else { return };
    let cluster = cluster(ClusterSpec::new()).await;
    assert_conforms(&program, cluster.orchestrator.base_url(), &[]).await;
    // The service still works afterwards.
    let completed = cluster.submit(&noop()).await;
    cluster.wait_for_job(completed, JobStateType::Completed).await;
}

/// Whatever a role may not do is refused as the document says.
#[tokio::test]
#[ignore = "long"]
async fn the_orchestrator_conforms_to_its_document_for_callers_with_credentials() {
    let Some(program) = program().await else { return };
    let cluster = cluster(ClusterSpec::new().protected()).await;
    let data_dir = cluster.orchestrator.data_dir();
    let admin = std::fs::read_to_string(data_dir.join("admin.token")).expect("the first token");
    let viewer = CreateToken {
        name: "reads".to_owned(),
        role: Role::Viewer.to_string(),
        namespaces: vec!["default".to_owned()],
        ..CreateToken::default()
    };
    let viewer = cluster.client().create_token(&viewer).await.expect("a token").secret;
    for token in [admin.trim(), &viewer] {
        let options = [
            format!("--tls-verify={}", data_dir.join("ca.crt").display()),
            format!("--header=Authorization: Bearer {token}"),
            // It would find the ID of this very token in a list.
            "--exclude-operation-id=revokeToken".to_owned(),
        ];
        assert_conforms(&program, cluster.orchestrator.base_url(), &options).await;
    }
    let completed = cluster.submit(&noop()).await;
    cluster.wait_for_job(completed, JobStateType::Completed).await;
}

#[tokio::test]
async fn the_agent_conforms_to_its_document() {
    let Some(program) = program().await else { return };
    let cluster = cluster(ClusterSpec::new()).await;
    assert_conforms(&program, cluster.agents[0].base_url(), &[]).await;
}
