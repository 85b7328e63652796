//! The nodes of the cluster, the orchestrator's own record among them.

use std::cmp::Ordering;
use std::sync::Arc;

use api_types::node::{
    ComputeNodeInfo, Connection, DescribeNode, Eligibility, ListNodes, Membership, Node,
    NodeAction, NodeActionRequest, NodeType, PeerInfo, multiaddress,
};
use api_types::quantity::Resources;
use api_types::version::VersionRecord;
use api_types::{Code, NodeId, routes};
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes as collect;

use super::body::JsonBody;
use super::edge::json;
use super::error::{Failure, Kind};
use super::openapi::{BODY, CALL, NODE, PAGE, QUERY, examples, params, refusals};
use super::paging::{List, Listing, NodePosition};
use super::query::Query;
use super::{Api, Handled, Parameter, lookup};
use crate::clock;
use crate::engine::input::Input;

const DEFAULT_LIMIT: u32 = 10;

/// Characters of an operator's message that are kept.
const MAX_MESSAGE_CHARS: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Id,
    Type,
    Cpu,
    Memory,
    Disk,
    Gpu,
}

const ORDERS: &[(&str, Order)] = &[
    ("id", Order::Id),
    ("type", Order::Type),
    ("available_cpu", Order::Cpu),
    ("available_memory", Order::Memory),
    ("available_disk", Order::Disk),
    ("available_gpu", Order::Gpu),
];

pub(super) fn router() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::default().routes(collect!(list)).routes(collect!(describe, act, forget))
}

/// Describe Node
///
/// The record of a node, the orchestrator's own included.
#[utoipa::path(
    get,
    path = routes::NODE,
    operation_id = "describeNode",
    tag = "Nodes",
    params(params::NodePath),
    responses((status = 200, description = "The record.", body = DescribeNode, example = json!(examples::describe_node()))),
    extensions(("x-error-codes" = json!(refusals(&[NODE, QUERY])))),
)]
async fn describe(State(api): State<Arc<Api>>, _: Query, Parameter(text): Parameter) -> Handled {
    let id = lookup::node(&api, &text)?;
    json(&DescribeNode { node: (*find(&api, id, &text)?).clone() })
}

/// List Nodes
///
/// All nodes that match, the orchestrator's own record included.
#[utoipa::path(
    get,
    path = routes::NODES,
    operation_id = "listNodes",
    tag = "Nodes",
    params(params::Labels, params::TenAPage, params::NodeOrder, params::Reverse),
    responses((status = 200, description = "A page of nodes.", body = ListNodes, example = json!(examples::list_nodes()))),
    extensions(("x-error-codes" = json!(refusals(&[PAGE])))),
)]
async fn list(State(api): State<Arc<Api>>, query: Query) -> Handled {
    let order = query.choice("order_by", ORDERS, Order::Id)?;
    let reverse = query.flag("reverse")?;
    let listing = Listing { list: List::Nodes, order: order as u8, reverse, job: None };
    let limit = query.limit(DEFAULT_LIMIT)? as usize;
    let selector = query.selector()?;
    let after: Option<NodePosition> = listing.position(query.text("next_token")?)?;

    let directed = |ordering: Ordering| if reverse { ordering.reverse() } else { ordering };
    let mut nodes: Vec<(NodePosition, Arc<Node>)> = api
        .view
        .nodes()
        .into_iter()
        .chain([Arc::new(own(&api))])
        .filter(|node| selector.matches(&node.labels))
        .map(|node| (order.position(&node), node))
        .filter(|(place, _)| after.is_none_or(|after| directed(place.cmp(&after)).is_gt()))
        .collect();
    nodes.sort_by(|(a, _), (b, _)| directed(a.cmp(b)));
    let more = nodes.len() > limit;
    nodes.truncate(limit);
    let next_token = listing.token(nodes.last().map(|(place, _)| *place), more);
    let nodes = nodes.into_iter().map(|(_, node)| Arc::unwrap_or_clone(node)).collect();
    json(&ListNodes { nodes, next_token })
}

/// Act on a node
///
/// What an operator decides about a compute node; the answer is the record as it is then.
#[utoipa::path(
    put,
    path = routes::NODE,
    operation_id = "actOnNode",
    tag = "Nodes",
    params(params::NodePath),
    request_body(content = NodeActionRequest, example = json!(examples::node_action())),
    responses((status = 200, description = "The record as it is now.", body = DescribeNode, example = json!(examples::describe_node()))),
    extensions(("x-error-codes" = json!(refusals(&[NODE, QUERY, BODY, CALL, &[Code::NodeConflict]])))),
)]
async fn act(
    State(api): State<Arc<Api>>,
    _: Query,
    Parameter(text): Parameter,
    body: JsonBody,
) -> Handled {
    let asked: NodeActionRequest = body.read()?;
    let action: NodeAction = asked.action.parse().map_err(Failure::UnknownNodeAction)?;
    let message = asked.message.chars().take(MAX_MESSAGE_CHARS).collect();
    let node = compute_node(&api, &text)?;
    api.handle.call(Input::NodeAction { node, action, message }).await?;
    json(&DescribeNode { node: (*find(&api, node, &text)?).clone() })
}

/// Forget a node
///
/// Removes the record of a disconnected node; the answer is the record as it last was.
#[utoipa::path(
    delete,
    path = routes::NODE,
    operation_id = "forgetNode",
    tag = "Nodes",
    params(params::NodePath),
    responses((status = 200, description = "The record as it last was.", body = DescribeNode, example = json!(examples::describe_node()))),
    extensions(("x-error-codes" = json!(refusals(&[NODE, QUERY, CALL, &[Code::NodeConflict]])))),
)]
async fn forget(State(api): State<Arc<Api>>, _: Query, Parameter(text): Parameter) -> Handled {
    let id = compute_node(&api, &text)?;
    let node = find(&api, id, &text)?;
    api.handle.call(Input::ForgetNode { node: id }).await?;
    json(&DescribeNode { node: (*node).clone() })
}

fn compute_node(api: &Api, text: &str) -> Result<NodeId, Failure> {
    let id = lookup::node(api, text)?;
    if id == api.own.id { Err(Failure::OwnNode(id)) } else { Ok(id) }
}

fn find(api: &Api, id: NodeId, text: &str) -> Result<Arc<Node>, Failure> {
    if id == api.own.id {
        return Ok(Arc::new(own(api)));
    }
    api.view.node(id).ok_or_else(|| lookup::absent(Kind::Node, text))
}

/// The orchestrator's own record.
pub(super) fn own(api: &Api) -> Node {
    Node {
        peer_info: PeerInfo { id: api.own.id, addrs: vec![multiaddress(api.own.address)] },
        node_type: NodeType::Requester,
        labels: api.own.labels.clone(),
        compute_node_info: ComputeNodeInfo::default(),
        service_version: VersionRecord::current(),
        membership: Membership::Approved,
        connection: Connection::Connected,
        eligibility: Eligibility::Eligible,
        last_heartbeat: clock::now().rfc3339(),
    }
}

// === impl Order ===

impl Order {
    fn position(self, node: &Node) -> NodePosition {
        let available = Resources::from(node.compute_node_info.available_capacity);
        let key = match self {
            Self::Id => 0,
            // In the order of the words: Compute, Requester.
            Self::Type => match node.node_type {
                NodeType::Compute => 0,
                NodeType::Requester => 1,
            },
            Self::Cpu => available.cpu_millis,
            Self::Memory => available.memory_bytes,
            Self::Disk => available.disk_bytes,
            Self::Gpu => available.gpus,
        };
        NodePosition { key, id: node.peer_info.id }
    }
}
