//! Demonstrates the service: starts a cluster in this process, runs a job, shows its results.

use std::io::IsTerminal;
use std::process::ExitCode;

use demo::{Choice, DemoCluster, DemoError, Story, Terminal};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::EnvFilter;

const USAGE: &str = "usage: demo [--once] [--engine docker|wasm]

Starts an orchestrator and two agents in this process, runs a job on them and shows its results.
The job runs in docker, or on the wasm engine if no Docker Engine responds; --engine chooses.
The cluster stays up until Ctrl-C; with --once the demo ends by itself, with 0 on success.";

/// Exit codes of sysexits.h, which all programs of the service use.
const EXIT_USAGE: u8 = 64;
const EXIT_UNAVAILABLE: u8 = 69;

/// The exit code that shells report after Ctrl-C.
const EXIT_INTERRUPTED: u8 = 130;

/// How the demo ended.
enum Ending {
    Success,
    /// The job has a wrong result; the terminal shows the reason.
    WrongResult,
    Interrupted,
}

/// The action that the arguments select.
enum Action {
    Demo { once: bool, choice: Choice },
    Help,
}

/// Signals by which the user ends the demo.
struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

#[tokio::main]
async fn main() -> ExitCode {
    let (once, choice) = match arguments(std::env::args().skip(1)) {
        Some(Action::Demo { once, choice }) => (once, choice),
        Some(Action::Help) => {
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
    // The story goes to standard output, warnings of the daemons to standard error.
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
        // Ctrl-C is the regular end, except with --once.
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

/// Parses the arguments; `None` if they are invalid.
fn arguments(mut arguments: impl Iterator<Item = String>) -> Option<Action> {
    let (mut once, mut choice) = (false, Choice::Automatic);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--help" | "-h" => return Some(Action::Help),
            "--once" => once = true,
            "--engine" => match arguments.next()?.as_str() {
                "docker" => choice = Choice::Docker,
                "wasm" => choice = Choice::Wasm,
                _ => return None,
            },
            _ => return None,
        }
    }
    Some(Action::Demo { once, choice })
}

async fn run(once: bool, choice: Choice) -> Result<Ending, DemoError> {
    let mut interrupts = Interrupts::listen()?;
    let mut terminal = Terminal::stdout();
    let cluster = DemoCluster::start(choice).await?;
    let ending = tokio::select! {
        ending = tell_story(&mut terminal, &cluster, once) => ending,
        () = interrupts.next() => Ok(Ending::Interrupted),
    };
    if !once && matches!(ending, Ok(Ending::Success | Ending::WrongResult)) {
        interrupts.next().await;
    }
    let farewell = match ending {
        Ok(Ending::Interrupted) => farewell(&mut terminal),
        Ok(Ending::Success | Ending::WrongResult) if !once => farewell(&mut terminal),
        _ => Ok(()),
    };
    cluster.end().await;
    farewell?;
    ending
}

fn farewell(terminal: &mut Terminal) -> std::io::Result<()> {
    // A line break after the terminal's `^C`.
    terminal.blank()?;
    terminal.line("Stopping the daemons and their tasks.")
}

async fn tell_story(
    terminal: &mut Terminal,
    cluster: &DemoCluster,
    once: bool,
) -> Result<Ending, DemoError> {
    let nodes = cluster.ready_nodes().await?;
    let mut story = Story::begin(terminal, cluster, &nodes)?;
    let id = story.submit().await?;
    let job = story.follow(id).await?;
    let is_correct = story.show_outputs(&job).await?;
    story.show_history(id).await?;
    if !once {
        story.show_what_to_try(id)?;
    }
    Ok(if is_correct { Ending::Success } else { Ending::WrongResult })
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
