//! A machine with systemd, booted in a container.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use testbed::harness::{binary, eventually, eventually_within};

use super::{root, text_of};

/// What a command in the machine may take; a loaded machine builds other things at the same time.
const PATIENCE: Duration = Duration::from_secs(120);

/// Where the machine sees the programs of this build.
pub(super) const PROGRAMS: &str = "/programs";

/// Where it sees the Docker Engine's socket of the host.
pub(super) const SOCKET: &str = "/host/docker.sock";

/// A machine with systemd and nothing installed; gone with this value.
pub(super) struct Machine {
    name: String,
    /// A volume, and where both the Docker Engine and the machine see it.
    volume: String,
    programs: TempDir,
}

// === impl Machine ===

impl Machine {
    /// None, with the reason printed, where there is no image; where `CI` is set that is a failure.
    pub(super) async fn boot() -> Option<Self> {
        let script = root().join("crates/testbed/systemd/image.sh");
        let found = Command::new(&script).arg("--find").output().expect("it starts");
        if !found.status.success() {
            let missing = format!("no image with systemd here: run {} as root", script.display());
            assert!(std::env::var_os("CI").is_none(), "{missing}");
            eprintln!("skipped: {missing}");
            return None;
        }
        let image = String::from_utf8(found.stdout).expect("a name").trim().to_owned();
        let programs = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        for name in ["orchestrator", "compute-agent", "wasm-runner", "jobctl"] {
            let link = programs.path().join(name);
            if std::fs::hard_link(binary(name), &link).is_err() {
                std::fs::copy(binary(name), &link).expect("there is room");
            }
        }
        let name = format!("testbed-systemd-{}", uuid::Uuid::from_u128(rand_id()).simple());
        docker(&["volume", "create", &name]);
        let volume = docker(&["volume", "inspect", "--format", "{{.Mountpoint}}", &name]);
        let machine = Self { name, volume, programs };
        machine.run_container(&image);
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

    fn run_container(&self, image: &str) {
        let mount = |from: &Path, to: &str| format!("--volume={}:{to}:ro", from.display());
        docker(&[
            "run",
            "--detach",
            "--rm",
            &format!("--name={}", self.name),
            "--cap-add=SYS_ADMIN",
            "--security-opt=seccomp=unconfined",
            "--security-opt=apparmor=unconfined",
            "--volume=/sys/fs/cgroup:/sys/fs/cgroup:rw",
            "--tmpfs=/run",
            "--tmpfs=/run/lock",
            "--tmpfs=/tmp:exec",
            &mount(self.programs.path(), PROGRAMS),
            &mount(&root().join("deploy"), "/checkout/deploy"),
            &format!("--volume=/var/run/docker.sock:{SOCKET}"),
            &format!("--volume={}:{}", self.name, self.volume),
            image,
            "/lib/systemd/systemd",
        ]);
    }

    /// Where the Docker Engine of the host finds what the agent's data directory holds.
    pub(super) fn volume(&self) -> &str {
        &self.volume
    }

    pub(super) fn try_run(&self, command: &[&str]) -> Output {
        self.with_input(command, b"")
    }

    fn with_input(&self, command: &[&str], input: &[u8]) -> Output {
        let mut child = Command::new("docker")
            .args(["exec", "--interactive", &self.name])
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("docker starts");
        // It may end without having read everything.
        let _ = child.stdin.take().expect("it is piped").write_all(input);
        child.wait_with_output().expect("it ends")
    }

    #[track_caller]
    fn succeeded(&self, command: &[&str], output: &Output) -> String {
        if !output.status.success() {
            let log = self.try_run(&["journalctl", "--no-pager", "--lines=100"]);
            panic!("{command:?}: {}\n{}", text_of(output), text_of(&log));
        }
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Standard output of a command that has to succeed.
    #[track_caller]
    pub(super) fn run(&self, command: &[&str]) -> String {
        self.succeeded(command, &self.try_run(command))
    }

    /// Has systemd start both daemons, now and at every boot.
    #[track_caller]
    pub(super) fn start_daemons(&self) {
        let enable = ["systemctl", "enable", "--now", "orchestrator", "compute-agent"];
        self.run(&[&["timeout", "120"], &enable[..]].concat());
    }

    #[track_caller]
    pub(super) fn shell(&self, script: &str) -> String {
        self.run(&["sh", "-euc", script])
    }

    /// Puts a file into the machine.
    pub(super) fn copy(&self, from: &Path, to: &str) {
        docker(&["cp", &from.display().to_string(), &format!("{}:{to}", self.name)]);
    }

    #[track_caller]
    pub(super) fn jobctl(&self, arguments: &[&str]) -> String {
        self.run(&[&["jobctl"], arguments].concat())
    }

    /// The records that a command of jobctl prints.
    #[track_caller]
    pub(super) fn records(&self, arguments: &[&str]) -> Value {
        let text = self.jobctl(&[arguments, &["-o", "json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {text}"))
    }

    /// The ID of the submitted job.
    #[track_caller]
    pub(super) fn submit(&self, job: &Value) -> String {
        let command = ["jobctl", "submit", "-"];
        let output = self.with_input(&command, job.to_string().as_bytes());
        self.succeeded(&command, &output)
    }

    /// The ID of the submitted job, if it was accepted.
    pub(super) fn try_submit(&self, job: &Value) -> Option<String> {
        let output = self.with_input(&["jobctl", "submit", "-"], job.to_string().as_bytes());
        let id = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success().then_some(id)
    }

    /// Waits until a job has this state, and returns it.
    pub(super) async fn until(&self, job: &str, state: &str) -> Value {
        eventually_within(PATIENCE, &format!("{job} to be {state}"), async || {
            let output = self.try_run(&["jobctl", "describe", job, "-o", "json"]);
            let record: Value = serde_json::from_slice(&output.stdout)
                .map_err(|error| format!("{error}: {}", text_of(&output)))?;
            if record["State"]["StateType"] == state { Ok(record) } else { Err(record.to_string()) }
        })
        .await
    }

    pub(super) fn main_pid(&self, unit: &str) -> String {
        self.run(&["systemctl", "show", "--property=MainPID", "--value", unit])
    }

    /// Waits until systemd has started the unit again.
    pub(super) async fn restarted(&self, unit: &str, former: &str) {
        eventually_within(PATIENCE, &format!("{unit} to be started again"), async || {
            let active = self.try_run(&["systemctl", "is-active", unit]);
            match self.main_pid(unit) {
                now if active.status.success() && now != former && now != "0" => Ok(()),
                now => Err(format!("{} {now}", text_of(&active))),
            }
        })
        .await;
    }

    /// The processes whose names match.
    pub(super) fn processes(&self, pattern: &str) -> String {
        let script = format!("grep -lxE '{pattern}' /proc/[0-9]*/comm 2>/dev/null || true");
        self.shell(&script)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        drop(Command::new("docker").args(["rm", "--force", &self.name]).output());
        drop(Command::new("docker").args(["volume", "rm", "--force", &self.name]).output());
    }
}

#[track_caller]
fn docker(arguments: &[&str]) -> String {
    let output = Command::new("docker").args(arguments).output().expect("docker starts");
    assert!(output.status.success(), "{arguments:?}: {}", text_of(&output));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Of this process and this call.
fn rand_id() -> u128 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let started = wasm_run::process::own_start_time().unwrap_or_default();
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    (u128::from(started) << 64) | (u128::from(call) << 32) | u128::from(std::process::id())
}
