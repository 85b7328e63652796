//! `jobctl validate`: what would become of a job, without storing it.

use anyhow::Result;
use bytes::Bytes;

use super::{Exit, Session};
use crate::cli::ValidateArgs;
use crate::output::{Format, Layout, note};
use crate::submission;
use crate::view::{NodeVerdict, job_fields};

pub(super) async fn validate(session: &Session, args: &ValidateArgs) -> Result<Exit> {
    show(session, submission::read(&args.file)?, args.output.format).await
}

/// The job as it would be stored, and what each node would do with it.
pub(super) async fn show(session: &Session, body: Bytes, format: Format) -> Result<Exit> {
    let out = session.out;
    let answer = session.client.dry_run_job_raw(body).await?;
    for warning in &answer.warnings {
        note(&format!("warning: {warning}"));
    }
    match format {
        Format::Json => out.json(&answer)?,
        Format::Yaml => out.yaml(&answer)?,
        Format::Name => {
            let chosen = answer.nodes.iter().filter(|node| node.chosen);
            out.text(&chosen.map(|node| format!("{}\n", node.node_id)).collect::<String>())?;
        }
        Format::Table | Format::Wide => {
            let layout = Layout::of(format);
            out.fields(&job_fields(&answer.job, layout.now))?;
            out.line("")?;
            if answer.nodes.is_empty() {
                out.line("No compute node is known: the job would wait.")?;
                return Ok(Exit::Done);
            }
            let hosts = session.hostnames().await?;
            out.list(format, &layout, &NodeVerdict::all(&answer.nodes, &hosts))?;
            if !answer.nodes.iter().any(|node| node.chosen) {
                out.line("\nNo node can take it now: the job would wait.")?;
            }
        }
    }
    Ok(Exit::Done)
}
