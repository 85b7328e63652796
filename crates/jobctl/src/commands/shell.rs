//! `jobctl completions` and `jobctl man`: files for packages.

use std::path::Path;

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;

use super::Exit;
use crate::cli::Cli;
use crate::output::Out;

pub(super) fn completions(out: Out, shell: Shell) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "jobctl", &mut script);
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
