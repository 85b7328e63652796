//! `jobctl submit`: a job from a file.

use std::time::Duration;

use anyhow::Result;
use api_types::job::CreateJob;
use bytes::Bytes;

use super::{Exit, Session};
use crate::cli::SubmitArgs;
use crate::clock;
use crate::output::{Format, Progress, note};
use crate::submission;
use crate::waiting::{self, Interrupts, Waited, attended, verdict};

/// How often a submission without an answer is sent, all under one idempotency key.
const ATTEMPTS: u32 = 3;

/// Before the second attempt; doubles. A person with a wrong address should not wait long.
const FIRST_DELAY: Duration = Duration::from_millis(200);

pub(super) async fn submit(session: &Session, args: &SubmitArgs) -> Result<Exit> {
    let body = submission::read(&args.file)?;
    let key = args.idempotency_key.clone().unwrap_or_else(clock::fresh_key);
    if !args.wait {
        let answer = create(session, body, &key).await?;
        accepted(session, &answer, args.output.format)?;
        return Ok(Exit::Done);
    }
    let mut interrupts = Interrupts::listen()?;
    let Some(answer) = create_attended(session, body, &key, &mut interrupts).await? else {
        return Ok(Exit::Interrupted);
    };
    accepted(session, &answer, args.output.format)?;
    let progress = Progress::new(args.waiting.quiet);
    let (client, timeout) = (&session.client, args.waiting.timeout);
    match attended(
        client,
        answer.job_id,
        timeout,
        progress,
        &mut interrupts,
        std::future::ready(()),
    )
    .await?
    {
        Waited::Reached(job) => {
            let executions = waiting::executions(&session.client, &job.id.to_string()).await?;
            Ok(verdict(&job, &executions))
        }
        Waited::TimedOut => {
            note(&format!("jobctl: the time is over; 'jobctl wait {}' goes on", answer.job_id));
            Ok(Exit::TimedOut)
        }
        Waited::Left => Ok(Exit::Interrupted),
    }
}

/// Sends the job; again when no answer came, which the key makes harmless.
pub(super) async fn create(session: &Session, body: Bytes, key: &str) -> Result<CreateJob> {
    let mut delay = FIRST_DELAY;
    for _ in 1..ATTEMPTS {
        match session.client.create_job_raw(body.clone(), Some(key)).await {
            Err(error) if error.is_transient() => {
                tokio::time::sleep(delay).await;
                delay *= 2;
            }
            answer => return Ok(answer?),
        }
    }
    Ok(session.client.create_job_raw(body, Some(key)).await?)
}

/// The same for whoever waits; none when Ctrl-C came before the answer.
pub(super) async fn create_attended(
    session: &Session,
    body: Bytes,
    key: &str,
    interrupts: &mut Interrupts,
) -> Result<Option<CreateJob>> {
    tokio::select! {
        answer = create(session, body, key) => answer.map(Some),
        () = interrupts.next() => {
            note("interrupted before the service answered: see 'jobctl list' for whether it has the job");
            Ok(None)
        }
    }
}

/// Shows the ID alone, so that scripts can take it; warnings are for people.
pub(super) fn accepted(session: &Session, answer: &CreateJob, format: Format) -> Result<()> {
    for warning in &answer.warnings {
        note(&format!("warning: {warning}"));
    }
    match format {
        Format::Table | Format::Wide | Format::Name => session.out.line(&answer.job_id.to_string()),
        Format::Json => session.out.json(answer),
        Format::Yaml => session.out.yaml(answer),
    }
}
