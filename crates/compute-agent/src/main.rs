//! The daemon: settings, log, signals, exit code.

use std::path::PathBuf;
use std::process::ExitCode;

use api_types::routes;
use api_types::version::VersionRecord;
use compute_agent::settings::ENV_PREFIX;
use compute_agent::{EnrolError, Settings, StartError};
use daemon::Command;
use daemon::health::{self, Scheme};
use daemon::help::Help;
use tokio::signal::unix::{SignalKind, signal};
use tracing::error;

/// `EX_USAGE`: the settings or the identity are invalid, so another start would not help.
const BAD_SETTINGS: u8 = 64;
/// `EX_UNAVAILABLE`: the data directory, the ledger or the port is not available.
const UNAVAILABLE: u8 = 69;

const HELP: Help = Help {
    program: "compute-agent",
    about: "The compute agent: joins an orchestrator, and runs on this node the tasks that it assigns.",
    prefix: ENV_PREFIX,
    sample: include_str!("../../../deploy/compute-agent.toml"),
    variables: &[
        ("RUST_LOG", "log filter, info by default"),
        ("DOCKER_HOST", "the Docker Engine, when docker.host is not set"),
        ("AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL, ...", "for S3"),
    ],
};

fn main() -> ExitCode {
    daemon::keep_files_private();
    if std::env::args().nth(1).as_deref() == Some(compute_agent::FETCH) {
        return compute_agent::fetch();
    }
    if let Err(error) = confine::keep_memory_private() {
        return refuse(UNAVAILABLE, &error);
    }
    failpoint::listen();
    let (config, probes) = match Command::parse(std::env::args().skip(1)) {
        Ok(Command::Run { config }) => (config, false),
        Ok(Command::Health { config }) => (config, true),
        Ok(Command::Help) => return say(&HELP.text()),
        Ok(Command::Version) => {
            let version = VersionRecord::current();
            return say(&format!(
                "compute-agent {} ({})\n",
                version.git_version, version.git_commit
            ));
        }
        Err(error) => return refuse(BAD_SETTINGS, &error),
    };
    let settings = match Settings::load(config.as_deref()) {
        Ok(settings) => settings,
        Err(error) => return refuse(BAD_SETTINGS, &error),
    };
    if probes {
        return match health::ask(Scheme::Http, settings.listen, routes::READYZ) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => refuse(UNAVAILABLE, &error),
        };
    }
    match daemon::runtime() {
        Ok(runtime) => runtime.block_on(run(settings)),
        Err(error) => refuse(UNAVAILABLE, &error),
    }
}

async fn run(mut settings: Settings) -> ExitCode {
    // Also after an upgrade has replaced the file.
    settings.program = Some(PathBuf::from("/proc/self/exe"));
    let _log = telemetry::log::init(settings.log_format);
    match compute_agent::run(settings, stop_signal).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!(error = &error as &dyn std::error::Error, "the agent cannot run");
            ExitCode::from(match error {
                StartError::Settings(_)
                | StartError::Copy { .. }
                | StartError::Enrol(EnrolError::NoToken | EnrolError::Address(_)) => BAD_SETTINGS,
                StartError::DataDir(_)
                | StartError::Ledger(_)
                | StartError::Listen { .. }
                | StartError::LocalToken(_)
                | StartError::Thread(_)
                | StartError::Otlp(_)
                | StartError::Enrol(_)
                | StartError::OtherNode { .. }
                | StartError::Capacity(_) => UNAVAILABLE,
            })
        }
    }
}

/// Resolves at SIGTERM or SIGINT. A process that cannot wait for signals must not run.
async fn stop_signal() {
    let (terminate, interrupt) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    match (terminate, interrupt) {
        (Ok(mut terminate), Ok(mut interrupt)) => {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        }
        (Err(error), _) | (_, Err(error)) => error!(%error, "cannot wait for signals"),
    }
}

#[expect(clippy::print_stdout, reason = "the output of --help and --version")]
fn say(text: &str) -> ExitCode {
    print!("{text}");
    ExitCode::SUCCESS
}

#[expect(clippy::print_stderr, reason = "the log is not set up yet")]
fn refuse(code: u8, error: &dyn std::error::Error) -> ExitCode {
    eprint!("compute-agent: {error}");
    let mut cause = error.source();
    while let Some(deeper) = cause {
        eprint!(": {deeper}");
        cause = deeper.source();
    }
    eprintln!();
    ExitCode::from(code)
}
