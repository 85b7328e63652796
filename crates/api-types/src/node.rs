//! Nodes: what an agent announces, and what the orchestrator knows about it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::engine::{EngineType, PublisherType};
use crate::id::{IdPrefix, NodeId};
use crate::quantity::Capacity;
use crate::selector::{InvalidSelector, Requirement, Selector};
use crate::source::SourceType;
use crate::version::VersionRecord;
use crate::word::words;

words!(
    /// The role of a node.
    NodeType, "a node type", {
        /// The orchestrator itself.
        Requester = "Requester",
        Compute = "Compute",
    }
);

words!(
    /// Whether an operator admits the node.
    Membership, "a membership", {
        Pending = "PENDING",
        Approved = "APPROVED",
        Rejected = "REJECTED",
    }
);

words!(
    /// Whether the node holds a lease.
    Connection, "a connection state", {
        Connected = "CONNECTED",
        Disconnected = "DISCONNECTED",
    }
);

words!(
    /// Whether executions may be placed on the node.
    Eligibility, "an eligibility", {
        Eligible = "ELIGIBLE",
        /// Keeps its executions, gets no new ones.
        Cordoned = "CORDONED",
        /// Like cordoned, and its executions move to other nodes.
        Draining = "DRAINING",
    }
);

words!(
    /// The condition of a node.
    #[derive(Default)]
    HealthState, "a health state", {
        #[default]
        Healthy = "HEALTHY",
        /// Gets no new work after failures of the node.
        BackingOff = "BACKING_OFF",
        /// Its agent is asked whether it can run tasks. With an agent of an older release, the node
        /// gets one execution at a time, whose end decides.
        Probing = "PROBING",
        /// Its agent responds, and does not finish what it is doing.
        Stalled = "STALLED",
        /// Its lease expired.
        Silent = "SILENT",
    }
);

words!(
    /// An operator's action on a node.
    NodeAction, "a node action", {
        Approve = "approve",
        Reject = "reject",
        Cordon = "cordon",
        Uncordon = "uncordon",
        Drain = "drain",
    }
);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct Node {
    pub peer_info: PeerInfo,
    /// For people; unique among the nodes that the orchestrator knows.
    #[serde(default)]
    pub name: String,
    pub node_type: NodeType,
    pub labels: BTreeMap<String, String>,
    pub compute_node_info: ComputeNodeInfo,
    pub service_version: VersionRecord,
    pub membership: Membership,
    pub connection: Connection,
    pub eligibility: Eligibility,
    #[serde(default)]
    pub health: NodeHealth,
    /// Another agent that has the identity of the node and is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_agent: Option<RefusedAgent>,
    /// Since when the orchestrator keeps the node free for a job that has waited for too long,
    /// RFC 3339, UTC; empty if it does not.
    #[serde(default)]
    pub reserved_since: String,
    /// RFC 3339, UTC; empty before the first heartbeat.
    pub last_heartbeat: String,
    /// Since when it has had no execution, not counting those of daemon jobs, RFC 3339, UTC; missing
    /// while it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub idle_since: String,
}

/// An agent on a copy of a node's data directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct RefusedAgent {
    /// The name of its host.
    pub machine: String,
    /// Since when it is refused, RFC 3339, UTC.
    pub since: String,
}

/// The most bytes of the name of a node: as many as a label of a host name has.
pub const MAX_NODE_NAME_BYTES: usize = 63;

/// What is wrong with the name of a node.
///
/// Letters, digits, `.`, `-` and `_` need no quotes anywhere; and what looks like an ID is one.
pub fn check_node_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > MAX_NODE_NAME_BYTES {
        return Err(format!("must have 1 to {MAX_NODE_NAME_BYTES} bytes"));
    }
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
    if let Some(other) = name.chars().find(|c| !is_plain(*c)) {
        return Err(format!(
            "must be letters, digits, '.', '-' and '_', not '{}'",
            other.escape_debug()
        ));
    }
    if IdPrefix::parse(name, NodeId::LETTER).is_some() {
        return Err("must not look like the ID of a node".to_owned());
    }
    Ok(())
}

