//! A separate orchestrator for every test, and the program configured for it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use api_client::Client;
use api_types::job::{Job, JobStateType};
use orchestrator::{Orchestrator, Settings};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};

use crate::transcript::Transcript;

/// Longer than any successful step takes.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// The lease in seconds: a fake node sends no heartbeats, and a loaded machine may take its time.
const LONGER_THAN_A_TEST: u64 = 3600;

pub(crate) struct Service {
    orchestrator: Orchestrator,
    pub(crate) client: Client,
    directory: TempDir,
}

// === impl Service ===

impl Service {
    pub(crate) async fn start() -> Self {
        Self::start_with(|settings| settings).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(Settings) -> Settings) -> Self {
        let directory = tempfile::tempdir().expect("make a directory");
        let settings = change(Settings {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            data_dir: directory.path().join("data"),
            node_ttl: LONGER_THAN_A_TEST,
            ..Settings::default()
        });
        let orchestrator = Orchestrator::start(settings).await.expect("start the orchestrator");
        let client = Client::new(&format!("http://{}", orchestrator.address())).expect("a client");
        Self { orchestrator, client, directory }
    }

    pub(crate) fn node_id(&self) -> String {
        self.orchestrator.node_id().to_string()
    }

    pub(crate) fn url(&self) -> &str {
        self.client.base_url()
    }

    /// The working directory of the program.
    pub(crate) fn folder(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder().join(name), text).expect("write a file");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder().join(name)).expect("read a file")
    }

    /// The program with these arguments and an otherwise empty environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = program(self.folder(), arguments);
        command.env("JOBCTL_URL", self.url());
        command
    }

    /// Runs the program to its end.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Transcript {
        finish(self.command(arguments), arguments, "", Some(self.url())).await
    }

    /// The same with standard input.
    pub(crate) async fn run_with_input(&self, arguments: &[&str], input: &str) -> Transcript {
        finish(self.command(arguments), arguments, input, Some(self.url())).await
    }

    /// Runs the program in the background.
    pub(crate) fn spawn(&self, arguments: &[&str]) -> Child {
        spawned(&mut self.command(arguments))
    }

    /// Waits for a program in the background and returns its transcript.
    pub(crate) async fn finish(&self, child: Child, arguments: &[&str]) -> Transcript {
        ended(child, arguments, Some(self.url())).await
    }

    /// Submits a job with the program and returns its ID.
    pub(crate) async fn submit(&self, job: &str) -> String {
        let submitted = self.run_with_input(&["submit", "-"], job).await;
        assert_eq!(submitted.code, Some(0), "{submitted}");
        submitted.stdout.trim().to_owned()
    }

    /// Waits until the job is in this state.
    pub(crate) async fn until(&self, job: &str, state: JobStateType) -> Job {
        let begin = Instant::now();
        loop {
            let found = self.client.describe_job(job).await.expect("the job exists");
            if found.state.state_type == state {
                return found;
            }
            assert!(begin.elapsed() < TIMEOUT, "{job} is {:?}, not {state}", found.state);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits for the only job.
    pub(crate) async fn only_job(&self) -> Job {
        let begin = Instant::now();
        loop {
            let page = self.client.list_jobs(&api_client::JobsQuery::default()).await;
            if let Some(job) = page.expect("a list").jobs.pop() {
                return job;
            }
            assert!(begin.elapsed() < TIMEOUT, "no job was submitted");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// The program in `folder`, without a configured service.
pub(crate) fn program(folder: &Path, arguments: &[&str]) -> Command {
    let environment = BTreeMap::from([("HOME", folder), ("XDG_CONFIG_HOME", folder)]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_jobctl"));
    command
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .envs(environment)
        .env("TZ", "UTC")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

pub(crate) async fn finish(
    mut command: Command,
    arguments: &[&str],
    input: &str,
    url: Option<&str>,
) -> Transcript {
    let mut child = spawned(&mut command);
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read its input may end before all of it is written.
        let _ = stdin.write_all(input.as_bytes()).await;
    }
    ended(child, arguments, url).await
}

fn spawned(command: &mut Command) -> Child {
    command.spawn().expect("start the program")
}

async fn ended(child: Child, arguments: &[&str], url: Option<&str>) -> Transcript {
    let output = tokio::time::timeout(TIMEOUT, child.wait_with_output())
        .await
        .expect("the program ends in time")
        .expect("its output");
    Transcript {
        line: format!("jobctl {}", arguments.join(" ")),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        code: output.status.code(),
        url: url.map(str::to_owned),
    }
}
