//! One daemon as a process: start, signals, restart, log.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use api_client::Client;
use rustix::process::{Pid, Signal, kill_process};

use super::access::{admin_token, client_of, token_in, trusted_client};
use super::failpoints::Failpoints;
use super::ports::free_address;
use super::wait::{TIMEOUT, eventually, eventually_within};
use super::words;

/// Attempts with different ports, in case another process takes one.
const START_ATTEMPTS: u32 = 3;

/// Number of last log lines that a failing test shows.
const LOG_LINES_SHOWN: usize = 200;

/// Variables that a daemon inherits: none that would change its settings.
const INHERITED: [&str; 6] =
    ["PATH", "HOME", "TMPDIR", "DOCKER_HOST", "RUST_BACKTRACE", "LLVM_PROFILE_FILE"];

/// What the unit and the image set for the orchestrator's allocator, so that the tests and the bench
/// see its memory and its pauses as they are where it is deployed.
const PURGE_DELAY: (&str, &str) = ("MIMALLOC_PURGE_DELAY", "1");

/// Parameters of a daemon process.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    pub(crate) name: String,
    pub(crate) program: PathBuf,
    /// The address on which it listens, on a free port.
    pub(crate) host: Ipv4Addr,
    /// The variable for the address to listen on.
    pub(crate) listen_variable: &'static str,
    pub(crate) environment: BTreeMap<String, String>,
    /// The network namespace, if not that of this process.
    pub(crate) namespace: Option<String>,
    /// The directory of its log and failpoint files.
    pub(crate) directory: PathBuf,
    /// The data directory with the CA and the first token of an orchestrator that serves TLS and asks
    /// for credentials: its own, or that of the one that led first.
    pub(crate) protected: Option<PathBuf>,
    /// Where an agent of such an orchestrator leaves the token for its own operations.
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) started: Started,
}

/// How it is known that a daemon has started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Started {
    /// It responds.
    Responds,
    /// Its log has one of these texts: it may have nothing to say until it leads.
    Logs(&'static [&'static str]),
}

/// A daemon process and the parameters to restart it.
#[derive(Debug)]
pub struct Daemon {
    start: Start,
    address: SocketAddr,
    log: PathBuf,
    failpoints: Failpoints,
    child: Option<Child>,
    /// The bytes of the log that are older than this process.
    old_log: usize,
    /// Number of crashes found by [`Daemon::restart_if_crashed`].
    crashes: u32,
    client: Client,
}

// === impl Daemon ===

impl Daemon {
    /// Starts a daemon on a free port and waits until it responds.
    pub(crate) async fn start(start: Start) -> Self {
        words::watch();
        let name = &start.name;
        let failpoints = start.directory.join(format!("{name}-failpoints"));
        fs::create_dir_all(&failpoints).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut attempt = 1;
        loop {
            let address = free_address(start.host);
            let mut daemon = Self {
                start: start.clone(),
                address,
                log: start.directory.join(format!("{name}.log")),
                failpoints: Failpoints::new(failpoints.clone()),
                child: None,
                old_log: 0,
                crashes: 0,
                client: client_of(address, None),
            };
            daemon.spawn();
            match daemon.wait_until_alive().await {
                Ok(()) => return daemon,
                Err(status) => {
                    let log = daemon.log_tail();
                    let taken = log.to_ascii_lowercase().contains("in use");
                    assert!(
                        taken && attempt < START_ATTEMPTS,
                        "{name} ended during its start: {status}\n{log}"
                    );
                }
            }
            attempt += 1;
        }
    }

    /// The client of this daemon.
    pub fn client(&self) -> &Client {
        &self.client
    }

    pub fn base_url(&self) -> &str {
        self.client.base_url()
    }

