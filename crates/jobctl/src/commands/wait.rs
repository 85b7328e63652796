//! `jobctl wait`: waits until jobs have ended or run.

use std::cell::Cell;
use std::time::Instant;

use anyhow::Result;
use api_types::JobId;
use api_types::engine::PublisherType;
use api_types::job::{Job, JobStateType, Task};
use api_types::words::job_word;
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;

use crate::cli::WaitArgs;
use crate::exit::{self, Exit};
use crate::handles;
use crate::output::{Progress, Shared, note};
use crate::results::missing;
use crate::session::Session;
use crate::waiting::{self, Waited, job_exit, until};

/// Waits for all jobs at the same time; they are reported in the order of the arguments.
pub(super) async fn wait(session: &Session, args: &WaitArgs) -> Result<Exit> {
    let begin = Instant::now();
    let namespace = session.namespace(&args.namespace);
    let (all, ended) = (args.jobs.len(), Cell::new(0));
    // Several jobs share one spinner, which counts them.
    let spinner = Shared::new(all == 1 || args.waiting.quiet);
    spinner.show(&format!("0 of {all} jobs"));
    let one = async |job: &str| -> Result<(JobId, Waited)> {
        let id = handles::job(session, namespace.as_deref(), job).await?;
        let left = args.waiting.timeout.map(|timeout| timeout.saturating_sub(begin.elapsed()));
        let mut progress = match all {
            1 => Progress::new(args.waiting.quiet),
            _ => Progress::lines(args.waiting.quiet),
        };
        let waited = until(&session.client, &id.to_string(), args.goal, left, &mut progress).await;
        ended.set(ended.get() + 1);
        spinner.show(&format!("{} of {all} jobs", ended.get()));
        Ok((id, waited?))
    };
    let mut waits: FuturesOrdered<_> = args.jobs.iter().map(|job| one(job)).collect();
    let mut exit = Exit::Done;
    while let Some(waited) = waits.next().await {
        let outcome = match waited {
            Ok((_, Waited::Reached(job))) => report(session, &job).await,
            Ok((id, Waited::TimedOut | Waited::Interrupted)) => {
                note(&format!("jobctl: timed out; 'jobctl wait {id}' continues to wait"));
                Ok(Exit::TimedOut)
            }
            Err(error) => Err(error),
        };
        exit = exit.and(outcome.unwrap_or_else(|error| exit::report(&error)));
    }
    Ok(exit)
}

async fn report(session: &Session, job: &Job) -> Result<Exit> {
    let state = job.state.state_type;
    session.out.line(&format!("{} {}", job.id, job_word(state)))?;
    let is_relayed = |task: &Task| task.publisher.publisher_type == PublisherType::Local;
    let has_results = state == JobStateType::Completed && job.spec.tasks.iter().any(is_relayed);
    if state != JobStateType::Failed && !has_results {
        return Ok(job_exit(job, &[]));
    }
    let executions = waiting::executions(&session.client, &job.id.to_string()).await?;
    for (_, message) in missing(session, &executions).await {
        note(&format!("jobctl: {message}"));
    }
    Ok(job_exit(job, &executions))
}
