//! Rejects a node: nothing that it has opens anything from then on.

use std::collections::BTreeMap;

use api_types::NodeId;
use api_types::joining::{ActedOnNode, NodeToken};
use api_types::node::{Connection, Membership, Node, NodeType, PeerInfo};
use control_plane::audit::AuditEntry;

use super::own;
use crate::access::node::identities;
use crate::access::rejection::{self, Rejection};
use crate::clock;
use crate::driver::CallError;
use crate::http::api::{Api, Handled};
use crate::http::edge::authenticate::Access;
use crate::http::error::Failure;
use crate::http::respond::json;

/// How often it is checked again that nothing is open: each time, a join must have come in between.
const CUT_OFF_ATTEMPTS: u32 = 16;

/// Refuses the keys of a node, and revokes the join tokens that open for it. Repeated until nothing is
/// open: a join may have been on its way.
pub(super) async fn cut_off(
    api: &Api,
    node: NodeId,
    audit: Option<AuditEntry>,
) -> Result<Vec<NodeToken>, Failure> {
    let (mut revoked, mut audit) = (Vec::new(), audit);
    for _ in 0..CUT_OFF_ATTEMPTS {
        let Rejection { writes, tokens } =
            rejection::for_node(api.view.records(), node, clock::now());
        if writes.is_empty() {
            return Ok(revoked);
        }
        api.handle.on_behalf(audit.take()).change_records(writes).await?;
        revoked.extend(tokens);
    }
    Err(Failure::Call(CallError::QueueFull))
}

/// Refuses the keys of a node that has a certificate and never came; `None` where there is no such
/// node.
pub(super) async fn before_its_first_session(
    api: &Api,
    access: &Access,
    text: &str,
) -> Option<Handled> {
    let node = text.parse().ok()?;
    if identities(api.view.records(), node).is_empty() {
        return None;
    }
    let revoked = cut_off(api, node, access.audit()).await;
    let record = Node {
        peer_info: PeerInfo { id: node, addrs: Vec::new() },
        name: String::new(),
        node_type: NodeType::Compute,
        labels: BTreeMap::new(),
        membership: Membership::Rejected,
        connection: Connection::Disconnected,
        last_heartbeat: String::new(),
        ..own(api)
    };
    Some(
        revoked.and_then(|revoked_node_tokens| {
            json(&ActedOnNode { node: record, revoked_node_tokens })
        }),
    )
}