    /// Where it keeps its state.
    pub fn data_dir(&self) -> &Path {
        let mut variables = self.start.environment.iter();
        let found = variables.find(|(name, _)| name.ends_with("_DATA_DIR"));
        Path::new(found.map(|(_, path)| path).expect("each daemon of a test has one"))
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where the CA of its cluster and the token of an admin are, if it asks for one.
    pub fn trust_dir(&self) -> Option<&Path> {
        self.start.protected.as_deref()
    }

    /// An admin's client that connects to another address of the same cluster.
    pub fn client_at(&self, address: SocketAddr) -> Client {
        match &self.start.protected {
            None => client_of(address, None),
            Some(data) => trusted_client(address, data).expect("a daemon that runs is trusted"),
        }
    }

    /// The token of an admin, if this is an orchestrator that asks for one.
    pub(crate) fn admin_token(&self) -> Option<String> {
        let data = self.start.protected.as_ref()?;
        Some(admin_token(data).expect("an orchestrator that runs has written it"))
    }

    /// The process id; `None` when it does not run.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Sends SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Reaps the process, which may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Sends SIGTERM, and waits for nothing.
    pub fn ask_to_stop(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends SIGTERM and waits for the exit status.
    pub async fn terminate(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.ends_within(TIMEOUT).await
    }

    /// Waits until the process has ended.
    pub async fn ends_within(&mut self, limit: Duration) -> ExitStatus {
        let name = &self.start.name;
        let mut child = self.child.take().unwrap_or_else(|| panic!("{name} does not run"));
        eventually_within(limit, &format!("{name} to end"), async || match child.try_wait() {
            Ok(Some(status)) => Ok(status),
            Ok(None) => Err("it still runs".to_owned()),
            Err(error) => Err(error.to_string()),
        })
        .await
    }

    /// Sends SIGSTOP: the process hangs with all connections open.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Sends SIGCONT.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Sets a variable of its environment for when it is started again.
    pub fn set_variable(&mut self, variable: &str, value: &str) {
        self.start.environment.insert(variable.to_owned(), value.to_owned());
    }

    /// Starts the process again with the same port and directory, and waits until it responds.
    pub async fn restart(&mut self) {
        assert!(self.child.is_none(), "{} still runs", self.start.name);
        self.spawn();
        if let Err(status) = self.wait_until_alive().await {
            panic!("{} ended during its restart: {status}\n{}", self.start.name, self.log_tail());
        }
    }

    /// Starts the process again with the same port and directory, and waits for nothing.
    pub fn start_again(&mut self) {
        assert!(self.child.is_none(), "{} still runs", self.start.name);
        self.spawn();
    }

    /// Whether the process has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(Some(_))))
    }

    /// Starts the process again if it has ended by itself, which it may do again before it responds.
    pub async fn start_if_crashed(&mut self) {
        if self.has_ended() {
            self.crashes += 1;
            self.kill();
            self.spawn();
            // The next call finds that it has ended.
            let _ = self.wait_until_alive().await;
        }
    }

    /// Restarts the process if it has ended by itself; returns whether it had.
    pub async fn restart_if_crashed(&mut self) -> bool {
        if !self.has_ended() {
            return false;
        }
        self.crashes += 1;
        self.kill();
        self.restart().await;
        true
    }

    /// Number of crashes found by [`Daemon::restart_if_crashed`].
    pub fn crashes(&self) -> u32 {
        self.crashes
    }

    /// The failpoints of this daemon.
    pub fn failpoints(&self) -> &Failpoints {
        &self.failpoints
    }

    /// The whole log.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// The log of this process, without that of the ones before it.
    pub fn own_log(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(log.get(self.old_log..).unwrap_or_default()).into_owned()
    }

    /// The last lines of the log.
    pub fn log_tail(&self) -> String {
        let text = self.log();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
    }

    fn signal(&self, signal: Signal) {
        let child =
            self.child.as_ref().unwrap_or_else(|| panic!("{} does not run", self.start.name));
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.expect("process ids are positive i32");
        kill_process(pid, signal)
            .unwrap_or_else(|error| panic!("cannot signal {}: {error}", self.start.name));
    }

    fn spawn(&mut self) {
        // The token of the last start must not pass for that of this one.
        if let Some(file) = &self.start.token_file {
            std::fs::remove_file(file).ok();
        }
        let log = self.open_log();
        self.old_log = fs::read(&self.log).map_or(0, |log| log.len());
        let errors = log.try_clone().unwrap_or_else(|error| panic!("{}: {error}", self.start.name));
        let mut command = match &self.start.namespace {
            None => Command::new(&self.start.program),
            Some(namespace) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", namespace]).arg(&self.start.program);
                command
            }
        };
        command.env_clear();
        for name in INHERITED {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        let filter = std::env::var("RUST_LOG").unwrap_or_else(|_| "info".to_owned());
        let child = command
            .env("RUST_LOG", filter)
            .env(PURGE_DELAY.0, PURGE_DELAY.1)
            .envs(&self.start.environment)
            .env(self.start.listen_variable, self.address.to_string())
            .env(failpoint::DIRECTORY_VARIABLE, self.failpoints.directory())
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .unwrap_or_else(|error| {
                panic!("cannot start {}: {error}", self.start.program.display())
            });
        self.child = Some(child);
    }

    fn open_log(&self) -> File {
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)
            .unwrap_or_else(|error| panic!("cannot open {}: {error}", self.log.display()))
    }

    /// Waits until the daemon responds; `Err` if the process ends instead.
    async fn wait_until_alive(&mut self) -> Result<(), ExitStatus> {
        if let Started::Logs(texts) = self.start.started {
            return self.wait_until_logged(texts).await;
        }
        let (address, protected) = (self.address, self.start.protected.clone());
        let token_file = self.start.token_file.clone();
        let child = self.child.as_mut().expect("spawn sets it");
        let what = format!("{} responds at {address}", self.start.name);
        let client = eventually(&what, async || {
            if let Ok(Some(status)) = child.try_wait() {
                return Ok(Err(status));
            }
            let client = match &protected {
                // Another one at each start.
                None => {
                    let token = token_file.as_deref().map(token_in).transpose();
                    client_of(address, token.map_err(|error| error.to_string())?)
                }
                Some(data) => trusted_client(address, data).map_err(|error| error.to_string())?,
            };
            match client.alive().await {
                Ok(alive) if alive.status == "OK" => Ok(Ok(client)),
                Ok(alive) => Err(format!("its status is {}", alive.status)),
                Err(error) => Err(error.to_string()),
            }
        })
        .await;
        client.map(|client| self.client = client)
    }

    async fn wait_until_logged(&mut self, texts: &[&str]) -> Result<(), ExitStatus> {
        let what = format!("{} logs one of {texts:?}", self.start.name);
        let logged = eventually(&what, async || {
            let log = self.own_log();
            if texts.iter().any(|text| log.contains(text)) {
                return Ok(Ok(()));
            }
            match self.child.as_mut().expect("spawn sets it").try_wait() {
                Ok(Some(status)) => Ok(Err(status)),
                Ok(None) | Err(_) => Err(log),
            }
        })
        .await;
        logged.map(|()| self.client = self.client_at(self.address))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("--- log of {} ---\n{}\n---", self.start.name, self.log_tail());
        }
    }
}
