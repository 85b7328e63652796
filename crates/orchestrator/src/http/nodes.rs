//! The nodes of the cluster, including the orchestrator's own record.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use api_types::access::Role;
use api_types::error::FieldError;
use api_types::node::{
    ComputeNodeInfo, Connection, DescribeNode, Eligibility, LabelNodeRequest, ListNodes,
    Membership, Node, NodeAction, NodeActionRequest, NodeType, PeerInfo, multiaddress,
};
use api_types::quantity::Resources;
use api_types::version::VersionRecord;
use api_types::{Code, NodeId, routes};
use axum::extract::State;
use daemon::collect;
use daemon::http::Operations;
use scheduler::input::Input;

use super::authenticate::Access;
use super::body::JsonBody;
use super::edge::{aside, json};
use super::error::{Failure, Kind};
use super::openapi::{BODY, CALL, NODE, PAGE, QUERY, examples, params, refusals};
use super::paging::{List, Listing, NodePosition};
use super::query::{Choice, Flag, Labels, Query, Reverse, TenAPage, query};
use super::{Api, Handled, Parameter, lookup};
use crate::access::masking;
use crate::access::node::{NodeRefusal, StoredIdentity, identities, revocation, wrong_labels};
use crate::access::{Needs, Who};
use crate::clock;

/// Longest stored operator message, in characters.
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

const ORDERS: Choice<Order> = Choice {
    permitted: &[
        ("id", Order::Id),
        ("type", Order::Type),
        ("available_cpu", Order::Cpu),
        ("available_memory", Order::Memory),
        ("available_disk", Order::Disk),
        ("available_gpu", Order::Gpu),
    ],
    default: Order::Id,
};

query! {
    struct ListQuery {
        labels: Labels = part;
        page: TenAPage = part;
        order: Order = ("order_by", ORDERS, "The sort key; ties are broken by ID.");
        direction: Reverse = part;
    }

    struct ForgetQuery {
        now: bool = (
            "now",
            Flag,
            "Ends the executions of a silent node as lost at once, instead of refusing."
        );
    }
}

pub(super) fn router() -> Operations<Arc<Api>> {
    Operations::default()
        .merge(collect!(list))
        .merge(collect!(describe, act, forget))
        .merge(collect!(label))
}

/// Describe Node
///
/// The record of a node, or of the orchestrator itself.
#[utoipa::path(
    get,
    path = routes::NODE,
    operation_id = "describeNode",
    tag = "Nodes",
    params(params::NodePath),
    responses((status = 200, description = "The record.", body = DescribeNode, example = json!(examples::describe_node()))),
    extensions(("x-error-codes" = json!(refusals(&[NODE, QUERY])))),
)]
async fn describe(
    State(api): State<Arc<Api>>,
    access: Access,
    _: Query,
    Parameter(text): Parameter,
) -> Handled {
    let id = lookup::node(&api, &text)?;
    json(&DescribeNode { node: shown((*find(&api, id, &text)?).clone(), &access) })
}

/// List Nodes
///
/// All matching nodes, including the orchestrator's own record.
#[utoipa::path(
    get,
    path = routes::NODES,
    operation_id = "listNodes",
    tag = "Nodes",
    params(ListQuery),
    responses((status = 200, description = "A page of nodes.", body = ListNodes, example = json!(examples::list_nodes()))),
    extensions(("x-error-codes" = json!(refusals(&[PAGE])))),
)]
async fn list(State(api): State<Arc<Api>>, access: Access, query: ListQuery) -> Handled {
    let (order, reverse) = (query.order, query.direction.reverse);
    let listing = Listing { list: List::Nodes, order: order as u8, reverse, of: None };
    let limit = query.page.limit as usize;
    let selector = query.labels.selector;
    let after: Option<NodePosition> = listing.position(query.page.next_token.as_deref())?;

    // Aside: thousands of nodes may have hundreds of labels each.
    aside(move || {
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
        let nodes = nodes.into_iter().map(|(_, node)| shown(Arc::unwrap_or_clone(node), &access));
        let nodes = nodes.collect();
        json(&ListNodes { nodes, next_token })
    })
    .await?
}

/// Act on a node
///
/// Applies an operator's decision to a compute node and returns the updated record. `reject` also
/// revokes the node's certificate, and ends its streams.
#[utoipa::path(
    put,
    path = routes::NODE,
    operation_id = "actOnNode",
    tag = "Nodes",
    params(params::NodePath),
    request_body(content = NodeActionRequest, example = json!(examples::node_action())),
    responses((status = 200, description = "The updated record.", body = DescribeNode, example = json!(examples::describe_node()))),
    extensions(("x-error-codes" = json!(refusals(&[NODE, QUERY, BODY, CALL, &[Code::NodeConflict]])))),
)]
async fn act(
    State(api): State<Arc<Api>>,
    access: Access,
    _: Query,
    Parameter(text): Parameter,
    body: JsonBody,
) -> Handled {
    let requested: NodeActionRequest = body.read()?;
    let action: NodeAction = requested.action.parse().map_err(Failure::UnknownNodeAction)?;
    let message = requested.message.chars().take(MAX_MESSAGE_CHARS).collect();
    let node = match compute_node(&api, &text) {
        Err(unknown) if action == NodeAction::Reject => {
            return reject_before_its_first_session(&api, &access, &text)
                .await
                .unwrap_or(Err(unknown));
        }
        known => known?,
    };
    if let Who::Node(_) = access.caller().who
        && !is_own_drain(action, find(&api, node, &text)?.eligibility)
    {
        return Err(Failure::NotPermitted { needs: Needs::Role(Role::Operator), namespace: None });
    }
    if action == NodeAction::Reject {
        // First: a node that is cut off and not yet rejected does no harm.
        api.handle.change_records(revocation(api.view.records(), node)).await?;
    }
    let input = Input::NodeAction { node, action, message };
    api.handle.on_behalf(access.audit()).call(input).await?;
    json(&DescribeNode { node: (*find(&api, node, &text)?).clone() })
}

