//! `jobctl completions` and `jobctl man`: files for packages.

use std::path::Path;

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;
use clap_complete::env::Shells;

use crate::cli::Cli;
use crate::exit::Exit;
use crate::output::Out;

/// The environment variable by which a script asks; the library reads it, too.
const COMPLETE: &str = "COMPLETE";

/// A script with which the shell asks this program for candidates.
pub(super) fn completions(out: Out, shell: Shell) -> Result<Exit> {
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let shell = shells.completer(&shell.to_string()).context("no completion for this shell")?;
    shell
        .write_registration(COMPLETE, "jobctl", "jobctl", "jobctl", &mut script)
        .context("write the script")?;
    out.bytes(&script)?;
    Ok(Exit::Done)
}

pub(super) fn man(out: Out, directory: Option<&Path>) -> Result<Exit> {
    match directory {
        Some(directory) => {
            std::fs::create_dir_all(directory)
                .and_then(|()| clap_mangen::generate_to(Cli::command(), directory))
                .with_context(|| format!("write the manual pages to {}", directory.display()))?;
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut page).context("write the page")?;
            out.bytes(&page)?;
        }
    }
    Ok(Exit::Done)
}
