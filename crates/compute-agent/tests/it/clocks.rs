//! Timeouts follow the agent's steady clock, wherever the wall clock stands.

use api_types::engine::EngineType;
use api_types::execution::ComputeState;
use api_types::protocol::{FailureCause, Work};
use bollard::Docker;
use serde_json::json;

use crate::daemon::{daemon, terminate};
use crate::image;
use crate::node::{eventually, work};
use crate::orchestrator::Orchestrator;
use crate::programs::{endless, printing, wasm_work};

/// Nanoseconds since 1970: long before the wall clock of any test, and long after it.
const STEADY_CLOCKS: [i64; 2] = [1_000_000_000, 7_000_000_000_000_000_000];

/// A task that runs until it is stopped, and one that ends by itself.
type Tasks = (Work, Work);

/// Each runs the two tasks on an agent whose steady clock is far from its wall clock, as if a user
/// had set the wall clock after the agent's first start.
async fn timeouts_are_on_time(engine: &str, (mut long, mut short): Tasks, docker: Option<&Docker>) {
    let runner = tokio::task::spawn_blocking(|| programs::binary("wasm-runner")).await;
    let runner = runner.expect("the runner");
    long.task.timeouts.execution_timeout = 1;
    short.task.timeouts.execution_timeout = 600;
    for steady in STEADY_CLOCKS {
        let orchestrator = Orchestrator::start().await;
        let dir = tempfile::tempdir().expect("a directory");
        let boot_id = wasm_run::process::boot_id().expect("the ID of this boot");
        let anchor = json!({"boot_id": boot_id, "boot": 0, "wall": 0, "steady": steady});
        std::fs::write(dir.path().join("clock"), anchor.to_string()).expect("a note");
        let mut command = daemon(dir.path(), &orchestrator.url());
        command.env("COMPUTE_AGENT_ENGINES", engine).env("COMPUTE_AGENT_WASM__RUNNER", runner);
        let agent = command.spawn().expect("the daemon starts");

        let ended = orchestrator.run(short.clone()).await;
        orchestrator.reported(ended, ComputeState::Completed).await;
        let late = orchestrator.run(long.clone()).await;
        let report = orchestrator.reported(late, ComputeState::Failed).await;
        assert_eq!(report.cause, FailureCause::Timeout, "{}", report.message);
        if let Some(docker) = docker {
            for id in [ended, late] {
                let name = format!("execution-{id}");
                let is_gone = async || docker.inspect_container(&name, None).await.is_err();
                eventually("its container to be removed", is_gone).await;
            }
        }
        assert_eq!(terminate(agent).await.code(), Some(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wasm_program_ends_at_its_timeout_whatever_the_wall_clock_shows() {
    let tasks = (wasm_work(&endless(), json!({})), wasm_work(&printing("x", "", 0), json!({})));
    timeouts_are_on_time("wasm", tasks, None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_ends_at_its_timeout_whatever_the_wall_clock_shows() {
    let Some(docker) = image::docker().await else { return };
    let image = image::ensure(&docker).await;
    let task =
        |steps: &[&str]| work(EngineType::Docker, json!({"Image": image, "Parameters": steps}));
    let tasks = (task(&["sleep", "60000"]), task(&["out", "x"]));
    timeouts_are_on_time("docker", tasks, Some(&docker)).await;
}
