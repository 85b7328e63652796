//! The orchestrator daemon.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use api_types::routes;
use api_types::version::VersionRecord;
use daemon::health::{self, Scheme};
use daemon::help::Help;
use daemon::{Command, service_manager};
use orchestrator::settings::{ENV_PREFIX, Exposure};
use orchestrator::{Follower, Orchestrator, Protection, Settings, StartError, backup, migrate};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Half the cost of the system allocator here, where one thread mostly frees what another
/// allocated.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `EX_USAGE`: bad settings.
const EXIT_SETTINGS: u8 = 64;

/// `EX_UNAVAILABLE`: a required resource is missing or was lost.
const EXIT_UNAVAILABLE: u8 = 69;

/// How long the process may take to end once it cannot go on: with the time in which it noticed, it
/// is gone within a second.
const EXIT_TIMEOUT: Duration = Duration::from_millis(700);

const HELP: Help = Help {
    program: "orchestrator",
    about: "The orchestrator: accepts jobs over HTTP, schedules and stores them.",
    prefix: ENV_PREFIX,
    sample: include_str!("../../../deploy/orchestrator.toml"),
    variables: &[("RUST_LOG", "log filter, info by default")],
};

const USAGE: &str = "\
Usage: orchestrator backup DIR [--config FILE]   copy the state into a new directory, while it is in use
       orchestrator check DIR                    read such a backup as a whole
       orchestrator restore DIR [--config FILE]  restore it into an empty data directory
       orchestrator migrate --from DIR [--config FILE]
                                                 copy a data directory that is not in use into the
                                                 empty database of PostgreSQL of these settings
";

/// A command that copies the state.
struct Copying {
    command: Copy,
    arguments: Vec<String>,
}

#[derive(Clone, Copy)]
enum Copy {
    Backup,
    Check,
    Restore,
    Migrate,
}

fn main() -> ExitCode {
    daemon::keep_files_private();
    failpoint::listen();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(copying) = Copying::parse(&arguments) {
        return copying.run();
    }
    let (config, probes) = match Command::parse(arguments) {
        Ok(Command::Run { config }) => (config, false),
        Ok(Command::Health { config }) => (config, true),
        Ok(Command::Help) => return say(&format!("{}\n{USAGE}", HELP.text())),
        Ok(Command::Version) => {
            let version = VersionRecord::current();
            return say(&format!(
                "orchestrator {} ({})\n",
                version.git_version, version.git_commit
            ));
        }
        Err(error) => return refuse(EXIT_SETTINGS, &error.into()),
    };
    let settings = match Settings::load(config.as_deref()) {
        Ok(settings) => settings,
        Err(error) => return refuse(EXIT_SETTINGS, &error.into()),
    };
    if probes {
        let (scheme, address) = match (settings.status_listen, settings.exposure()) {
            // The main port may be the leader's.
            (Some(status), _) => (Scheme::Http, status),
            (None, Exposure::Protected) => (Scheme::Https, settings.listen),
            (None, Exposure::OpenLoopback | Exposure::Insecure) => (Scheme::Http, settings.listen),
        };
        return match health::ask(scheme, address, routes::READYZ) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => refuse(EXIT_UNAVAILABLE, &error.into()),
        };
    }
    let _log = telemetry::log::init(settings.log_format);
    match daemon::runtime()
        .context("start threads")
        .and_then(|runtime| runtime.block_on(run(settings)))
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let start = error.downcast_ref::<StartError>();
            let is_of_settings = start.is_some_and(StartError::is_of_settings);
            refuse(if is_of_settings { EXIT_SETTINGS } else { EXIT_UNAVAILABLE }, &error)
        }
    }
}

// === impl Copying ===

impl Copying {
    fn parse(arguments: &[String]) -> Option<Self> {
        let (command, arguments) = arguments.split_first()?;
        let command = match command.as_str() {
            "backup" => Copy::Backup,
            "check" => Copy::Check,
            "restore" => Copy::Restore,
            "migrate" => Copy::Migrate,
            _ => return None,
        };
        let arguments = match (command, arguments) {
            (Copy::Migrate, [option, directory @ ..]) if option == "--from" => directory,
            // What else it is given names no directory.
            (Copy::Migrate, _) => &[],
            (Copy::Backup | Copy::Check | Copy::Restore, arguments) => arguments,
        };
        Some(Self { command, arguments: arguments.to_vec() })
    }

