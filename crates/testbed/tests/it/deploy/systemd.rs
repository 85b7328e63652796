//! The units under a systemd that runs, booted in a container.

use std::process::Command;
use std::time::Duration;

use api_client::{Client, ExecutionsQuery};
use api_types::JobId;
use api_types::execution::{ComputeState, Execution};
use api_types::job::JobStateType;
use serde_json::json;
use tempfile::TempDir;
use testbed::harness::{binary, eventually, eventually_within};

use super::{root, text_of};
use crate::programs::{job, ticking};

/// Units that fail are started again after two seconds.
const RUNS_ON_FOR: Duration = Duration::from_secs(120);

/// A machine with systemd; gone with this value.
struct Machine {
    name: String,
    _programs: TempDir,
}

// === impl Machine ===

impl Machine {
    /// None, with the reason printed, where there is no image; where `CI` is set that is a failure.
    async fn boot() -> Option<Self> {
        let script = root().join("crates/testbed/systemd/image.sh");
        let found = Command::new(&script).arg("--find").output().expect("it starts");
        if !found.status.success() {
            let missing = format!("no image with systemd here: run {} as root", script.display());
            assert!(std::env::var_os("CI").is_none(), "{missing}");
            eprintln!("skipped: {missing}");
            return None;
        }
        let image = String::from_utf8(found.stdout).expect("a name").trim().to_owned();
        let programs = tempfile::tempdir().expect("a temporary directory");
        for name in ["orchestrator", "compute-agent", "wasm-runner", "jobctl"] {
            std::fs::copy(binary(name), programs.path().join(name)).expect("there is room");
        }
        let name = format!("testbed-systemd-{}", uuid::Uuid::from_u128(rand_id()).simple());
        let mount = |from: &std::path::Path, to: &str| format!("{}:{to}:ro", from.display());
        let output = Command::new("docker")
            .args(["run", "--detach", "--rm", "--name", &name, "--cap-add", "SYS_ADMIN"])
            .args(["--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined"])
            .args(["--volume", "/sys/fs/cgroup:/sys/fs/cgroup:rw"])
            .args(["--tmpfs", "/run", "--tmpfs", "/run/lock", "--tmpfs", "/tmp:exec"])
            .args(["--volume", &mount(programs.path(), "/programs")])
            .args(["--volume", &mount(&root().join("deploy"), "/checkout/deploy")])
            .args([image.as_str(), "/lib/systemd/systemd"])
            .output()
            .expect("docker starts");
        assert!(output.status.success(), "{}", text_of(&output));
        let machine = Self { name, _programs: programs };
        eventually("systemd to be up", async || {
            let output = machine.try_run(&["systemctl", "is-system-running"]);
            match text_of(&output).trim() {
                "running" | "degraded" => Ok(()),
                other => Err(other.to_owned()),
            }
        })
        .await;
        Some(machine)
    }

    fn try_run(&self, command: &[&str]) -> std::process::Output {
        let mut docker = Command::new("docker");
        docker.args(["exec", &self.name]).args(command).output().expect("docker starts")
    }

    fn run(&self, command: &[&str]) -> String {
        let output = self.try_run(command);
        if !output.status.success() {
            let log = self.try_run(&["journalctl", "--no-pager", "--lines=100"]);
            panic!("{command:?}: {}\n{}", text_of(&output), text_of(&log));
        }
        text_of(&output)
    }

    fn address(&self) -> String {
        let format = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}";
        let output = Command::new("docker")
            .args(["inspect", "--format", format, &self.name])
            .output()
            .expect("docker starts");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// The processes that run wasm programs.
    fn runners(&self) -> String {
        self.run(&["sh", "-c", "grep -lx wasm-runner /proc/[0-9]*/comm 2>/dev/null"])
    }

    fn main_pid(&self) -> String {
        self.run(&["systemctl", "show", "--property=MainPID", "--value", "compute-agent"])
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        drop(Command::new("docker").args(["rm", "--force", &self.name]).output());
    }
}

/// Of this process and this test, which is once in it.
fn rand_id() -> u128 {
    let started = wasm_run::process::own_start_time().unwrap_or_default();
    (u128::from(started) << 64) | u128::from(std::process::id())
}

async fn execution(client: &Client, id: JobId) -> Execution {
    let page = client.job_executions(id, &ExecutionsQuery::default()).await.expect("a page");
    assert_eq!(page.executions.len(), 1, "{:#?}", page.executions);
    page.executions.into_iter().next().expect("one")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_and_a_kill_of_the_unit_leave_wasm_programs_running() {
    const LINES: u32 = 200;
    let Some(machine) = Machine::boot().await else { return };
    machine.run(&["/checkout/deploy/install.sh", "--binaries", "/programs"]);
    machine.run(&[
        "sh",
        "-c",
        "printf 'ORCHESTRATOR_LISTEN=0.0.0.0:1234\\nORCHESTRATOR_INSECURE=true\\n' \
         >/etc/orchestrator/environment; \
         printf 'COMPUTE_AGENT_LISTEN=127.0.0.1:1235\\nCOMPUTE_AGENT_ENGINES=wasm\\n' \
         >/etc/compute-agent/environment",
    ]);
    machine.run(&["timeout", "60", "systemctl", "start", "orchestrator", "compute-agent"]);
    let client = Client::new(&format!("http://{}:1234", machine.address())).expect("a URL");
    let body = json!({ "Job": job(&ticking(LINES, 0)) }).to_string();
    let id = client.create_job_raw(body.into(), None).await.expect("the job is accepted").job_id;
    let before = eventually("the program to run", async || {
        let execution = execution(&client, id).await;
        match execution.compute_state.state_type {
            ComputeState::BidAccepted => Ok(execution),
            state => Err(format!("{state:?}: {}", execution.compute_state.message)),
        }
    })
    .await;
    let runner = machine.runners();

    let first = machine.main_pid();
    machine.run(&["systemctl", "restart", "compute-agent"]);
    let second = machine.main_pid();
    assert_ne!(first, second);
    machine.run(&["systemctl", "kill", "--kill-whom=main", "--signal=KILL", "compute-agent"]);
    eventually("systemd to start it again", async || {
        let active = machine.try_run(&["systemctl", "is-active", "compute-agent"]);
        match machine.main_pid() {
            third if active.status.success() && third != second => Ok(()),
            third => Err(format!("{} {third}", text_of(&active))),
        }
    })
    .await;
    assert_eq!(machine.runners(), runner);

    let job = eventually_within(RUNS_ON_FOR, "the job to be over", async || {
        let job = client.describe_job(id).await.map_err(|error| error.to_string())?;
        if job.state.state_type.is_terminal() { Ok(job) } else { Err("it runs".to_owned()) }
    })
    .await;
    assert_eq!(job.state.state_type, JobStateType::Completed, "{}", job.state.message);
    let after = execution(&client, id).await;
    assert_eq!((after.id, after.revision), (before.id, 6), "it is the same run");
    let stdout = after.run_output.stdout;
    assert_eq!(stdout, "line\n".repeat(LINES as usize));
}
