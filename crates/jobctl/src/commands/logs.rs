//! `jobctl logs`: the output of a job's tasks, or of the jobs that a selector matches.

use anyhow::Result;
use api_client::JobLogsQuery;
use api_types::JobId;
use api_types::log::LogStream;
use futures_util::StreamExt;
use futures_util::future::join_all;

use super::stop::selected;
use crate::cli::{LogStream as Word, LogsArgs};
use crate::exit::{self, Exit};
use crate::handles::resolve;
use crate::logs::{Printer, read};
use crate::output::{note, preview};
use crate::prompt;
use crate::session::Session;

/// Of more jobs than these, a selector asks first: each is a request, and their output is long.
const UNASKED_JOBS: usize = 10;

pub(super) async fn logs(session: &Session, args: &LogsArgs) -> Result<Exit> {
    let Some(job) = &args.job else { return of_selected(session, args).await };
    let namespace = session.namespace(&args.namespace);
    let handle = resolve(session, namespace.as_deref(), job, args.index).await?;
    let (job, execution) = (handle.job(), handle.execution().map(|id| id.to_string()));
    let query = query(args, args.execution.clone().or(execution));
    let client = &session.client;
    if args.raw {
        let mut bytes = client.job_logs_text(job, &query).await?;
        while let Some(piece) = bytes.next().await {
            session.out.bytes(&piece?)?;
        }
        return Ok(Exit::Done);
    }
    let mut printer = Printer::new(session.out);
    if query.execution_id.is_none() {
        printer = printer.for_job(&client.describe_job(job).await?);
    }
    if args.timestamps {
        printer = printer.with_timestamps();
    }
    read(client, job, &query, &mut printer).await?;
    Ok(Exit::Done)
}

fn query(args: &LogsArgs, execution_id: Option<String>) -> JobLogsQuery {
    JobLogsQuery {
        execution_id,
        follow: args.follow,
        tail: args.tail,
        stream: args.stream.map(|stream| match stream {
            Word::Stdout => LogStream::Stdout,
            Word::Stderr => LogStream::Stderr,
        }),
        by_time: false,
        from: None,
    }
}

/// One job after the other, or with `--follow` all at the same time; lines begin with the job.
async fn of_selected(session: &Session, args: &LogsArgs) -> Result<Exit> {
    let mut jobs = selected(session, &args.namespace, &args.selector, None).await?;
    // The oldest first, as lines are.
    jobs.reverse();
    if jobs.is_empty() {
        note("no jobs match");
        return Ok(Exit::Done);
    }
    if jobs.len() > UNASKED_JOBS && !args.yes {
        preview(&jobs);
        if !prompt::confirm(&format!("Show the output of these {} jobs?", jobs.len()))? {
            return Ok(Exit::Interrupted);
        }
    } else {
        let names: Vec<_> = jobs.iter().map(|job| job.name.as_str()).collect();
        note(&format!("output of {}", names.join(", ")));
    }
    let query = query(args, None);
    let show = async |id: JobId, name: &str| -> Result<()> {
        let mut printer = Printer::new(session.out).labelled(name);
        if args.timestamps {
            printer = printer.with_timestamps();
        }
        read(&session.client, id, &query, &mut printer).await
    };
    let mut outcomes = Vec::new();
    if args.follow {
        outcomes = join_all(jobs.iter().map(|job| show(job.id, &job.name))).await;
    } else {
        for job in &jobs {
            outcomes.push(show(job.id, &job.name).await);
        }
    }
    let exits = outcomes.into_iter().filter_map(Result::err).map(|error| exit::report(&error));
    Ok(exits.fold(Exit::Done, Exit::and))
}
