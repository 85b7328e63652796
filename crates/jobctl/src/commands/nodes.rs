//! `jobctl node …`: lists, describes and manages nodes.

use std::time::Duration;

use anyhow::Result;
use api_client::{ClientError, LiveExecutionsQuery, NodeHistoryQuery, NodesQuery};
use api_types::joining::NodeToken;
use api_types::node::{Node, NodeAction, NodeType};

use super::node_tokens;
use crate::cli::{DrainArgs, NodeCommand, NodeHistoryArgs, NodeListArgs};
use crate::clock;
use crate::exit::{self, Exit};
use crate::handles::{self, is_unknown};
use crate::output::{Layout, Progress, note, show};
use crate::pages::collect;
use crate::prompt;
use crate::reconnect::Reconnect;
use crate::session::{Session, each, name_of};
use crate::view::{NodeEvent, node_fields};

/// Executions that a drain names; more are counted.
const SAID: usize = 20;

/// Interval between checks whether a drained node is empty.
const DRAIN_INTERVAL: Duration = Duration::from_secs(1);

pub(super) async fn run(session: &Session, command: &NodeCommand) -> Result<Exit> {
    match command {
        NodeCommand::List(args) => list(session, args).await,
        NodeCommand::Describe { node, output } => {
            let id = handles::node(session, node).await?;
            let node = session.client.describe_node(id).await?;
            let out = session.out;
            let now = Layout::for_format(output.format).now;
            let text = || node_fields(&node, now).render(out.colours());
            out.record(output.format, &node, &node.peer_info.id.to_string(), text)?;
            Ok(Exit::Done)
        }
        NodeCommand::History(args) => history(session, args).await,
        NodeCommand::Cordon(args) => {
            act(session, &args.nodes, &args.message, NodeAction::Cordon).await
        }
        NodeCommand::Uncordon(args) => {
            act(session, &args.nodes, &args.message, NodeAction::Uncordon).await
        }
        NodeCommand::Approve(args) => {
            act(session, &args.nodes, &args.message, NodeAction::Approve).await
        }
        NodeCommand::Reject(args) => {
            act(session, &args.nodes, &args.message, NodeAction::Reject).await
        }
        NodeCommand::Drain(args) => drain(session, args).await,
        NodeCommand::Label { node, labels } => {
            let labels = labels.iter().cloned().collect();
            let id = handles::node(session, node).await?;
            let labelled = session.client.label_node(id, &labels).await?;
            session.out.line(&format!("{} is labelled", labelled.peer_info.id))?;
            Ok(Exit::Done)
        }
        NodeCommand::Token(args) => node_tokens::run(session, args).await,
        NodeCommand::Delete { nodes, now } => {
            each(nodes, async |node| {
                let node = handles::node(session, node).await?;
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
        order_by: Some(args.sort_by.word().to_owned()),
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
    show(session.out, args.watch.output.format, args.watch.watch, fetch).await?;
    Ok(Exit::Done)
}

async fn history(session: &Session, args: &NodeHistoryArgs) -> Result<Exit> {
    let id = match handles::node(session, &args.node).await {
        // The history of a deleted node outlives it.
        Err(error) if is_unknown(&error) => args.node.clone(),
        found => found?.to_string(),
    };
    let query = NodeHistoryQuery { since: args.since(clock::now()), ..NodeHistoryQuery::default() };
    let fetch = async || -> Result<Vec<NodeEvent>, ClientError> {
        let collected = collect(args.limit, async |rows, token| {
            let query = NodeHistoryQuery { limit: Some(rows), next_token: token, ..query.clone() };
            let page = session.client.node_history(&id, &query).await?;
            Ok((page.history, page.next_token))
        })
        .await?;
        Ok(NodeEvent::all(collected.items))
    };
    show(session.out, args.watch.output.format, args.watch.watch, fetch).await?;
    Ok(Exit::Done)
}

async fn act(
    session: &Session,
    nodes: &[String],
    message: &str,
    action: NodeAction,
) -> Result<Exit> {
    let done = match action {
        NodeAction::Approve => "is approved",
        NodeAction::Reject => "is rejected",
        NodeAction::Cordon => "is cordoned",
        NodeAction::Uncordon => "is uncordoned",
        NodeAction::Drain => "is draining",
    };
    each(nodes, async |node| {
        let node = handles::node(session, node).await?;
        let acted = session.client.act_on_node(node, action, message).await?;
        session.out.line(&format!("{} {done}", acted.node.peer_info.id))?;
        for NodeToken { id, uses_left, .. } in acted.revoked_node_tokens {
            let left =
                if uses_left == 1 { "1 use".to_owned() } else { format!("{uses_left} uses") };
            let note = format!("join token {id} is revoked with it; it had {left} left");
            session.out.line(&note)?;
        }
        Ok(Exit::Done)
    })
    .await
}

/// Says what will move, and then drains.
async fn drain(session: &Session, args: &DrainArgs) -> Result<Exit> {
    let selected = match args.selector.is_empty() {
        true => None,
        false => Some(matching(session, &args.selector).await?),
    };
    if selected.as_ref().is_some_and(Vec::is_empty) {
        note("no nodes match");
        return Ok(Exit::Done);
    }
    let names = selected.clone().unwrap_or_else(|| args.nodes.clone());
    let mut exit = Exit::Done;
    let mut ids = Vec::new();
    for name in &names {
        match say_what_moves(session, name).await {
            Ok(id) => ids.push(id),
            Err(error) => exit = exit.and(exit::report(&error)),
        }
    }
    if selected.is_some() && !args.yes {
        let nodes = if ids.len() == 1 { "this node" } else { "these nodes" };
        if !prompt::confirm(&format!("Drain {nodes}?"))? {
            return Ok(Exit::Interrupted);
        }
    }
    exit = exit.and(act(session, &ids, &args.message, NodeAction::Drain).await?);
    if !args.wait || exit != Exit::Done {
        return Ok(exit);
    }
    each(&ids, async |node| {
        let id = wait_until_empty(session, node).await?;
        session.out.line(&format!("{id} is empty"))?;
        Ok(Exit::Done)
    })
    .await
}

/// The IDs of the compute nodes that match all selectors.
async fn matching(session: &Session, selectors: &[String]) -> Result<Vec<String>, ClientError> {
    let query = NodesQuery { labels: selectors.to_vec(), ..NodesQuery::default() };
    let nodes = collect(None, async |rows, token| {
        let query = NodesQuery { limit: Some(rows), next_token: token, ..query.clone() };
        session.client.list_nodes(&query).await.map(|page| (page.nodes, page.next_token))
    });
    let nodes = nodes.await?.items.into_iter();
    let compute = nodes.filter(|node| node.node_type == NodeType::Compute);
    Ok(compute.map(|node| node.peer_info.id.to_string()).collect())
}

/// Which executions leave the node when it is drained, on standard error; returns its ID.
async fn say_what_moves(session: &Session, node: &str) -> Result<String> {
    let id = handles::node(session, node).await?;
    let query = LiveExecutionsQuery { node_id: Some(id.to_string()), ..Default::default() };
    let live = collect(None, async |rows, token| {
        let query = LiveExecutionsQuery { limit: Some(rows), next_token: token, ..query.clone() };
        let page = session.client.live_executions(&query).await?;
        Ok((page.executions, page.next_token))
    });
    let mut names: Vec<_> = live.await?.items.into_iter().map(|live| live.name).collect();
    let node = session.node_names([id]).await.name_of(id);
    let count = names.len();
    names.truncate(SAID);
    let more = if count > SAID { format!(" and {} more", count - SAID) } else { String::new() };
    note(&match count {
        0 => format!("{node}: nothing runs there"),
        1 => format!("{node}: 1 execution leaves it: {}", names.join(", ")),
        _ => format!("{node}: {count} executions leave it: {}{more}", names.join(", ")),
    });
    Ok(id.to_string())
}

/// Waits until no execution holds resources of the node.
async fn wait_until_empty(session: &Session, node: &str) -> Result<String> {
    let id = handles::node(session, node).await?;
    let mut progress = Progress::new(false);
    let mut reconnect = Reconnect::default();
    loop {
        let pause = match session.client.describe_node(id).await {
            Ok(node) => {
                reconnect.succeeded();
                let info = &node.compute_node_info;
                let live = info.running_executions + info.enqueued_executions;
                // An execution holds its resources from placement to end.
                if live == 0 && info.available_capacity == info.max_capacity {
                    return Ok(id.to_string());
                }
                progress.show(&format!("{}: {live} executions left", name_of(&node)));
                DRAIN_INTERVAL
            }
            Err(error) => reconnect.retry_delay(error)?,
        };
        tokio::time::sleep(pause).await;
    }
}
