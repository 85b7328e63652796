//! Nodes: which certificates are valid, and what the operator says of those that hold them.
//!
//! A certificate says who its holder is. Whether that key may still act for the node is a record
//! here: without it, the certificate opens nothing, however long it lasts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api_types::node::{ADMIN_LABEL, GivenLabels, OPERATOR_LABEL, set_given_labels};
use api_types::protocol::SessionRequest;
use api_types::quantity::{Capacity, Resources};
use api_types::text::is_control;
use api_types::{Code, KeyDigest, NodeId, Timestamp};
use control_plane::records::{Expected, Record, RecordKey, RecordKind, RecordWrite};
use pki::Peer;
use serde::{Deserialize, Serialize};

use crate::records::Published;

/// Labels of one node by its operator, and bytes of one label's key and value together. They are in
/// the node's record.
const MAX_LABELS: usize = 64;
const MAX_LABEL_BYTES: usize = 512;

/// Begins the keys of records about keys that were rejected, where those of identities have the
/// node's ID; see [`rejection`](super::rejection).
pub(super) const REJECTED: &str = "rejected ";

/// A key that may act for a node, as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct StoredIdentity {
    /// Of the join token that it came with.
    #[serde(rename = "TokenID")]
    pub(crate) token_id: String,
    /// The name that the operator gave it; empty if it may choose one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) name: String,
    /// Labels that the node cannot change.
    pub(crate) labels: BTreeMap<String, String>,
    /// The keys of those that an admin gave; an operator gave the others. None in a record of an
    /// earlier version until [`labels::assign_roles`](super::labels::assign_roles) has seen it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) admin_labels: Option<BTreeSet<String>>,
    /// What it may offer at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_capacity: Option<Capacity>,
    pub(crate) join_time: Timestamp,
    /// When its newest certificate ends.
    pub(crate) expire_time: Timestamp,
    /// The CA that signed its newest certificate; none for a record of an earlier version, when a
    /// cluster had a single one.
    #[serde(rename = "CA", default, skip_serializing_if = "Option::is_none")]
    pub(crate) ca: Option<KeyDigest>,
}

/// A node whose certificate was verified, and what is stored of its key.
#[derive(Debug, Clone)]
pub(crate) struct CertifiedNode {
    pub(crate) peer: Peer,
    pub(crate) identity: Arc<StoredIdentity>,
    pub(crate) key: RecordKey,
}

/// Why a node, or a join token, is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NodeRefusal {
    #[error("the certificate is not that of a node")]
    NotANode,
    #[error("the certificate of node {} was revoked, or another key has taken its place", .0.short())]
    Revoked(NodeId),
    /// It may still be renewed.
    #[error("the certificate of node {} has expired", .0.short())]
    Expired(NodeId),
    #[error("the certificate of node {} expired too long ago to be renewed", .0.short())]
    TooOld(NodeId),
    #[error("the certificate belongs to node {}, but the request is about '{asked}'", .own.short())]
    OtherNode { own: NodeId, asked: String },
    #[error("the key of this node was rejected together with node {}", .0.short())]
    RejectedKey(NodeId),
    #[error("the join token is not valid")]
    UnknownToken,
    #[error("the join token has expired")]
    ExpiredToken,
    #[error("the join token is used up")]
    UsedToken,
    #[error(
        "the node has executions as {}, and the join token does not give it this ID back", .0.short()
    )]
    BoundNode(NodeId),
    #[error("node {} has no certificate, so an operator cannot set its labels", .0.short())]
    Uncertified(NodeId),
    #[error("this orchestrator accepts nodes over plain HTTP, without certificates")]
    Unprotected,
}

// === impl StoredIdentity ===

impl StoredIdentity {
    pub(crate) fn from_record(record: &Record) -> Option<Self> {
        serde_json::from_str(&record.value).ok()
    }

    /// One record for each key, so that a record that is gone is a key that is refused.
    pub(crate) fn key(node: NodeId, key: KeyDigest) -> RecordKey {
        RecordKind::NodeIdentity.key(format!("{node} {key}"))
    }

