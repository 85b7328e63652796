//! `jobctl wait`: waits until jobs have ended or run.

use std::time::Instant;

use anyhow::Result;
use api_types::job::JobStateType;

use super::{Exit, Session, each};
use crate::cli::WaitArgs;
use crate::output::{Progress, note};
use crate::waiting::{self, Waited, job_exit, until};

/// Waits for one job after the other, with one timeout for all: the jobs run concurrently.
pub(super) async fn wait(session: &Session, args: &WaitArgs) -> Result<Exit> {
    let begin = Instant::now();
    each(&args.jobs, async |job| {
        let left = args.waiting.timeout.map(|timeout| timeout.saturating_sub(begin.elapsed()));
        let mut progress = Progress::new(args.waiting.quiet);
        let waited = until(&session.client, job, args.goal, left, &mut progress).await?;
        drop(progress);
        let Waited::Reached(job) = waited else {
            note(&format!("jobctl: timed out; 'jobctl wait {job}' continues to wait"));
            return Ok(Exit::TimedOut);
        };
        session.out.line(&format!("{} {}", job.id, job.state.state_type))?;
        let executions = if job.state.state_type == JobStateType::Failed {
            waiting::executions(&session.client, &job.id.to_string()).await?
        } else {
            Vec::new()
        };
        Ok(job_exit(&job, &executions))
    })
    .await
}
