//! The daemon: settings, log, signals, exit code.

use std::process::ExitCode;

use compute_agent::{Settings, StartError};
use tokio::signal::unix::{SignalKind, signal};
use tracing::error;

/// `EX_USAGE`: the settings are bad.
const BAD_SETTINGS: u8 = 64;
/// `EX_UNAVAILABLE`: the data directory, the ledger or the port cannot be had.
const UNAVAILABLE: u8 = 69;

#[tokio::main]
async fn main() -> ExitCode {
    failpoint::listen();
    let settings = Settings::from_arguments(std::env::args().skip(1));
    telemetry::log::init(settings.as_ref().map_or_else(|_| Default::default(), |s| s.log_format));
    let outcome = match settings {
        Ok(settings) => compute_agent::run(settings, stop_signal).await,
        Err(error) => Err(error.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!(error = &error as &dyn std::error::Error, "the agent cannot start");
            ExitCode::from(match error {
                StartError::Settings(_) => BAD_SETTINGS,
                StartError::DataDir(_)
                | StartError::Ledger(_)
                | StartError::Listen { .. }
                | StartError::Otlp(_)
                | StartError::Capacity(_) => UNAVAILABLE,
            })
        }
    }
}

/// Done at SIGTERM or SIGINT. A process that cannot wait for signals must not run.
async fn stop_signal() {
    let (terminate, interrupt) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    match (terminate, interrupt) {
        (Ok(mut terminate), Ok(mut interrupt)) => {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        }
        (Err(error), _) | (_, Err(error)) => error!(%error, "signals cannot be waited for"),
    }
}
