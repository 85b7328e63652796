//! `jobctl get`: downloads the published results of a job.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use api_types::execution::Execution;
use futures_util::{StreamExt, stream};

use crate::cli::GetArgs;
use crate::exit::{self, Exit, UsageError};
use crate::handles::resolve;
use crate::output::{Transfer, note};
use crate::results::{Location, fetch, location, missing, unpack};
use crate::session::Session;
use crate::waiting::executions;

/// Results that are downloaded at the same time: more would share the same line.
const AT_ONCE: usize = 4;

pub(super) async fn get(session: &Session, args: &GetArgs) -> Result<Exit> {
    let namespace = session.namespace(&args.namespace);
    let handle = resolve(session, namespace.as_deref(), &args.job, args.index).await?;
    let job = handle.job();
    let mut all = executions(&session.client, &job.to_string()).await?;
    let wanted = handle.execution().map(|id| id.to_string()).or_else(|| args.execution.clone());
    all.retain(|execution| {
        wanted.as_ref().is_none_or(|id| execution.id.to_string().starts_with(id))
    });
    let published: Vec<_> = all
        .iter()
        .filter_map(|execution| Some((execution, location(&execution.published_result)?)))
        .collect();
    if published.is_empty() {
        note(&format!("jobctl: {job} has no published results (yet)"));
        return Ok(Exit::Broken);
    }
    let directory = args.directory.clone().unwrap_or_else(|| PathBuf::from(job.short()));
    // All targets are checked before the first download.
    let is_one = published.len() == 1;
    let target = |execution: &Execution| match (args.archive, is_one) {
        (true, _) => directory.join(format!("{}.tar.gz", execution.id)),
        (false, true) => directory.clone(),
        (false, false) => directory.join(execution.id.short()),
    };
    for (execution, _) in &published {
        ensure_absent_or_empty(&target(execution))?;
    }
    // Those of silent nodes are not waited for, one after the other.
    let missing = missing(session, &all).await;
    let mut exit = Exit::Done;
    for (_, message) in &missing {
        note(&format!("jobctl: {message}"));
        exit = exit.and(Exit::Unavailable);
    }
    let mut here = Vec::new();
    for (execution, location) in &published {
        if let Some(told) = left_out(&execution.name, &execution.run_output.omitted) {
            note(&told);
        }
        match location {
            Location::Service if missing.iter().any(|(id, _)| *id == execution.id) => {}
            Location::Service => here.push(*execution),
            Location::External { address, hint } => {
                let id = execution.id.short();
                note(&format!("jobctl: {id} published to {address}\n  hint: {hint}"));
                exit = exit.and(Exit::Broken);
            }
        }
    }
    // Several bars would write over one another.
    let quiet = args.quiet || here.len() > 1;
    let download = async |execution: &Execution| -> Result<PathBuf> {
        let target = target(execution);
        let downloaded = download(session, execution, &target, args, quiet).await;
        downloaded.with_context(|| format!("get the results of {}", execution.name))?;
        Ok(target)
    };
    let mut downloads = stream::iter(here).map(|execution| download(execution)).buffered(AT_ONCE);
    while let Some(downloaded) = downloads.next().await {
        match downloaded {
            Ok(target) => session.out.line(&target.display().to_string())?,
            Err(error) => exit = exit.and(exit::report(&error)),
        }
    }
    Ok(exit)
}

async fn download(
    session: &Session,
    execution: &Execution,
    target: &Path,
    args: &GetArgs,
    quiet: bool,
) -> Result<()> {
    let mut archive = tempfile::tempfile().context("create a temporary file")?;
    let transfer = Transfer::new(quiet, &execution.name);
    fetch(&session.client, execution.id, &mut archive, args.max_bytes, &transfer).await?;
    drop(transfer);
    if !args.archive {
        return unpack(archive, target, args.max_bytes);
    }
    let mut write = || -> std::io::Result<()> {
        if let Some(folder) = target.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut file = std::fs::File::create_new(target)?;
        std::io::Seek::rewind(&mut archive)?;
        std::io::copy(&mut archive, &mut file).map(drop)
    };
    write().with_context(|| format!("write {}", target.display()))
}

/// What is not among the results of an execution, if anything.
fn left_out(name: &str, entries: &[String]) -> Option<String> {
    let lines: Vec<_> = entries.iter().map(|entry| format!("\n  {entry}")).collect();
    let lines = lines.concat();
    (!entries.is_empty()).then(|| format!("jobctl: left out of the results of {name}:{lines}"))
}

/// Results are never mixed with existing files.
fn ensure_absent_or_empty(target: &Path) -> Result<(), UsageError> {
    let taken = match std::fs::read_dir(target) {
        Ok(mut entries) => entries.next().is_some(),
        Err(_) => target.exists(),
    };
    if taken {
        return Err(UsageError::new(format!("{} already exists", target.display()))
            .with_hint("specify a directory that is empty or does not exist"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_out_is_named() {
        assert_eq!(left_out("report[2]", &[]), None);
        let told =
            left_out("report[2]", &["o/p: a named pipe".to_owned(), "and 3 more".to_owned()]);
        let expected =
            "jobctl: left out of the results of report[2]:\n  o/p: a named pipe\n  and 3 more";
        assert_eq!(told.as_deref(), Some(expected));
    }
}
