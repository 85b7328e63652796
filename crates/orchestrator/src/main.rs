//! The orchestrator daemon.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use api_types::version::VersionRecord;
use orchestrator::{Orchestrator, Settings};
use tokio::signal::unix::{SignalKind, signal};

/// `EX_USAGE`: bad settings.
const EXIT_SETTINGS: u8 = 64;

/// `EX_UNAVAILABLE`: something that is needed is missing, or was lost on the way.
const EXIT_UNAVAILABLE: u8 = 69;

const HELP: &str = "\
The orchestrator: takes jobs over HTTP, schedules them, and keeps them.

Usage: orchestrator [--config FILE]

Options:
  --config FILE  read settings from a TOML file
  --help         print this
  --version      print the version

Settings (in FILE by the name in brackets; the environment wins over FILE):
  ORCHESTRATOR_LISTEN               [listen]               address of the API, 127.0.0.1:1234
  ORCHESTRATOR_DATA_DIR             [data_dir]             state database, /var/lib/orchestrator
  ORCHESTRATOR_NODE_TTL             [node_ttl]             seconds until a silent node is lost, 30
  ORCHESTRATOR_APPROVE_NEW_NODES    [approve_new_nodes]    whether new nodes take part at once, true
  ORCHESTRATOR_DRAIN_DEADLINE       [drain_deadline]       seconds a draining node waits for batch
                                                           and ops work to end, 3600
  ORCHESTRATOR_NODE_RETENTION       [node_retention]       seconds until a node that is away is
                                                           forgotten, 2592000 (30 days), 0 for never
  ORCHESTRATOR_JOB_RETENTION        [job_retention]        seconds for which a job is kept after its
                                                           end, 2592000 (30 days), 0 for ever
  ORCHESTRATOR_JOB_RETENTION_COUNT  [job_retention_count]  jobs that are over and kept at most,
                                                           1000000, 0 for all
  ORCHESTRATOR_LOG_FORMAT           [log_format]           text or json, text
  ORCHESTRATOR_OTLP__ENDPOINT       [otlp.endpoint]        base URL of an OTLP collector that takes
                                                           traces over HTTP, none
  ORCHESTRATOR_OTLP__HEADERS        [otlp.headers]         sent to it, NAME=VALUE,NAME=VALUE
  ORCHESTRATOR_OTLP__SAMPLING_RATIO [otlp.sampling_ratio]  which part of all jobs is traced, 1
  RUST_LOG                                                 what is logged, info

Exit codes: 0 after a clean stop, 64 bad settings, 69 something that is needed is missing.
";

/// What the command line asks for.
enum Command {
    Run { config: Option<PathBuf> },
    Help,
    Version,
}

fn main() -> ExitCode {
    failpoint::listen();
    let config = match command(std::env::args().skip(1)) {
        Ok(Command::Run { config }) => config,
        Ok(Command::Help) => return say(HELP),
        Ok(Command::Version) => {
            let version = VersionRecord::current();
            return say(&format!(
                "orchestrator {} ({})\n",
                version.git_version, version.git_commit
            ));
        }
        Err(error) => return refuse(EXIT_SETTINGS, &error),
    };
    let settings = match Settings::load(config.as_deref()) {
        Ok(settings) => settings,
        Err(error) => return refuse(EXIT_SETTINGS, &error.into()),
    };
    telemetry::log::init(settings.log_format);
    match run(settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => refuse(EXIT_UNAVAILABLE, &error),
    }
}

fn command(arguments: impl Iterator<Item = String>) -> Result<Command> {
    let mut arguments = arguments;
    let mut config = None;
    while let Some(argument) = arguments.next() {
        match (argument.as_str(), argument.strip_prefix("--config=")) {
            ("--help" | "-h", _) => return Ok(Command::Help),
            ("--version" | "-V", _) => return Ok(Command::Version),
            (_, Some(path)) => config = Some(PathBuf::from(path)),
            ("--config", None) => {
                let path = arguments.next().ok_or_else(|| anyhow!("--config needs a file"))?;
                config = Some(PathBuf::from(path));
            }
            _ => bail!("unknown argument '{argument}'; try --help"),
        }
    }
    Ok(Command::Run { config })
}

#[tokio::main]
async fn run(settings: Settings) -> Result<()> {
    raise_file_limit();
    let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listen for SIGINT")?;
    let data_dir = settings.data_dir.clone();
    let mut orchestrator = Orchestrator::start(settings).await.context("start the orchestrator")?;
    tracing::info!(
        address = %orchestrator.address(),
        node = %orchestrator.node_id(),
        data_dir = %data_dir.display(),
        "serving"
    );
    tokio::select! {
        _ = terminate.recv() => tracing::info!("SIGTERM: stopping"),
        _ = interrupt.recv() => tracing::info!("SIGINT: stopping"),
        error = orchestrator.failed() => {
            // Nothing was answered that is not on disk; a restart continues from there.
            let error = error.map_or_else(|| anyhow!("the driver ended"), anyhow::Error::from);
            return Err(error.context("the orchestrator cannot go on"));
        }
    }
    orchestrator.shutdown().await.context("stop the orchestrator")?;
    tracing::info!("stopped");
    Ok(())
}

/// Every connection is a file: the soft limit of a login shell is a thousand, which is less than
/// what a thousand agents hold.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the limit of open files stays as it was");
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
