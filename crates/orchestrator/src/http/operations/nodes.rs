//! The nodes of the cluster, including the orchestrator's own record.

mod rejecting;

use std::cmp::Ordering;
use std::sync::Arc;

use api_types::access::Role;
use api_types::error::FieldError;
use api_types::joining::ActedOnNode;
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
use scheduler::node_name::OWN_NAME;

use crate::access::labels;
use crate::access::masking;
use crate::access::node::{NodeRefusal, StoredIdentity, identities, wrong_labels};
use crate::access::{Needs, Who};
use crate::clock;
use crate::http::api::{Api, Handled, Parameter};
use crate::http::edge::authenticate::Access;
use crate::http::edge::body::JsonBody;
use crate::http::error::{BadRequest, Conflict, Denied, Failure, Kind};
use crate::http::lookup;
use crate::http::openapi::{BODY, CALL, NODE, PAGE, QUERY, examples, params, refusals};
use crate::http::paging::{List, Listing, NodePosition};
use crate::http::query::{Choice, Flag, Labels, Query, Reverse, TenAPage, query};
use crate::http::respond::{blocking, json};

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
            "Ends the executions of a silent node as lost immediately, instead of refusing."
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
    blocking(move || {
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
/// refuses the node's keys from then on, ends its streams, and revokes the join token that it came
/// with and those that would give it its ID back.
#[utoipa::path(
    put,
    path = routes::NODE,
    operation_id = "actOnNode",
    tag = "Nodes",
    params(params::NodePath),
    request_body(content = NodeActionRequest, example = json!(examples::node_action())),
    responses((status = 200, description = "The updated record.", body = ActedOnNode, example = json!(examples::acted_on_node()))),
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
    let action: NodeAction = requested.action.parse().map_err(BadRequest::NodeAction)?;
    let message = requested.message.chars().take(MAX_MESSAGE_CHARS).collect();
    let node = match compute_node(&api, &text) {
        Err(unknown) if action == NodeAction::Reject => {
            return rejecting::before_its_first_session(&api, &access, &text)
                .await
                .unwrap_or(Err(unknown));
        }
        known => known?,
    };
    if let Who::Node(_) = access.caller().who
        && !is_own_drain(action, find(&api, node, &text)?.eligibility)
    {
        return Err(
            Denied::NotPermitted { needs: Needs::Role(Role::Operator), namespace: None }.into()
        );
    }
    let revoked_node_tokens = match action {
        // First: a node that is cut off and not yet rejected does no harm.
        NodeAction::Reject => rejecting::cut_off(&api, node, None).await?,
        NodeAction::Approve | NodeAction::Cordon | NodeAction::Uncordon | NodeAction::Drain => {
            Vec::new()
        }
    };
    let input = Input::NodeAction { node, action, message };
    api.handle.on_behalf(access.audit()).call(input).await?;
    let node = (*find(&api, node, &text)?).clone();
    json(&ActedOnNode { node, revoked_node_tokens })
}

/// Label a node
///
/// Gives a node with a certificate these labels of the operator, in place of those that it had from
/// its join token or from here. Each appears in its record unchanged, once more under `operator/`,
/// and if an admin gave it under `admin/`, which is what namespaces compare. An operator cannot
/// change or remove a label that an admin gave. Executions on the node stay.
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
        return Err(BadRequest::Body(vec![FieldError { path: "Labels".to_owned(), reason }]).into());
    }
    let records = identities(api.view.records(), node);
    if records.is_empty() {
        return Err(Denied::Node(NodeRefusal::Uncertified(node)).into());
    }
    let known: Vec<_> = records
        .into_iter()
        .filter_map(|record| Some((StoredIdentity::from_record(&record)?, record)))
        .collect();
    let before = known.iter().map(|(identity, _)| identity.given());
    let given =
        labels::given(labels, before, access.caller().role).map_err(Denied::LabelsOfAdmin)?;
    let writes = known.into_iter().map(|(identity, record)| {
        let expected = record.unchanged();
        let (labels, admin_labels) = (given.labels.clone(), Some(given.of_admin.clone()));
        StoredIdentity { labels, admin_labels, ..identity }.write(record.key, expected)
    });
    let writes = writes.collect();
    // From now on each session begins with them; the scheduler learns of them next.
    api.handle.on_behalf(access.audit()).change_records(writes).await?;
    api.handle.call(Input::LabelNode { node, given }).await?;
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
pub(super) fn shown(node: Node, access: &Access) -> Node {
    if access.caller().role.is_of_the_cluster() { node } else { masking::node(node) }
}

fn compute_node(api: &Api, text: &str) -> Result<NodeId, Failure> {
    let id = lookup::node(api, text)?;
    if id == api.own.id { Err(Conflict::OwnNode(id).into()) } else { Ok(id) }
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
        name: OWN_NAME.to_owned(),
        node_type: NodeType::Requester,
        labels: api.own.labels.clone(),
        compute_node_info: ComputeNodeInfo::default(),
        service_version: VersionRecord::current(),
        membership: Membership::Approved,
        connection: Connection::Connected,
        eligibility: Eligibility::Eligible,
        health: api_types::node::NodeHealth::default(),
        refused_agent: None,
        reserved_since: String::new(),
        last_heartbeat: clock::now().rfc3339(),
        idle_since: String::new(),
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
