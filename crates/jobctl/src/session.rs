//! The service, the terminal, and what a command has learned about the nodes.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use api_client::{Client, ClientError, NodesQuery};
use api_types::node::Node;
use api_types::{Code, NodeId};
use futures_util::future::join_all;

use crate::cli::{Global, NamespaceArgs};
use crate::config::{Environment, Target};
use crate::exit::{self, Exit};
use crate::output::Out;
use crate::pages::collect;

/// Of more nodes than these, one list costs less than a request for each.
const ASKED_ONE_BY_ONE: usize = 16;

/// The service and the terminal.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) client: Client,
    /// Default namespace, from the context.
    pub(crate) namespace: Option<String>,
    pub(crate) out: Out,
    /// Those that were asked for, so that a watch asks once.
    names: RefCell<NodeNames>,
}

/// The names of nodes for tables.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeNames(BTreeMap<NodeId, String>);

impl Session {
    pub(crate) fn open(out: Out, global: &Global) -> Result<Self> {
        let target = Target::choose(global, &Environment::read())?;
        let names = RefCell::default();
        Ok(Self { client: target.client()?, namespace: target.namespace, out, names })
    }

    /// The namespace of a command: its own, or that of the context.
    pub(crate) fn namespace(&self, args: &NamespaceArgs) -> Option<String> {
        args.namespace.clone().or_else(|| self.namespace.clone())
    }

    pub(crate) async fn nodes(&self) -> Result<Vec<Node>, ClientError> {
        let nodes = collect(None, async |rows, token| {
            let query =
                NodesQuery { limit: Some(rows), next_token: token, ..NodesQuery::default() };
            self.client.list_nodes(&query).await.map(|page| (page.nodes, page.next_token))
        });
        Ok(nodes.await?.items)
    }

    /// The records of these nodes; `None` for one that is not known any more. A node whose record
    /// could not be read is absent.
    pub(crate) async fn known_nodes(
        &self,
        ids: impl IntoIterator<Item = NodeId>,
    ) -> BTreeMap<NodeId, Option<Node>> {
        let ids: BTreeSet<_> = ids.into_iter().collect();
        if ids.len() > ASKED_ONE_BY_ONE {
            let Ok(nodes) = self.nodes().await else { return BTreeMap::new() };
            let nodes = nodes.into_iter().map(|node| (node.peer_info.id, node));
            let mut nodes: BTreeMap<_, _> = nodes.collect();
            return ids.into_iter().map(|id| (id, nodes.remove(&id))).collect();
        }
        let asked = ids.into_iter().map(async |id| match self.client.describe_node(id).await {
            Ok(node) => Some((id, Some(node))),
            Err(error) if error.code() == Some(Code::NodeNotFound) => Some((id, None)),
            Err(_) => None,
        });
        join_all(asked).await.into_iter().flatten().collect()
    }

    /// The names of these nodes. A table without them is better than none, so failures are ignored.
    pub(crate) async fn node_names(&self, ids: impl IntoIterator<Item = NodeId>) -> NodeNames {
        let known = self.names.borrow().0.keys().copied().collect::<BTreeSet<_>>();
        let unknown: BTreeSet<_> = ids.into_iter().filter(|id| !known.contains(id)).collect();
        let found = self.known_nodes(unknown.iter().copied()).await;
        let mut names = self.names.borrow_mut();
        // A node that is forgotten is not asked for again.
        names.0.extend(unknown.into_iter().map(|id| (id, id.short())));
        let named = |(id, node): (NodeId, Option<Node>)| Some((id, name_of(&node?)));
        names.0.extend(found.into_iter().filter_map(named));
        names.clone()
    }
}

/// The name of a node; those of an older service have none.
pub(crate) fn name_of(node: &Node) -> String {
    if node.name.is_empty() { node.peer_info.id.short() } else { node.name.clone() }
}

// === impl NodeNames ===

impl NodeNames {
    /// The name, or the short ID of a node that is not known any more.
    pub(crate) fn name_of(&self, id: NodeId) -> String {
        self.0.get(&id).cloned().unwrap_or_else(|| id.short())
    }
}

/// Applies `act` to each name, continuing after failures; the first failure decides the exit code.
pub(crate) async fn each<F>(names: &[String], mut act: F) -> Result<Exit>
where
    F: AsyncFnMut(&str) -> Result<Exit>,
{
    let mut exit = Exit::Done;
    for name in names {
        let ended = match act(name).await {
            Ok(ended) => ended,
            Err(error) => exit::report(&error),
        };
        exit = exit.and(ended);
    }
    Ok(exit)
}