/// Refuses the keys of a node that has a certificate and never came; `None` where there is no such
/// node.
async fn reject_before_its_first_session(
    api: &Api,
    access: &Access,
    text: &str,
) -> Option<Handled> {
    let node = text.parse().ok()?;
    let refused = revocation(api.view.records(), node);
    if refused.is_empty() {
        return None;
    }
    let revoked = api.handle.on_behalf(access.audit()).change_records(refused).await;
    let record = Node {
        peer_info: PeerInfo { id: node, addrs: Vec::new() },
        node_type: NodeType::Compute,
        labels: BTreeMap::new(),
        membership: Membership::Rejected,
        connection: Connection::Disconnected,
        last_heartbeat: String::new(),
        ..own(api)
    };
    Some(revoked.map_err(Failure::from).and_then(|()| json(&DescribeNode { node: record })))
}

/// Label a node
///
/// Gives a node with a certificate these labels of the operator, in place of those that it had from
/// its join token or from here. Each appears in its record unchanged, and once more under
/// `operator/`. Executions on the node stay.
#[utoipa::path(
    put,
    path = routes::NODE_LABELS,
    operation_id = "labelNode",
    tag = "Nodes",
    params(params::NodePath),
    request_body(content = LabelNodeRequest, example = json!(examples::label_node())),
    responses((status = 200, description = "The updated record.", body = DescribeNode, example = json!(examples::describe_node()))),
    extensions(("x-error-codes" = json!(refusals(&[NODE, QUERY, BODY, CALL, &[Code::NodeConflict, Code::Conflict]])))),
)]
async fn label(
    State(api): State<Arc<Api>>,
    access: Access,
    _: Query,
    Parameter(text): Parameter,
    body: JsonBody,
) -> Handled {
    let LabelNodeRequest { labels } = body.read()?;
    let node = compute_node(&api, &text)?;
    if let Some(reason) = wrong_labels(&labels) {
        return Err(Failure::InvalidBody(vec![FieldError { path: "Labels".to_owned(), reason }]));
    }
    let records = identities(api.view.records(), node);
    if records.is_empty() {
        return Err(Failure::Node(NodeRefusal::Uncertified(node)));
    }
    let writes = records.into_iter().filter_map(|record| {
        let identity = StoredIdentity::of(&record)?;
        let expected = record.unchanged();
        Some(StoredIdentity { labels: labels.clone(), ..identity }.write(record.key, expected))
    });
    let writes = writes.collect();
    // From now on each session begins with them; the scheduler learns of them next.
    api.handle.on_behalf(access.audit()).change_records(writes).await?;
    api.handle.call(Input::LabelNode { node, labels }).await?;
    json(&DescribeNode { node: (*find(&api, node, &text)?).clone() })
}

/// Whether a node may do this to itself: it drains itself before it stops, and ends that after its
/// start, but undoes no cordon.
fn is_own_drain(action: NodeAction, eligibility: Eligibility) -> bool {
    match action {
        NodeAction::Drain => true,
        NodeAction::Uncordon => eligibility == Eligibility::Draining,
        NodeAction::Approve | NodeAction::Reject | NodeAction::Cordon => false,
    }
}

/// Forget a node
///
/// Removes the record of a disconnected node and returns the removed record. A node that was lost
/// only just now keeps its executions for a while, and the request is refused until they are given
/// up.
#[utoipa::path(
    delete,
    path = routes::NODE,
    operation_id = "forgetNode",
    tag = "Nodes",
    params(params::NodePath, ForgetQuery),
    responses((status = 200, description = "The removed record.", body = DescribeNode, example = json!(examples::describe_node()))),
    extensions(("x-error-codes" = json!(refusals(&[NODE, QUERY, CALL, &[Code::NodeConflict]])))),
)]
async fn forget(
    State(api): State<Arc<Api>>,
    access: Access,
    ForgetQuery { now }: ForgetQuery,
    Parameter(text): Parameter,
) -> Handled {
    let id = compute_node(&api, &text)?;
    let node = find(&api, id, &text)?;
    api.handle.on_behalf(access.audit()).call(Input::ForgetNode { node: id, now }).await?;
    json(&DescribeNode { node: (*node).clone() })
}

/// A node as this caller sees it.
fn shown(node: Node, access: &Access) -> Node {
    if access.caller().role.is_of_the_cluster() { node } else { masking::node(node) }
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
        health: api_types::node::NodeHealth::default(),
        reserved_since: String::new(),
        last_heartbeat: clock::now().rfc3339(),
    }
}

// === impl Order ===

impl Order {
    fn position(self, node: &Node) -> NodePosition {
        let available = Resources::from(node.compute_node_info.available_capacity);
        let key = match self {
            Self::Id => 0,
            // In alphabetical order: Compute, Requester.
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
