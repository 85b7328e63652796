//! `jobctl init`: an example of a job file.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::Path;

use anyhow::{Context, Result};

use crate::cli::InitArgs;
use crate::exit::{Exit, UsageError};
use crate::output::{Out, note};
use crate::submission::example;

pub(super) fn init(out: Out, args: &InitArgs) -> Result<Exit> {
    let text = text(args)?;
    if args.file == "-" {
        out.text(&text)?;
        return Ok(Exit::Done);
    }
    write(args, &text).with_context(|| format!("write {}", args.file))?;
    let file = &args.file;
    note(&format!("{file} is written; 'jobctl submit --wait {file}' runs it"));
    Ok(Exit::Done)
}

fn text(args: &InitArgs) -> Result<String> {
    // What is written to standard output will be in a file.
    let yaml = example(args, if args.file == "-" { "job.yaml" } else { &args.file });
    let extension = Path::new(&args.file).extension();
    if !extension.is_some_and(|found| found.eq_ignore_ascii_case("json")) {
        return Ok(yaml);
    }
    let job: serde_json::Value = yaml_serde::from_str(&yaml).context("read the example")?;
    Ok(serde_json::to_string_pretty(&job).context("write JSON")? + "\n")
}

fn write(args: &InitArgs, text: &str) -> Result<()> {
    let mut options = OpenOptions::new();
    options.write(true);
    match args.force {
        true => options.create(true).truncate(true),
        false => options.create_new(true),
    };
    let mut file = options.open(&args.file).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => UsageError::new("the file exists already")
            .with_hint("name another file, or add --force to replace it"),
        _ => UsageError::new(error.to_string()),
    })?;
    file.write_all(text.as_bytes())?;
    Ok(())
}
