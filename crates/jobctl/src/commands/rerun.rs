//! `jobctl rerun`: indexes of a job that has ended, again.

use anyhow::Result;
use api_client::ClientError;
use api_types::JobId;
use api_types::job::CreateJob;
use api_types::rerun::{Only, RerunJobRequest};

use super::graph;
use super::run::{Watch, refuse_format, wait_and_show};
use super::submit::{repeated, show_created};
use super::validate;
use crate::cli::RerunArgs;
use crate::clock;
use crate::exit::Exit;
use crate::handles;
use crate::output::note;
use crate::session::Session;
use crate::submission;
use crate::waiting::Interrupts;

pub(super) async fn rerun(session: &Session, args: &RerunArgs) -> Result<Exit> {
    let format = args.output.format;
    refuse_format("rerun", format, args.detach || args.dry_run || args.downstream)?;
    let patch = args.patch.as_deref().map(submission::read_patch).transpose()?;
    let only = match (args.failed, args.not_completed) {
        (true, _) => Only::Failed,
        (false, true) => Only::NotCompleted,
        (false, false) => Only::All,
    };
    let only = Some(only.as_str().to_owned());
    let downstream = args.downstream.then_some(true);
    let request = RerunJobRequest { only, indexes: args.indexes.clone(), patch, downstream };
    let namespace = session.namespace(&args.namespace);
    let id = handles::job(session, namespace.as_deref(), &args.job).await?;
    if args.dry_run {
        return validate::present(
            session,
            session.client.dry_run_rerun(id, &request).await?,
            format,
        )
        .await;
    }
    let key = args.idempotency_key.clone().unwrap_or_else(clock::fresh_key);
    if args.downstream {
        let call = async || session.client.rerun_downstream(id, &request, Some(&key)).await;
        return graph::show(session, &repeated(call).await?, format).map(|()| Exit::Done);
    }
    if args.detach {
        let response = send(session, id, &request, &key).await?;
        return show_created(session, &response, format).map(|()| Exit::Done);
    }
    let mut interrupts = Interrupts::listen()?;
    let response = tokio::select! {
        response = send(session, id, &request, &key) => response?,
        () = interrupts.next() => {
            note("interrupted before the service responded: check with 'jobctl list' whether the job exists");
            return Ok(Exit::Interrupted);
        }
    };
    for warning in &response.warnings {
        note(&format!("warning: {warning}"));
    }
    if !args.quiet {
        note(&format!("{} is submitted", response.job_id));
    }
    let watch = Watch { follow: args.follow, quiet: args.quiet, timeout: args.wait_timeout };
    wait_and_show(session, watch, &response, &mut interrupts).await
}

async fn send(
    session: &Session,
    id: JobId,
    request: &RerunJobRequest,
    key: &str,
) -> Result<CreateJob, ClientError> {
    repeated(async || session.client.rerun_job(id, request, Some(key)).await).await
}
