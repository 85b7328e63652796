//! `jobctl stop`: stops jobs, by name or by selector.

use anyhow::Result;
use api_client::{ClientError, JobsQuery};
use api_types::job::JobStateType;
use api_types::summary::JobSummary;

use crate::cli::{NamespaceArgs, StopArgs};
use crate::exit::Exit;
use crate::handles;
use crate::output::{note, preview};
use crate::pages::collect;
use crate::prompt;
use crate::session::{Session, each};

pub(super) async fn stop(session: &Session, args: &StopArgs) -> Result<Exit> {
    if args.selector.is_empty() {
        return stop_each(session, args, &args.jobs).await;
    }
    let live = [JobStateType::Pending, JobStateType::Queued, JobStateType::Running];
    let jobs = selected(session, &args.namespace, &args.selector, Some(&live)).await?;
    if jobs.is_empty() {
        note("no live jobs match");
        return Ok(Exit::Done);
    }
    if !args.yes {
        preview(&jobs);
        if !prompt::confirm(&format!("Stop {}?", counted(jobs.len())))? {
            return Ok(Exit::Interrupted);
        }
    }
    let ids: Vec<_> = jobs.iter().map(|job| job.id.to_string()).collect();
    stop_each(session, args, &ids).await
}

async fn stop_each(session: &Session, args: &StopArgs, jobs: &[String]) -> Result<Exit> {
    let namespace = session.namespace(&args.namespace);
    each(jobs, async |job| {
        let id = handles::job(session, namespace.as_deref(), job).await?;
        let response = session.client.stop_job(id, &args.reason).await?;
        let outcome =
            if response.evaluation_id.is_some() { "is stopped" } else { "was already stopped" };
        session.out.line(&format!("{id} {outcome}"))?;
        Ok(Exit::Done)
    })
    .await
}

/// All jobs of the namespace that match all selectors, newest first.
pub(super) async fn selected(
    session: &Session,
    namespace: &NamespaceArgs,
    selectors: &[String],
    states: Option<&[JobStateType]>,
) -> Result<Vec<JobSummary>, ClientError> {
    let words = |states: &[JobStateType]| {
        states.iter().map(|state| state.as_str()).collect::<Vec<_>>().join(",")
    };
    let query = JobsQuery {
        namespace: session.namespace(namespace),
        labels: selectors.to_vec(),
        state: states.map(words),
        reverse: true,
        ..JobsQuery::default()
    };
    let jobs = collect(None, async |rows, token| {
        let query = JobsQuery { limit: Some(rows), next_token: token, ..query.clone() };
        session.client.summarise_jobs(&query).await.map(|page| (page.jobs, page.next_token))
    });
    Ok(jobs.await?.items)
}

fn counted(jobs: usize) -> String {
    if jobs == 1 { "this job".to_owned() } else { format!("these {jobs} jobs") }
}
