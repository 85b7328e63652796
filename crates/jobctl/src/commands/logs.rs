//! `jobctl logs`: the output of a job's tasks.

use anyhow::Result;
use api_client::JobLogsQuery;
use api_types::log::LogStream;
use futures_util::StreamExt;

use super::{Exit, Session};
use crate::cli::{LogStream as Word, LogsArgs};
use crate::logs::{Printer, read};

pub(super) async fn logs(session: &Session, args: &LogsArgs) -> Result<Exit> {
    let query = JobLogsQuery {
        execution_id: args.execution.clone(),
        follow: args.follow,
        tail: args.tail,
        stream: args.stream.map(|stream| match stream {
            Word::Stdout => LogStream::Stdout,
            Word::Stderr => LogStream::Stderr,
        }),
        from: None,
    };
    let client = &session.client;
    if args.raw {
        let mut bytes = client.job_logs_text(&args.job, &query).await?;
        while let Some(piece) = bytes.next().await {
            session.out.bytes(&piece?)?;
        }
        return Ok(Exit::Done);
    }
    let mut printer = Printer::new(session.out);
    if args.execution.is_none() {
        printer = printer.of(&client.describe_job(&args.job).await?);
    }
    if args.timestamps {
        printer = printer.with_timestamps();
    }
    read(client, &args.job, &query, &mut printer).await?;
    Ok(Exit::Done)
}