    pub(crate) fn write(&self, key: RecordKey, expected: Expected) -> RecordWrite {
        RecordWrite::json(key, expected, self)
    }

    /// The labels that people gave it. Until it is known who gave a label, an operator may have.
    pub(crate) fn given(&self) -> GivenLabels {
        let of_admin = self.admin_labels.clone().unwrap_or_default();
        GivenLabels { labels: self.labels.clone(), of_admin }
    }

    /// What the node says of itself, with what the operator says of it: its name and labels win,
    /// and its bound of the capacity holds.
    pub(crate) fn amend(&self, request: &mut SessionRequest) {
        if !self.name.is_empty() {
            request.name.clone_from(&self.name);
        }
        set_given_labels(&mut request.labels, &self.given());
        let Some(bound) = self.max_capacity.map(Resources::from) else { return };
        let info = &mut request.compute_node_info;
        for offered in
            [&mut info.max_capacity, &mut info.available_capacity, &mut info.max_job_requirements]
        {
            *offered = within(Resources::from(*offered), bound).into();
        }
    }
}

/// What is wrong with labels that an operator gives.
pub(crate) fn wrong_labels(labels: &BTreeMap<String, String>) -> Option<String> {
    if labels.len() > MAX_LABELS {
        return Some(format!("must not be more than {MAX_LABELS}"));
    }
    let is_wrong = |(key, value): &(&String, &String)| {
        key.is_empty() || key.len() + value.len() > MAX_LABEL_BYTES
    };
    if let Some((key, _)) = labels.iter().find(is_wrong) {
        return Some(format!(
            "'{key}': must have a key, and not be longer than {MAX_LABEL_BYTES} bytes together"
        ));
    }
    let unseen =
        labels.iter().find(|(key, value)| key.contains(is_control) || value.contains(is_control));
    if let Some((key, _)) = unseen {
        return Some(format!("'{key}': neither key nor value may contain control characters"));
    }
    labels.keys().find_map(|key| {
        let prefix = reserved_prefix(key)?;
        Some(format!("'{key}': the service itself adds '{prefix}'"))
    })
}

/// The prefix of a key that only the service may use.
fn reserved_prefix(key: &str) -> Option<&'static str> {
    [OPERATOR_LABEL, ADMIN_LABEL].into_iter().find(|prefix| key.starts_with(prefix))
}

/// Removes what a node claims an operator or admin had given it.
pub(crate) fn without_claims(request: &mut SessionRequest) {
    request.labels.retain(|key, _| reserved_prefix(key).is_none());
}

/// At most the bound of each resource that has one.
fn within(offered: Resources, bound: Resources) -> Resources {
    let least = |offered: u64, bound: u64| if bound == 0 { offered } else { offered.min(bound) };
    Resources {
        cpu_millis: least(offered.cpu_millis, bound.cpu_millis),
        memory_bytes: least(offered.memory_bytes, bound.memory_bytes),
        disk_bytes: least(offered.disk_bytes, bound.disk_bytes),
        gpus: least(offered.gpus, bound.gpus),
    }
}

/// Whether the record is not about a key that may act for a node, but about one that was rejected.
pub(super) fn is_rejection(record: &Record) -> bool {
    record.key.key.starts_with(REJECTED)
}

/// The records of the keys of this node.
pub(crate) fn identities(records: &Published, node: NodeId) -> Vec<Record> {
    let of_node = format!("{node} ");
    let mut identities = records.of_kind(RecordKind::NodeIdentity);
    identities.retain(|record| record.key.key.starts_with(&of_node));
    identities
}

/// How many keys have their newest certificate of this CA. Those of an unknown CA have it of the
/// first that the cluster had.
pub(crate) fn holders(records: &Published, ca: KeyDigest, is_first: bool) -> usize {
    let all = records.of_kind(RecordKind::NodeIdentity);
    let is_holder = |record: &&Record| {
        StoredIdentity::from_record(record)
            .is_some_and(|it| it.ca.map_or(is_first, |other| other == ca))
    };
    all.iter().filter(is_holder).count()
}

