//! Shows the service at work: starts a cluster in this process, runs a job, shows its results.

use std::io::IsTerminal;
use std::process::ExitCode;

use testbed::demo::{Choice, DemoCluster, DemoError, Story, Terminal};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::EnvFilter;

const USAGE: &str = "usage: demo [--once] [--engine docker|wasm]

Starts an orchestrator and two agents in this process, runs a job on them and shows its results.
The job runs in docker, or, where no Docker Engine answers, on the wasm engine; --engine chooses.
Stays up afterwards, until Ctrl-C; with --once it ends by itself, with 0 when all went well.";

/// The exit codes of sysexits.h that the service's programs share.
const EXIT_USAGE: u8 = 64;
const EXIT_UNAVAILABLE: u8 = 69;

/// What shells report for a program that Ctrl-C ended.
const EXIT_INTERRUPTED: u8 = 130;

/// How the demo went, if it was not cut short.
enum Ending {
    Success,
    /// The job did not do what it should have; the terminal says why.
    WrongResult,
    Interrupted,
}

/// What the arguments say.
enum Asked {
    Demo { once: bool, choice: Choice },
    Help,
}

/// Whoever waits for the person to end the demo.
struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

#[tokio::main]
async fn main() -> ExitCode {
    let (once, choice) = match arguments(std::env::args().skip(1)) {
        Some(Asked::Demo { once, choice }) => (once, choice),
        Some(Asked::Help) => {
            return match Terminal::stdout().line(USAGE) {
                Ok(()) => ExitCode::SUCCESS,
                Err(_) => ExitCode::FAILURE,
            };
        }
        None => {
            eprintln!("{USAGE}");
            return ExitCode::from(EXIT_USAGE);
        }
    };
    // The story is on standard output; the daemons' own logs only when something is wrong.
    tracing_subscriber::fmt()
        .with_env_filter(
            EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn")),
        )
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    match run(once, choice).await {
        Ok(Ending::Success) => ExitCode::SUCCESS,
        Ok(Ending::WrongResult) => ExitCode::FAILURE,
        // Ctrl-C is how the demo ends, unless it was to show a result.
        Ok(Ending::Interrupted) if once => ExitCode::from(EXIT_INTERRUPTED),
        Ok(Ending::Interrupted) => ExitCode::SUCCESS,
        Err(error @ DemoError::NoDocker(_)) => {
            eprintln!("demo: {error}");
            ExitCode::from(EXIT_UNAVAILABLE)
        }
        Err(error) => {
            eprintln!("demo: {:#}", anyhow::Error::from(error));
            ExitCode::FAILURE
        }
    }
}

/// None when it is not understood.
fn arguments(mut arguments: impl Iterator<Item = String>) -> Option<Asked> {
    let (mut once, mut choice) = (false, Choice::WhatIsThere);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--help" | "-h" => return Some(Asked::Help),
            "--once" => once = true,
            "--engine" => match arguments.next()?.as_str() {
                "docker" => choice = Choice::Docker,
                "wasm" => choice = Choice::Wasm,
                _ => return None,
            },
            _ => return None,
        }
    }
    Some(Asked::Demo { once, choice })
}

async fn run(once: bool, choice: Choice) -> Result<Ending, DemoError> {
    let mut interrupts = Interrupts::listen()?;
    let mut terminal = Terminal::stdout();
    let cluster = DemoCluster::start(choice).await?;
    let told = tokio::select! {
        told = tell(&mut terminal, &cluster, once) => told,
        () = interrupts.next() => Ok(Ending::Interrupted),
    };
    if !once && matches!(told, Ok(Ending::Success | Ending::WrongResult)) {
        interrupts.next().await;
    }
    let farewell = match told {
        Ok(Ending::Interrupted) => farewell(&mut terminal),
        Ok(Ending::Success | Ending::WrongResult) if !once => farewell(&mut terminal),
        _ => Ok(()),
    };
    cluster.end().await;
    farewell?;
    told
}

fn farewell(terminal: &mut Terminal) -> std::io::Result<()> {
    // After the `^C` that the terminal shows.
    terminal.blank()?;
    terminal.line("Stopping the daemons and whatever still runs on them.")
}

async fn tell(
    terminal: &mut Terminal,
    cluster: &DemoCluster,
    once: bool,
) -> Result<Ending, DemoError> {
    let nodes = cluster.ready_nodes().await?;
    let mut story = Story::begin(terminal, cluster, &nodes)?;
    let id = story.submit().await?;
    let job = story.follow(id).await?;
    let right = story.show_outputs(&job).await?;
    story.show_history(id).await?;
    if !once {
        story.show_what_to_try(id)?;
    }
    Ok(if right { Ending::Success } else { Ending::WrongResult })
}

// === impl Interrupts ===

impl Interrupts {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
