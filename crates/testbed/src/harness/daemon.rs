//! One daemon as a process: started, signalled, killed, started again; its log kept.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use api_client::Client;
use rustix::process::{Pid, Signal, kill_process};

use super::ports::free_address;
use super::wait::eventually;

/// How often another port is tried when somebody took it first.
const START_ATTEMPTS: u32 = 3;

/// So many of the log's last lines are shown when a test fails.
const LOG_LINES_SHOWN: usize = 200;

/// Of this process' environment, what a daemon may see: nothing that would change its settings.
const INHERITED: [&str; 6] =
    ["PATH", "HOME", "TMPDIR", "DOCKER_HOST", "RUST_BACKTRACE", "LLVM_PROFILE_FILE"];

/// A daemon process and all that is needed to start it again.
#[derive(Debug)]
pub struct Daemon {
    name: String,
    program: PathBuf,
    environment: BTreeMap<String, String>,
    /// The variable that carries the address to listen on.
    listen_variable: &'static str,
    address: SocketAddr,
    log: PathBuf,
    child: Option<Child>,
    client: Client,
}

// === impl Daemon ===

impl Daemon {
    /// Starts a daemon on a free port and waits until it answers.
    pub(crate) async fn start(
        name: &str,
        program: PathBuf,
        listen_variable: &'static str,
        environment: BTreeMap<String, String>,
        log: PathBuf,
    ) -> Self {
        let mut attempt = 1;
        loop {
            let address = free_address();
            let client = client_of(address);
            let mut daemon = Self {
                name: name.to_owned(),
                program: program.clone(),
                environment: environment.clone(),
                listen_variable,
                address,
                log: log.clone(),
                child: None,
                client,
            };
            daemon.spawn();
            match daemon.answering().await {
                Ok(()) => return daemon,
                Err(status) => {
                    let log = daemon.log_tail();
                    let taken = log.to_ascii_lowercase().contains("in use");
                    assert!(
                        taken && attempt < START_ATTEMPTS,
                        "{name} ended at its start: {status}\n{log}"
                    );
                }
            }
            attempt += 1;
        }
    }

    /// The typed client of this daemon.
    pub fn client(&self) -> &Client {
        &self.client
    }

    pub fn base_url(&self) -> &str {
        self.client.base_url()
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// SIGKILL: the process has no say in it.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may be stopped or gone; either way it is reaped here.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// SIGTERM, and the exit status of the clean end that must follow.
    pub async fn terminate(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        let mut child = self.child.take().expect("signal made sure that it runs");
        let name = self.name.clone();
        eventually(&format!("{name} ends after SIGTERM"), async || match child.try_wait() {
            Ok(Some(status)) => Ok(status),
            Ok(None) => Err("it still runs".to_owned()),
            Err(error) => Err(error.to_string()),
        })
        .await
    }

    /// SIGSTOP: it hangs, with every connection open.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// SIGCONT.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Starts it again, on the same port and directory, and waits until it answers.
    pub async fn start_again(&mut self) {
        assert!(self.child.is_none(), "{} still runs", self.name);
        self.spawn();
        if let Err(status) = self.answering().await {
            panic!("{} ended when started again: {status}\n{}", self.name, self.log_tail());
        }
    }

    /// The last lines of what it wrote.
    pub fn log_tail(&self) -> String {
        let bytes = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
    }

    fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().unwrap_or_else(|| panic!("{} does not run", self.name));
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.expect("the system hands out process ids that are positive i32");
        kill_process(pid, signal)
            .unwrap_or_else(|error| panic!("cannot signal {}: {error}", self.name));
    }

    fn spawn(&mut self) {
        let log = self.open_log();
        let errors = log.try_clone().unwrap_or_else(|error| panic!("{}: {error}", self.name));
        let mut command = Command::new(&self.program);
        command.env_clear();
        for name in INHERITED {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        let filter = std::env::var("RUST_LOG").unwrap_or_else(|_| "info".to_owned());
        let child = command
            .env("RUST_LOG", filter)
            .envs(&self.environment)
            .env(self.listen_variable, self.address.to_string())
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", self.program.display()));
        self.child = Some(child);
    }

    fn open_log(&self) -> File {
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)
            .unwrap_or_else(|error| panic!("cannot open {}: {error}", self.log.display()))
    }

    /// Waits until it answers; `Err` when the process ends instead.
    async fn answering(&mut self) -> Result<(), ExitStatus> {
        let client = self.client.clone();
        let child = self.child.as_mut().expect("spawn put it there");
        let what = format!("{} answers at {}", self.name, self.address);
        eventually(&what, async || {
            if let Ok(Some(status)) = child.try_wait() {
                return Ok(Err(status));
            }
            match client.alive().await {
                Ok(alive) if alive.status == "OK" => Ok(Ok(())),
                Ok(alive) => Err(format!("its status is {}", alive.status)),
                Err(error) => Err(error.to_string()),
            }
        })
        .await
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("--- log of {} ---\n{}\n---", self.name, self.log_tail());
        }
    }
}

fn client_of(address: SocketAddr) -> Client {
    Client::new(&format!("http://{address}")).expect("an address makes a base URL")
}