    fn run(self) -> ExitCode {
        let Some((dir, options)) = self.arguments.split_first() else {
            return refuse(EXIT_SETTINGS, &anyhow!("name the directory\n{USAGE}"));
        };
        let config = match Command::parse(options.iter().cloned()) {
            Ok(Command::Run { config }) if !dir.starts_with('-') => config,
            Ok(_) => return say(USAGE),
            Err(error) => return refuse(EXIT_SETTINGS, &error.into()),
        };
        let dir = Path::new(dir);
        let settings = match Settings::load(config.as_deref()) {
            Ok(settings) => settings,
            Err(error) => return refuse(EXIT_SETTINGS, &error.into()),
        };
        // A migration may take minutes, and logs each table.
        let is_long = matches!(self.command, Copy::Migrate);
        let _log = is_long.then(|| telemetry::log::init(settings.log_format));
        let done: Result<String> = match self.command {
            Copy::Backup => backup::back_up(&settings, dir).map_err(Into::into),
            Copy::Check => backup::check(dir).map_err(Into::into),
            Copy::Restore => backup::restore(&settings, dir).map_err(Into::into),
            Copy::Migrate => migrate::migrate(&settings, dir).map_err(Into::into),
        };
        match done {
            Ok(text) => say(&text),
            Err(error) => refuse(EXIT_UNAVAILABLE, &error),
        }
    }
}

async fn run(settings: Settings) -> Result<()> {
    raise_file_limit();
    let mut signals = Signals::listen()?;
    let hangup = signal(SignalKind::hangup()).context("listen for SIGHUP")?;
    let data_dir = settings.data_dir.clone();
    service_manager::status("reading the state database");
    let mut follower = Follower::bind(settings).await.context("start the orchestrator")?;
    let (may_wait, pulse) = (follower.may_wait(), follower.pulse());
    if may_wait {
        service_manager::ready("waiting for the lead");
        tokio::spawn(service_manager::watchdog(pulse.clone()));
    }
    let taken = tokio::select! {
        taken = follower.win() => taken.context("start the orchestrator")?,
        name = signals.stop(), if may_wait => {
            tracing::info!("{name}: stopped");
            return Ok(());
        }
    };
    let started = Orchestrator::lead(follower, taken).await.inspect_err(|error| {
        if let StartError::Driver(_) = error {
            exit_in_time();
        }
    });
    let mut orchestrator = started.context("start the orchestrator")?;
    tracing::info!(
        address = %orchestrator.address(),
        node = %orchestrator.node_id(),
        data_dir = %data_dir.display(),
        "serving"
    );
    let protection = orchestrator.protection();
    if let Some(protection) = &protection {
        let ca_file = protection.ca_file().display();
        tracing::info!(ca = %protection.ca(), %ca_file, "serving over TLS");
    }
    tokio::spawn(reload(hangup, protection));
    service_manager::ready(&format!("serving on {}", orchestrator.address()));
    if !may_wait {
        tokio::spawn(service_manager::watchdog(pulse));
    }
    tokio::select! {
        name = signals.stop() => tracing::info!("{name}: stopping"),
        error = orchestrator.failed() => {
            exit_in_time();
            // Every answered request is on disk; a restart, or another process, continues from there.
            let error = error.map_or_else(|| anyhow!("the driver ended"), anyhow::Error::from);
            return Err(error.context("the orchestrator cannot continue"));
        }
    }
    service_manager::stopping("finishing requests in progress", Duration::ZERO);
    orchestrator.shutdown().await.context("stop the orchestrator")?;
    tracing::info!("stopped");
    Ok(())
}

/// Ends the process soon, whatever hangs in it: another one may lead already.
#[expect(clippy::exit, reason = "the end of main waits for reads that may hang")]
fn exit_in_time() {
    thread::spawn(|| {
        thread::sleep(EXIT_TIMEOUT);
        std::process::exit(i32::from(EXIT_UNAVAILABLE));
    });
}

/// What asks the process to stop.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

// === impl Signals ===

impl Signals {
    fn listen() -> Result<Self> {
        let terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
        let interrupt = signal(SignalKind::interrupt()).context("listen for SIGINT")?;
        Ok(Self { terminate, interrupt })
    }

    /// Waits for one, and returns its name.
    async fn stop(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Reads the operator's certificate again at each SIGHUP.
async fn reload(mut hangup: Signal, protection: Option<Arc<Protection>>) {
    while hangup.recv().await.is_some() {
        match protection.as_deref().map(Protection::reload) {
            Some(Ok(Some(cert))) => {
                tracing::info!(cert = %cert.display(), "SIGHUP: serving with this certificate");
            }
            Some(Ok(None)) | None => tracing::info!("SIGHUP: there is no tls.cert to reload"),
            Some(Err(error)) => {
                let error = anyhow::Error::from(error);
                tracing::error!(
                    error = format!("{error:#}"),
                    "SIGHUP: cannot serve with the new certificate; the old one stays in use"
                );
            }
        }
    }
}

/// Every connection is a file descriptor: the soft limit of a login shell is a thousand, fewer than
/// a thousand agents need.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
}

#[expect(clippy::print_stdout, reason = "the answer to --help and --version")]
fn say(text: &str) -> ExitCode {
    print!("{text}");
    ExitCode::SUCCESS
}

#[expect(clippy::print_stderr, reason = "the log may not be set up yet")]
fn refuse(code: u8, error: &anyhow::Error) -> ExitCode {
    eprintln!("orchestrator: {error:#}");
    ExitCode::from(code)
}