/// Begins the keys of labels that only an operator sets. A label that the operator gives a node is
/// there under its own key, and once more with this prefix, which no node can claim.
pub const OPERATOR_LABEL: &str = "operator/";

/// The same for labels that an admin gave. `Nodes` of a namespace compares these alone.
pub const ADMIN_LABEL: &str = "admin/";

/// Labels that people gave a node, in a join token or later.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GivenLabels {
    pub labels: BTreeMap<String, String>,
    /// The keys of those that an admin gave; an operator gave the others.
    pub of_admin: BTreeSet<String>,
}

/// Whether the node gets new work, as far as its own condition decides that.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct NodeHealth {
    pub state: HealthState,
    /// Why it is not healthy, in words for the user; empty otherwise.
    pub reason: String,
    /// Start of the trouble, RFC 3339, UTC; empty for a healthy node.
    pub since: String,
    /// When the node gets work again, RFC 3339, UTC; empty if no time is set.
    pub next_try: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PeerInfo {
    #[serde(rename = "ID")]
    pub id: NodeId,
    /// Multiaddresses, like `/ip4/127.0.0.1/tcp/1234`.
    #[serde(rename = "Addrs")]
    pub addrs: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase", default)]
pub struct ComputeNodeInfo {
    pub execution_engines: Vec<EngineType>,
    pub publishers: Vec<PublisherType>,
    pub storage_sources: Vec<SourceType>,
    pub max_capacity: Capacity,
    pub available_capacity: Capacity,
    /// The most that one job may request.
    pub max_job_requirements: Capacity,
    pub running_executions: u64,
    pub enqueued_executions: u64,
}

/// Response of Describe Node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct DescribeNode {
    pub node: Node,
}

/// Response of List Nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ListNodes {
    pub nodes: Vec<Node>,
    pub next_token: String,
}

/// The body of a node action.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeActionRequest {
    pub action: String,
    pub message: String,
}

/// The body of Label Node: all labels that the operator gives to the node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase", default)]
pub struct LabelNodeRequest {
    pub labels: BTreeMap<String, String>,
}

/// Response of the liveness operation of both daemons.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct Alive {
    pub status: String,
}

/// Response of the orchestrator's readiness operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct Ready {
    pub status: String,
    /// What an operator should know although the service is ready; missing if there is nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// `host:port` as a multiaddress.
pub fn multiaddress(address: std::net::SocketAddr) -> String {
    let family = if address.is_ipv4() { "ip4" } else { "ip6" };
    format!("/{family}/{}/tcp/{}", address.ip(), address.port())
}

/// Gives a node these labels, in place of those that people gave it before.
pub fn set_given_labels(labels: &mut BTreeMap<String, String>, given: &GivenLabels) {
    let former: Vec<String> = labels
        .keys()
        .filter_map(|key| key.strip_prefix(OPERATOR_LABEL))
        .map(str::to_owned)
        .collect();
    for key in former {
        labels.remove(&format!("{OPERATOR_LABEL}{key}"));
        labels.remove(&key);
    }
    // Earlier releases let nodes claim such labels.
    labels.retain(|key, _| !key.starts_with(ADMIN_LABEL));
    for (key, value) in &given.labels {
        labels.insert(key.clone(), value.clone());
        labels.insert(format!("{OPERATOR_LABEL}{key}"), value.clone());
        if given.of_admin.contains(key) {
            labels.insert(format!("{ADMIN_LABEL}{key}"), value.clone());
        }
    }
}

/// What `Nodes` of a namespace demands: its requirements, on labels that an admin gave.
pub fn nodes_requirements(nodes: &str) -> Result<Vec<Requirement>, InvalidSelector> {
    let of_admin = |Requirement { key, test }| {
        let key = given_key(&key);
        Requirement { key: format!("{ADMIN_LABEL}{key}"), test }
    };
    Ok(Selector::parse(nodes)?.requirements.into_iter().map(of_admin).collect())
}

/// The key of a given label, which may be spelled with its prefix.
pub fn given_key(key: &str) -> &str {
    key.strip_prefix(ADMIN_LABEL).or_else(|| key.strip_prefix(OPERATOR_LABEL)).unwrap_or(key)
}
