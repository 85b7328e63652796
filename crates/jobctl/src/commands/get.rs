//! `jobctl get`: downloads the published results of a job.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use api_types::execution::Execution;

use super::{Exit, Session};
use crate::cli::GetArgs;
use crate::exit::UsageError;
use crate::output::{Transfer, note};
use crate::results::{Location, fetch, location, unpack};
use crate::waiting::executions;

pub(super) async fn get(session: &Session, args: &GetArgs) -> Result<Exit> {
    let job = session.client.describe_job(&args.job).await?;
    let all = executions(&session.client, &job.id.to_string()).await?;
    let is_selected = |execution: &&Execution| {
        args.execution.as_ref().is_none_or(|id| execution.id.to_string().starts_with(id))
    };
    let published: Vec<_> = all
        .iter()
        .filter(is_selected)
        .filter_map(|execution| Some((execution, location(&execution.published_result)?)))
        .collect();
    if published.is_empty() {
        note(&format!("jobctl: {} has no published results (yet)", job.id));
        return Ok(Exit::Broken);
    }
    let directory = args.directory.clone().unwrap_or_else(|| PathBuf::from(job.id.short()));
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
    let mut exit = Exit::Done;
    for (execution, location) in &published {
        match location {
            Location::Url(url) => {
                let target = target(execution);
                download(session, url, execution, &target, args).await?;
                session.out.line(&target.display().to_string())?;
            }
            Location::External { address, hint } => {
                let id = execution.id.short();
                note(&format!("jobctl: {id} published to {address}\n  hint: {hint}"));
                exit = exit.and(Exit::Broken);
            }
        }
    }
    Ok(exit)
}

async fn download(
    session: &Session,
    url: &str,
    execution: &Execution,
    target: &Path,
    args: &GetArgs,
) -> Result<()> {
    let mut archive = tempfile::tempfile().context("create a temporary file")?;
    let transfer = Transfer::new(args.quiet, &execution.id.short());
    fetch(&session.client, execution.id, url, &mut archive, &transfer).await?;
    drop(transfer);
    if !args.archive {
        return unpack(archive, target);
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
