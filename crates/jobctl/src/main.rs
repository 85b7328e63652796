//! `jobctl`: submits and watches jobs and manages nodes over the HTTP API.

mod cli;
mod clock;
mod commands;
mod config;
mod exit;
mod logs;
mod output;
mod pages;
mod prompt;
mod reconnect;
mod results;
mod submission;
mod view;
mod waiting;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::Cli;
use crate::exit::Exit;

// The client sends one request at a time and needs one thread.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to stdout and are no errors.
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Done };
            return match error.print() {
                Ok(()) => exit.into(),
                Err(_) => Exit::Broken.into(),
            };
        }
    };
    match commands::run(cli).await {
        Ok(exit) => exit.into(),
        Err(error) => exit::report(&error).into(),
    }
}
