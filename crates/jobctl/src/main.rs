//! `jobctl`: submits and watches jobs and manages nodes over the HTTP API.

mod cli;
mod clock;
mod commands;
mod complete;
mod config;
mod exit;
mod habits;
mod handles;
mod logs;
mod output;
mod pages;
mod prompt;
mod reconnect;
mod results;
mod session;
mod submission;
mod view;
mod waiting;

use std::process::ExitCode;

use clap::Parser;
use clap_complete::CompleteEnv;

use crate::cli::Cli;
use crate::exit::Exit;

fn main() -> ExitCode {
    // Ends the program if a shell asks for candidates.
    CompleteEnv::with_factory(complete::command).complete();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refused(&error).into(),
    };
    // The client sends one request at a time and needs one thread.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ran = match runtime {
        Ok(runtime) => {
            let ran = runtime.block_on(commands::run(cli));
            // A thread that reads the keyboard must not delay the exit.
            runtime.shutdown_background();
            ran
        }
        Err(error) => Err(error.into()),
    };
    ran.unwrap_or_else(|error| exit::report(&error)).into()
}

/// A command line that is none, or a request for help.
fn refused(error: &clap::Error) -> Exit {
    // Help and version go to stdout and are no errors.
    let exit = if error.use_stderr() { Exit::Usage } else { Exit::Done };
    if error.print().is_err() {
        return Exit::Broken;
    }
    let words: Vec<_> = std::env::args().skip(1).collect();
    if exit == Exit::Usage
        && let Some(answer) = habits::answer(words.iter().map(String::as_str))
    {
        output::note(&format!("\n  hint: {answer}"));
    }
    exit
}
