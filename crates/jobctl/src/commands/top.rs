//! `jobctl top`: the running executions that use most.

use std::time::Duration;

use anyhow::Result;
use api_client::UsageQuery;
use api_types::usage::ListUsage;

use super::{Exit, Session};
use crate::cli::TopArgs;
use crate::output::{Layout, note};
use crate::reconnect::Reconnect;
use crate::view::Consumer;

/// Agents measure at most once a second.
const INTERVAL: Duration = Duration::from_secs(2);

pub(super) async fn top(session: &Session, args: &TopArgs) -> Result<Exit> {
    let query = UsageQuery {
        job_id: args.job.clone(),
        node_id: args.node.clone(),
        namespace: args.namespace.clone().or_else(|| session.namespace.clone()),
        order_by: Some(args.sort.word().to_owned()),
        limit: Some(args.limit),
    };
    let mut reconnect = Reconnect::default();
    loop {
        match session.client.list_usage(&query).await {
            Ok(usage) => {
                reconnect.succeeded();
                show(session, args, usage)?;
                if args.once {
                    return Ok(Exit::Done);
                }
                tokio::time::sleep(INTERVAL).await;
            }
            Err(error) if args.once => return Err(error.into()),
            Err(error) => tokio::time::sleep(reconnect.retry_delay(error)?).await,
        }
    }
}

/// On a terminal each table takes the place of the one before.
fn show(session: &Session, args: &TopArgs, usage: ListUsage) -> Result<()> {
    let out = session.out;
    let ListUsage { executions, measured, unanswered_node_ids } = usage;
    let consumers: Vec<_> = executions.into_iter().map(Consumer).collect();
    let in_place = !args.once && out.is_terminal();
    if in_place {
        out.clear()?;
        let (shown, sort) = (consumers.len(), args.sort.word());
        out.line(&format!("{shown} of {measured} running executions, by {sort}\n"))?;
    }
    out.list(args.output.format, &Layout::of(args.output.format), &consumers)?;
    if !unanswered_node_ids.is_empty() {
        let short: Vec<_> = unanswered_node_ids.iter().map(|node| node.short()).collect();
        note(&format!(
            "jobctl: without what runs on nodes that do not answer: {}",
            short.join(", ")
        ));
    }
    if !args.once && !in_place {
        out.line("")?;
    }
    Ok(())
}
