//! `jobctl run`: a job from arguments, its output, and its exit code.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result};
use api_types::execution::Execution;
use api_types::job::CreateJob;
use api_types::submission::CreateJobRequest;
use bytes::Bytes;

use super::submit::{create, create_interruptible, show_created};
use super::validate;
use crate::cli::RunArgs;
use crate::clock;
use crate::exit::{Exit, UsageError};
use crate::logs;
use crate::output::{Format, Progress, note};
use crate::session::Session;
use crate::submission::{after, check_size, shorthand};
use crate::waiting::{self, Interrupts, Waited, job_exit, wait_interruptible};

/// How the end of a job is awaited.
#[derive(Debug, Clone, Copy)]
pub(super) struct Watch {
    /// Output is shown while the task runs.
    pub(super) follow: bool,
    pub(super) quiet: bool,
    pub(super) timeout: Option<Duration>,
}

pub(super) async fn run(session: &Session, args: &RunArgs) -> Result<Exit> {
    let format = args.output.format;
    refuse_format("run", format, args.detach || args.dry_run)?;
    let namespace = args.job.namespace.namespace.clone().or_else(|| session.namespace.clone());
    let mut job = shorthand(args, namespace.clone())?;
    job.depends_on = after(session, namespace.as_deref(), &args.job.after, &mut job).await?;
    let request = CreateJobRequest { job: Some(job.clone()) };
    let body = Bytes::from(serde_json::to_vec(&request).context("write JSON")?);
    check_size(&body, &job, &args.task.inputs)?;
    if args.dry_run {
        return validate::show(session, body, format).await;
    }
    let key = clock::fresh_key();
    if args.detach {
        let response = create(session, body, &key).await?;
        return show_created(session, &response, format).map(|()| Exit::Done);
    }
    let mut interrupts = Interrupts::listen()?;
    let Some(response) = create_interruptible(session, body, &key, &mut interrupts).await? else {
        return Ok(Exit::Interrupted);
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

/// Output of the task has no format.
pub(super) fn refuse_format(command: &str, format: Format, shows_record: bool) -> Result<()> {
    if format == Format::Table || shows_record {
        return Ok(());
    }
    let refused = format!("{command} shows the output of the task and has no other format");
    Err(UsageError::new(refused).with_hint("use -o with --detach or --dry-run").into())
}

pub(super) async fn wait_and_show(
    session: &Session,
    watch: Watch,
    response: &CreateJob,
    interrupts: &mut Interrupts,
) -> Result<Exit> {
    let client = &session.client;
    let id = response.job_id;
    let progress = Progress::new(watch.quiet);
    let mut spinner = progress.spinner();
    // A person watches; a program gets the whole output of each execution, in order.
    let follows = watch.follow || session.out.is_terminal();
    let reader = async {
        if follows {
            let shown = logs::follow(client, id, session.out, &mut spinner).await;
            if let Err(error) = shown {
                note(&format!("jobctl: cannot follow the output: {error:#}"));
                note(&format!("'jobctl logs {id}' shows it"));
            }
        }
    };
    match wait_interruptible(client, id, watch.timeout, progress, interrupts, reader).await? {
        Waited::Reached(job) => {
            let executions = waiting::executions(client, &id.to_string()).await?;
            if !follows && let Err(error) = logs::all(client, &job, session.out).await {
                note(&format!("jobctl: cannot get all of the output: {error:#}"));
                show_output(session, &executions)?;
            }
            Ok(job_exit(&job, &executions))
        }
        Waited::TimedOut => {
            note(&format!("jobctl: timed out; 'jobctl wait {id}' continues to wait"));
            Ok(Exit::TimedOut)
        }
        Waited::Interrupted => Ok(Exit::Interrupted),
    }
}

/// Shows the stored output of the executions; with several, their names prefix the lines.
fn show_output(session: &Session, executions: &[Execution]) -> Result<()> {
    // A retried execution is replaced by its retry.
    let last: Vec<_> = executions.iter().filter(|found| found.next_execution.is_none()).collect();
    let many = last.len() > 1;
    for execution in &last {
        let output = &execution.run_output;
        let prefix = if many { format!("{} ", execution.name) } else { String::new() };
        session.out.text(&prefixed(&output.stdout, &prefix))?;
        std::io::stderr().write_all(prefixed(&output.stderr, &prefix).as_bytes())?;
        for (cut, stream) in
            [(output.stdout_truncated, "stdout"), (output.stderr_truncated, "stderr")]
        {
            if cut {
                note(&format!("jobctl: {stream} of {} is truncated", execution.id.short()));
            }
        }
    }
    Ok(())
}

fn prefixed(text: &str, prefix: &str) -> String {
    if prefix.is_empty() {
        return text.to_owned();
    }
    text.lines().map(|line| format!("{prefix}{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_several_executions_have_a_prefix() {
        assert_eq!(prefixed("a\nb", "n[0] "), "n[0] a\nn[0] b\n");
        assert_eq!(prefixed("a\nb", ""), "a\nb");
    }
}
