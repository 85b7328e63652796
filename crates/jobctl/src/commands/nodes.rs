//! `jobctl node …`: lists, describes and manages nodes.

use std::time::Duration;

use anyhow::Result;
use api_client::{ClientError, NodeHistoryQuery, NodesQuery};
use api_types::node::{Node, NodeAction};

use super::{Exit, Session, each, node_tokens};
use crate::cli::{DrainArgs, NodeActionArgs, NodeCommand, NodeHistoryArgs, NodeListArgs};
use crate::clock;
use crate::output::{Layout, Progress, show};
use crate::pages::collect;
use crate::reconnect::Reconnect;
use crate::view::{NodeEvent, node_fields};

/// Interval between checks whether a drained node is empty.
const DRAIN_INTERVAL: Duration = Duration::from_secs(1);

pub(super) async fn run(session: &Session, command: &NodeCommand) -> Result<Exit> {
    match command {
        NodeCommand::List(args) => list(session, args).await,
        NodeCommand::Describe { node, output } => {
            let node = session.client.describe_node(node).await?;
            let out = session.out;
            let now = Layout::of(output.format).now;
            let text = || node_fields(&node, now).render(out.colours());
            out.record(output.format, &node, &node.peer_info.id.to_string(), text)?;
            Ok(Exit::Done)
        }
        NodeCommand::History(args) => history(session, args).await,
        NodeCommand::Cordon(args) => act(session, args, NodeAction::Cordon).await,
        NodeCommand::Uncordon(args) => act(session, args, NodeAction::Uncordon).await,
        NodeCommand::Approve(args) => act(session, args, NodeAction::Approve).await,
        NodeCommand::Reject(args) => act(session, args, NodeAction::Reject).await,
        NodeCommand::Drain(args) => drain(session, args).await,
        NodeCommand::Label { node, labels } => {
            let labels = labels.iter().cloned().collect();
            let labelled = session.client.label_node(node, &labels).await?;
            session.out.line(&format!("{} is labelled", labelled.peer_info.id))?;
            Ok(Exit::Done)
        }
        NodeCommand::Token(args) => node_tokens::run(session, args).await,
        NodeCommand::Delete { nodes, now } => {
            each(nodes, async |node| {
                // The response to a deletion does not contain the full ID.
                let node = session.client.describe_node(node).await?.peer_info.id;
                session.client.delete_node(node, *now).await?;
                session.out.line(&format!("{node} is deleted"))?;
                Ok(Exit::Done)
            })
            .await
        }
    }
}

async fn list(session: &Session, args: &NodeListArgs) -> Result<Exit> {
    let query = NodesQuery {
        labels: args.selector.clone(),
        order_by: Some(args.sort.word().to_owned()),
        reverse: args.reverse,
        ..NodesQuery::default()
    };
    let fetch = async || -> Result<Vec<Node>, ClientError> {
        let collected = collect(args.limit, async |rows, token| {
            let query = NodesQuery { limit: Some(rows), next_token: token, ..query.clone() };
            session.client.list_nodes(&query).await.map(|page| (page.nodes, page.next_token))
        })
        .await?;
        Ok(collected.items)
    };
    show(session.out, &args.watch, fetch).await?;
    Ok(Exit::Done)
}

async fn history(session: &Session, args: &NodeHistoryArgs) -> Result<Exit> {
    let query = NodeHistoryQuery { since: args.since(clock::now()), ..NodeHistoryQuery::default() };
    let fetch = async || -> Result<Vec<NodeEvent>, ClientError> {
        let collected = collect(args.limit, async |rows, token| {
            let query = NodeHistoryQuery { limit: Some(rows), next_token: token, ..query.clone() };
            let page = session.client.node_history(&args.node, &query).await?;
            Ok((page.history.into_iter().map(NodeEvent).collect(), page.next_token))
        })
        .await?;
        Ok(collected.items)
    };
    show(session.out, &args.watch, fetch).await?;
    Ok(Exit::Done)
}

async fn act(session: &Session, args: &NodeActionArgs, action: NodeAction) -> Result<Exit> {
    let done = match action {
        NodeAction::Approve => "is approved",
        NodeAction::Reject => "is rejected",
        NodeAction::Cordon => "is cordoned",
        NodeAction::Uncordon => "is uncordoned",
        NodeAction::Drain => "is draining",
    };
    each(&args.nodes, async |node| {
        let node = session.client.act_on_node(node, action, &args.message).await?;
        session.out.line(&format!("{} {done}", node.peer_info.id))?;
        Ok(Exit::Done)
    })
    .await
}

async fn drain(session: &Session, args: &DrainArgs) -> Result<Exit> {
    let exit = act(session, &args.action, NodeAction::Drain).await?;
    if !args.wait || exit != Exit::Done {
        return Ok(exit);
    }
    each(&args.action.nodes, async |node| {
        let id = wait_until_empty(session, node).await?;
        session.out.line(&format!("{id} is empty"))?;
        Ok(Exit::Done)
    })
    .await
}

/// Waits until no execution holds resources of the node.
async fn wait_until_empty(session: &Session, node: &str) -> Result<String> {
    let mut progress = Progress::new(false);
    let mut reconnect = Reconnect::default();
    loop {
        let pause = match session.client.describe_node(node).await {
            Ok(node) => {
                reconnect.succeeded();
                let info = &node.compute_node_info;
                let id = node.peer_info.id;
                let live = info.running_executions + info.enqueued_executions;
                // An execution holds its resources from placement to end.
                if live == 0 && info.available_capacity == info.max_capacity {
                    return Ok(id.to_string());
                }
                progress.show(&format!("{}: {live} executions left", id.short()));
                DRAIN_INTERVAL
            }
            Err(error) => reconnect.retry_delay(error)?,
        };
        tokio::time::sleep(pause).await;
    }
}
