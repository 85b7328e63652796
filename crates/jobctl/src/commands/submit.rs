//! `jobctl submit`: a job from a file.

use std::time::Duration;

use anyhow::Result;
use api_client::ClientError;
use api_types::job::CreateJob;
use bytes::Bytes;

use crate::cli::SubmitArgs;
use crate::clock;
use crate::exit::Exit;
use crate::output::{Format, Progress, note};
use crate::session::Session;
use crate::submission;
use crate::waiting::{self, Interrupts, Waited, job_exit, wait_interruptible};

/// Attempts to send a submission that gets no response, all with one idempotency key.
const ATTEMPTS: u32 = 3;

/// Delay before the second attempt; doubles. A user with a wrong address should not wait long.
const FIRST_DELAY: Duration = Duration::from_millis(200);

pub(super) async fn submit(session: &Session, args: &SubmitArgs) -> Result<Exit> {
    let body = submission::read(&args.file)?;
    let key = args.idempotency_key.clone().unwrap_or_else(clock::fresh_key);
    if !args.wait {
        let response = create(session, body, &key).await?;
        show_created(session, &response, args.output.format)?;
        return Ok(Exit::Done);
    }
    let mut interrupts = Interrupts::listen()?;
    let Some(response) = create_interruptible(session, body, &key, &mut interrupts).await? else {
        return Ok(Exit::Interrupted);
    };
    show_created(session, &response, args.output.format)?;
    let progress = Progress::new(args.waiting.quiet);
    let (client, timeout) = (&session.client, args.waiting.timeout);
    match wait_interruptible(
        client,
        response.job_id,
        timeout,
        progress,
        &mut interrupts,
        std::future::ready(()),
    )
    .await?
    {
        Waited::Reached(job) => {
            let executions = waiting::executions(&session.client, &job.id.to_string()).await?;
            Ok(job_exit(&job, &executions))
        }
        Waited::TimedOut => {
            note(&format!(
                "jobctl: timed out; 'jobctl wait {}' continues to wait",
                response.job_id
            ));
            Ok(Exit::TimedOut)
        }
        Waited::Interrupted => Ok(Exit::Interrupted),
    }
}

/// Sends the job, and again if no response arrives; the key makes repeats harmless.
pub(super) async fn create(session: &Session, body: Bytes, key: &str) -> Result<CreateJob> {
    Ok(repeated(async || session.client.create_job_raw(body.clone(), Some(key)).await).await?)
}

/// Sends a request that has an idempotency key until a response arrives.
pub(super) async fn repeated<T>(
    send: impl AsyncFn() -> Result<T, ClientError>,
) -> Result<T, ClientError> {
    let mut delay = FIRST_DELAY;
    for _ in 1..ATTEMPTS {
        match send().await {
            Err(error) if error.is_transient() => {
                tokio::time::sleep(delay).await;
                delay *= 2;
            }
            response => return response,
        }
    }
    send().await
}

/// The same with Ctrl-C; `None` if it arrives before the response.
pub(super) async fn create_interruptible(
    session: &Session,
    body: Bytes,
    key: &str,
    interrupts: &mut Interrupts,
) -> Result<Option<CreateJob>> {
    tokio::select! {
        response = create(session, body, key) => response.map(Some),
        () = interrupts.next() => {
            note("interrupted before the service responded: check with 'jobctl list' whether the job exists");
            Ok(None)
        }
    }
}

/// Writes only the ID to stdout, for scripts; warnings go to stderr.
pub(super) fn show_created(session: &Session, response: &CreateJob, format: Format) -> Result<()> {
    for warning in &response.warnings {
        note(&format!("warning: {warning}"));
    }
    match format {
        Format::Table | Format::Wide | Format::Name => {
            session.out.line(&response.job_id.to_string())
        }
        Format::Json => session.out.json(response),
        Format::Yaml => session.out.yaml(response),
    }
}
