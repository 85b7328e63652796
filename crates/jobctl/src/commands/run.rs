//! `jobctl run`: a job from arguments, its output, and its exit code.

use std::io::Write;

use anyhow::{Context, Result};
use api_types::execution::Execution;
use api_types::job::CreateJob;
use api_types::submission::CreateJobRequest;
use bytes::Bytes;

use super::submit::{accepted, create, create_attended};
use super::{Exit, Session, validate};
use crate::cli::RunArgs;
use crate::clock;
use crate::exit::UsageError;
use crate::logs;
use crate::output::{Format, Progress, note};
use crate::submission::shorthand;
use crate::waiting::{self, Interrupts, Waited, attended, verdict};

pub(super) async fn run(session: &Session, args: &RunArgs) -> Result<Exit> {
    let format = args.output.format;
    if format != Format::Table && !args.detach && !args.dry_run {
        return Err(UsageError::new("what a run shows is the output of its task")
            .with_hint("-o is for --detach and --dry-run")
            .into());
    }
    let namespace = args.job.namespace.namespace.clone().or_else(|| session.namespace.clone());
    let job = CreateJobRequest { job: Some(shorthand(args, namespace)?) };
    let body = Bytes::from(serde_json::to_vec(&job).context("write JSON")?);
    if args.dry_run {
        return validate::show(session, body, format).await;
    }
    let key = clock::fresh_key();
    if args.detach {
        let answer = create(session, body, &key).await?;
        return accepted(session, &answer, format).map(|()| Exit::Done);
    }
    let mut interrupts = Interrupts::listen()?;
    let Some(answer) = create_attended(session, body, &key, &mut interrupts).await? else {
        return Ok(Exit::Interrupted);
    };
    for warning in &answer.warnings {
        note(&format!("warning: {warning}"));
    }
    if !args.quiet {
        note(&format!("{} is submitted", answer.job_id));
    }
    attend(session, args, &answer, &mut interrupts).await
}

async fn attend(
    session: &Session,
    args: &RunArgs,
    answer: &CreateJob,
    interrupts: &mut Interrupts,
) -> Result<Exit> {
    let client = &session.client;
    let id = answer.job_id;
    let progress = Progress::new(args.quiet);
    let mut curtain = progress.curtain();
    let reader = async {
        if args.follow {
            let shown = logs::follow(client, id, session.out, &mut curtain).await;
            if let Err(error) = shown {
                note(&format!("jobctl: the output cannot be followed: {error:#}"));
            }
        }
    };
    match attended(client, id, args.wait_timeout, progress, interrupts, reader).await? {
        Waited::Reached(job) => {
            let executions = waiting::executions(client, &id.to_string()).await?;
            if !args.follow
                && let Err(error) = logs::all(client, &job, session.out).await
            {
                note(&format!("jobctl: not all of the output can be had: {error:#}"));
                show_output(session, &executions)?;
            }
            Ok(verdict(&job, &executions))
        }
        Waited::TimedOut => {
            note(&format!("jobctl: the time is over; 'jobctl wait {id}' goes on"));
            Ok(Exit::TimedOut)
        }
        Waited::Left => Ok(Exit::Interrupted),
    }
}

/// What the service kept of what the executions wrote; which of several it was stands before each line.
fn show_output(session: &Session, executions: &[Execution]) -> Result<()> {
    // An execution that was retried is followed by its retry.
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
                note(&format!("jobctl: {stream} of {} was longer", execution.id.short()));
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
    fn lines_of_several_executions_say_whose_they_are() {
        assert_eq!(prefixed("a\nb", "n[0] "), "n[0] a\nn[0] b\n");
        assert_eq!(prefixed("a\nb", ""), "a\nb");
    }
}
