//! The OpenAPI documents as the tools of others read them: a strict validator, and a generator
//! whose client runs a job.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use testbed::harness::{AgentSpec, ClusterSpec};
use tokio::process::Command;

/// Names the directory with the programs; those on the `PATH` are used without it. `.ci/run`
/// installs them.
const DIRECTORY_VARIABLE: &str = "OPENAPI_TOOLS";

const VALIDATOR: &str = "openapi-spec-validator";
const GENERATOR: &str = "openapi-python-client";

/// None, with the reason printed, where a program is not there; where `CI` is set that is a
/// failure.
async fn program(name: &str) -> Option<PathBuf> {
    let program = std::env::var_os(DIRECTORY_VARIABLE)
        .map_or_else(|| PathBuf::from(name), |directory| Path::new(&directory).join(name));
    let asked = Command::new(&program).arg("--version").stdout(Stdio::null()).status().await;
    if asked.is_ok_and(|status| status.success()) {
        return Some(program);
    }
    let missing = format!(
        "no program answers '{} --version': install {VALIDATOR} and {GENERATOR} from PyPI, as \
         .ci/run does, or name the directory of their programs in {DIRECTORY_VARIABLE}",
        program.display()
    );
    assert!(std::env::var_os("CI").is_none(), "{missing}");
    eprintln!("skipped: {missing}");
    None
}

/// What it printed; fails with that when it ends with another code than 0.
async fn run(command: &mut Command) -> String {
    let output = command.kill_on_drop(true).output().await.expect("run the program");
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed).into_owned();
    assert!(output.status.success(), "{command:?} ended with {}:\n{printed}", output.status);
    printed
}

#[tokio::test]
async fn both_documents_pass_a_strict_validator() {
    let Some(validator) = program(VALIDATOR).await else { return };
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let documents =
        ["orchestrator", "compute-agent"].map(|name| crates.join(name).join("openapi.json"));
    run(Command::new(validator).args(["--validation-errors", "all"]).args(documents)).await;
}

#[tokio::test]
#[ignore = "long"]
async fn a_generated_client_runs_a_job() {
    let Some(generator) = program(GENERATOR).await else { return };
    let agent = AgentSpec::new().engines("noop");
    let cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    let base_url = cluster.orchestrator.base_url();
    let directory = tempfile::tempdir().expect("make a directory");
    // Without hooks that format its output: their programs may be missing, which is a warning too.
    let config = directory.path().join("config.yaml");
    std::fs::write(&config, "post_hooks: []\n").expect("write its settings");
    let generate = |url: String, output: &str| {
        let mut command = Command::new(&generator);
        command.args(["generate", "--meta", "none", "--fail-on-warning", "--config"]).arg(&config);
        command.arg("--url").arg(url).arg("--output-path").arg(directory.path().join(output));
        command
    };
    run(&mut generate(format!("{base_url}/api/v1/openapi.json"), "generated")).await;
    let of_agent = format!("{}/api/v1/openapi.json", cluster.agents[0].base_url());
    run(&mut generate(of_agent, "generated_agent")).await;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/openapi.py");
    // The generator brings the libraries that its clients need; its interpreter has them.
    let python = generator.parent().map_or_else(PathBuf::new, Path::to_owned).join("python3");
    let printed = run(Command::new(python).arg(script).arg(base_url).arg(directory.path())).await;
    assert!(printed.contains("is Completed"), "{printed}");
}
