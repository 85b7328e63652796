//! Nodes: what an agent says of itself, and what the orchestrator knows of it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::engine::{EngineType, PublisherType, UnknownWord, words};
use crate::id::NodeId;
use crate::quantity::Capacity;
use crate::source::SourceType;
use crate::version::VersionRecord;

words!(
    /// Which part of the service a node is.
    NodeType, "a node type", {
        /// The orchestrator itself.
        Requester = "Requester",
        Compute = "Compute",
    }
);

words!(
    /// Whether an operator lets the node take part.
    Membership, "a membership", {
        Pending = "PENDING",
        Approved = "APPROVED",
        Rejected = "REJECTED",
    }
);

words!(
    /// Whether the node renews its lease.
    Connection, "a connection state", {
        Connected = "CONNECTED",
        Disconnected = "DISCONNECTED",
    }
);

words!(
    /// Whether work may be placed on the node.
    Eligibility, "an eligibility", {
        Eligible = "ELIGIBLE",
        /// Keeps what it runs, gets nothing new.
        Cordoned = "CORDONED",
        /// Like cordoned, and what it runs moves elsewhere.
        Draining = "DRAINING",
    }
);

words!(
    /// What an operator does to a node.
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
    pub node_type: NodeType,
    pub labels: BTreeMap<String, String>,
    pub compute_node_info: ComputeNodeInfo,
    pub service_version: VersionRecord,
    pub membership: Membership,
    pub connection: Connection,
    pub eligibility: Eligibility,
    /// RFC 3339, UTC; empty before the first.
    pub last_heartbeat: String,
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
    /// The most that one job may ask for.
    pub max_job_requirements: Capacity,
    pub running_executions: u64,
    pub enqueued_executions: u64,
}

/// Answer to Describe Node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct DescribeNode {
    pub node: Node,
}

/// Answer to List Nodes.
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

/// Answer of the agent's and the orchestrator's liveness operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct Alive {
    pub status: String,
}

/// `host:port` as a multiaddress.
pub fn multiaddress(address: std::net::SocketAddr) -> String {
    let family = if address.is_ipv4() { "ip4" } else { "ip6" };
    format!("/{family}/{}/tcp/{}", address.ip(), address.port())
}