/// The changes that refuse every key of this node.
pub(crate) fn revocation(records: &Published, node: NodeId) -> Vec<RecordWrite> {
    let refused = identities(records, node).into_iter();
    refused.map(|record| RecordWrite::removal(record.key)).collect()
}

/// How long a certificate may be renewed after its end, and of which nodes in any case: a wall clock
/// that is far ahead must not cost a node its identity, and the scheduler forgets nodes by its own.
pub(crate) struct Renewable<'a> {
    pub(crate) time: Duration,
    pub(crate) remembered: &'a dyn Fn(NodeId) -> bool,
}

// === impl Renewable ===

impl Renewable<'_> {
    pub(super) fn permits(&self, node: NodeId, end: Timestamp, now: Timestamp) -> bool {
        end >= now || now.since(end) <= self.time || (self.remembered)(node)
    }
}

/// Keys whose last certificate can no longer be renewed.
pub(crate) fn outdated(
    records: &Published,
    now: Timestamp,
    renewable: &Renewable<'_>,
) -> Vec<RecordWrite> {
    let is_over = |record: &Record| {
        let node = record.key.key.split(' ').next().and_then(|node| node.parse().ok());
        let known = node.zip(StoredIdentity::from_record(record));
        known.is_none_or(|(node, it)| !renewable.permits(node, it.expire_time, now))
    };
    let all = records.of_kind(RecordKind::NodeIdentity).into_iter();
    let all = all.filter(|record| !is_rejection(record) && is_over(record));
    all.map(Record::removal).collect()
}

/// The node that holds a certificate, which a handshake has verified, if its key may still act.
/// One that has expired may only `renew`.
pub(crate) fn verify(
    records: &Published,
    certificate: &[u8],
    now: Timestamp,
    renewable: &Renewable<'_>,
    renews: bool,
) -> Result<CertifiedNode, NodeRefusal> {
    let peer = Peer::read(certificate).map_err(|_| NodeRefusal::NotANode)?;
    let key = StoredIdentity::key(peer.node, peer.key);
    let identity = records.get(&key).as_ref().and_then(StoredIdentity::from_record);
    let identity = Arc::new(identity.ok_or(NodeRefusal::Revoked(peer.node))?);
    if !renewable.permits(peer.node, peer.expires, now) {
        return Err(NodeRefusal::TooOld(peer.node));
    }
    if peer.expires <= now && !renews {
        return Err(NodeRefusal::Expired(peer.node));
    }
    Ok(CertifiedNode { peer, identity, key })
}

// === impl NodeRefusal ===

impl NodeRefusal {
    pub(crate) fn code(&self) -> Code {
        match self {
            Self::Expired(_) => Code::Unauthenticated,
            Self::NotANode
            | Self::Revoked(_)
            | Self::TooOld(_)
            | Self::OtherNode { .. }
            | Self::RejectedKey(_)
            | Self::UnknownToken
            | Self::ExpiredToken
            | Self::UsedToken => Code::Forbidden,
            Self::BoundNode(_) | Self::Unprotected | Self::Uncertified(_) => Code::Conflict,
        }
    }

    pub(crate) fn hint(&self) -> String {
        match self {
            Self::Revoked(node) | Self::TooOld(node) | Self::BoundNode(node) => {
                format!("join again with a token made by `jobctl node token --for {node}`")
            }
            Self::RejectedKey(node) => format!(
                "if the machine is good again, approve the node, move identity.json in the data \
                 directory of its agent away, and have it join with a token made by \
                 `jobctl node token --for {node}`"
            ),
            Self::Expired(node) => {
                format!("renew it with POST /api/v1/orchestrator/nodes/{node}/certificate")
            }
            Self::Uncertified(_) => {
                "set labels in the agent's settings, or have nodes join with tokens".to_owned()
            }
            Self::UnknownToken | Self::ExpiredToken | Self::UsedToken => {
                "make another with `jobctl node token`".to_owned()
            }
            Self::Unprotected => {
                "give agents its http:// address, or have it serve TLS: auth = \"required\", or \
                 another listen than loopback, and not insecure"
                    .to_owned()
            }
            Self::NotANode | Self::OtherNode { .. } => String::new(),
        }
    }
}

#[cfg(test)]
mod tests;
