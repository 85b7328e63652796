//! `jobctl validate`: a dry run of a job.

use anyhow::Result;
use api_types::job::DryRun;
use api_types::rerun::DownstreamJob;
use bytes::Bytes;

use super::explain::reasons;
use crate::cli::ValidateArgs;
use crate::exit::Exit;
use crate::output::{Format, Layout, note};
use crate::session::Session;
use crate::submission;
use crate::view::{DryRunRow, job_fields};

pub(super) async fn validate(session: &Session, args: &ValidateArgs) -> Result<Exit> {
    show(session, submission::read(&args.file)?, args.output.format).await
}

/// Shows the job as it would be stored, and whether each node would be chosen.
pub(super) async fn show(session: &Session, body: Bytes, format: Format) -> Result<Exit> {
    present(session, session.client.dry_run_job_raw(body).await?, format).await
}

/// Shows the outcome of a dry run.
pub(super) async fn present(session: &Session, response: DryRun, format: Format) -> Result<Exit> {
    let out = session.out;
    for warning in &response.warnings {
        note(&format!("warning: {warning}"));
    }
    match format {
        Format::Json => out.json(&response)?,
        Format::Yaml => out.yaml(&response)?,
        Format::Name => {
            let chosen = response.nodes.iter().filter(|node| node.chosen);
            out.text(&chosen.map(|node| format!("{}\n", node.node_id)).collect::<String>())?;
        }
        Format::Table | Format::Wide => {
            let layout = Layout::for_format(format);
            out.fields(&job_fields(&response.job, layout.now))?;
            if !response.indexes.is_empty() {
                out.line(&format!("\nIndexes that would run: {}", response.indexes))?;
            }
            for DownstreamJob { job_id, name, indexes } in &response.downstream {
                let indexes = if indexes.is_empty() { "all" } else { indexes };
                out.line(&format!("Would run after it: {name} ({job_id}), indexes {indexes}"))?;
            }
            out.line("")?;
            if response.nodes.is_empty() {
                out.line("There is no compute node: the job would wait.")?;
                return Ok(Exit::Done);
            }
            let names = session.node_names(response.nodes.iter().map(|node| node.node_id)).await;
            out.list(format, &layout, &DryRunRow::all(&response.nodes, &names))?;
            if !response.nodes.iter().any(|node| node.chosen) {
                out.line("\nNo node can run it now: the job would wait.")?;
                out.text(&reasons(&response.groups))?;
            }
        }
    }
    Ok(Exit::Done)
}
