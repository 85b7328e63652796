//! The published Python SDK of the service whose API this one implements, unchanged.

use std::path::Path;

use testbed::harness::{AgentSpec, ClusterSpec};
use tokio::process::Command;

use testbed::python;

/// Names the interpreter that has the package; `.ci/run` installs it.
const PYTHON_VARIABLE: &str = "SDK_PYTHON";

const PACKAGE: &str = "bacalhau_sdk";

#[tokio::test]
async fn the_published_sdk_puts_reads_and_stops_jobs() {
    let Some(python) = python::with(PACKAGE, PYTHON_VARIABLE).await else { return };
    let agent = AgentSpec::new().engines("noop");
    let cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
    let address = cluster.orchestrator.address();
    let home = tempfile::tempdir().expect("a directory");
    let output = Command::new(python)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/sdk.py"))
        .env("BACALHAU_API_HOST", address.ip().to_string())
        .env("BACALHAU_API_PORT", address.port().to_string())
        // It makes a directory in the home of its user.
        .env("HOME", home.path())
        .kill_on_drop(true)
        .output()
        .await
        .expect("run the script");
    let printed = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "it ended with {}:\n{printed}", output.status);
    assert!(printed.contains("went as they should"), "{printed}");
    assert!(!printed.contains("Exception"), "{printed}");
}
