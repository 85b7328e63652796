//! `jobctl top`: the running executions that use most.

use std::time::Duration;

use anyhow::Result;
use api_client::UsageQuery;
use api_types::execution::Execution;
use api_types::usage::ListUsage;

use crate::cli::TopArgs;
use crate::exit::Exit;
use crate::handles;
use crate::output::{Format, Layout, Screen, note};
use crate::reconnect::Reconnect;
use crate::session::Session;
use crate::view::Consumer;

/// Agents measure at most once a second.
const INTERVAL: Duration = Duration::from_secs(2);

pub(super) async fn top(session: &Session, args: &TopArgs) -> Result<Exit> {
    let namespace = args.namespace.clone().or_else(|| session.namespace.clone());
    let job_id = match &args.job {
        Some(text) => Some(handles::job(session, namespace.as_deref(), text).await?.to_string()),
        None => None,
    };
    let node_id = match &args.node {
        Some(text) => Some(handles::node(session, text).await?.to_string()),
        None => None,
    };
    let query = UsageQuery {
        job_id,
        node_id,
        namespace,
        order_by: Some(args.sort_by.word().to_owned()),
        limit: Some(args.limit),
    };
    if args.once {
        let usage = session.client.list_usage(&query).await?;
        show(session, args, usage).await?;
        return Ok(Exit::Done);
    }
    let is_table = matches!(args.output.format, Format::Table | Format::Wide);
    if !is_table || !session.out.is_terminal() {
        return follow(session, args, &query, false).await;
    }
    // What cannot be shown at all is said on the usual screen.
    session.client.list_usage(&query).await?;
    let mut screen = Screen::enter()?;
    tokio::select! {
        ended = follow(session, args, &query, true) => ended,
        () = screen.quit() => Ok(Exit::Done),
    }
}

/// Shows the executions again and again: one list after the other, or in place on a screen.
async fn follow(
    session: &Session,
    args: &TopArgs,
    query: &UsageQuery,
    in_place: bool,
) -> Result<Exit> {
    let mut reconnect = Reconnect::default();
    loop {
        match session.client.list_usage(query).await {
            Ok(usage) => {
                reconnect.succeeded();
                if in_place {
                    Screen::draw(&table(session, args, usage).await)?;
                } else {
                    show(session, args, usage).await?;
                    session.out.line("")?;
                }
                tokio::time::sleep(INTERVAL).await;
            }
            Err(error) => tokio::time::sleep(reconnect.retry_delay(error)?).await,
        }
    }
}

async fn show(session: &Session, args: &TopArgs, usage: ListUsage) -> Result<()> {
    let silent = silent(session, &usage).await;
    let rows = rows(session, usage).await;
    session.out.list(args.output.format, &Layout::for_format(args.output.format), &rows)?;
    if let Some(silent) = silent {
        note(&format!("jobctl: {silent}"));
    }
    Ok(())
}

/// The table with what it is about.
async fn table(session: &Session, args: &TopArgs, usage: ListUsage) -> String {
    let measured = usage.measured;
    let silent = silent(session, &usage).await;
    let rows = rows(session, usage).await;
    let (shown, sort) = (rows.len(), args.sort_by.word());
    let mut text = format!("{shown} of {measured} running executions, by {sort}; q quits\n\n");
    text.push_str(&session.out.table_of(&Layout::for_format(args.output.format), &rows));
    if let Some(silent) = silent {
        text.push_str(&format!("\n{silent}\n"));
    }
    text
}

async fn rows(session: &Session, usage: ListUsage) -> Vec<Consumer> {
    let executions = usage.executions;
    let names = session.node_names(executions.iter().map(|execution| execution.node_id)).await;
    let row = |execution: Execution| {
        let node = names.name_of(execution.node_id);
        Consumer { execution, node }
    };
    executions.into_iter().map(row).collect()
}

/// Which nodes have not said what runs there.
async fn silent(session: &Session, usage: &ListUsage) -> Option<String> {
    let ids = &usage.unanswered_node_ids;
    if ids.is_empty() {
        return None;
    }
    let names = session.node_names(ids.iter().copied()).await;
    let names: Vec<_> = ids.iter().map(|id| names.name_of(*id)).collect();
    Some(format!("without what runs on nodes that do not answer: {}", names.join(", ")))
}
