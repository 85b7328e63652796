//! Certificates for nodes: the first, for a join token, and each newer one, for the one before.

use std::sync::Arc;

use api_types::audit::AuditChain;
use api_types::error::FieldError;
use api_types::joining::{EnrolRequest, NodeCertificate, RenewRequest};
use api_types::{Code, KeyDigest, NodeId, Timestamp, routes};
use axum::Extension;
use axum::extract::State;
use control_plane::audit::AuditEntry;
use control_plane::records::{Expected, Record, RecordKind, RecordRefusal, RecordWrite};
use daemon::collect;
use daemon::http::Operations;
use pki::NodeRequest;
use uuid::Uuid;

use crate::access::join_token::{self, StoredJoinToken};
use crate::access::node::{CertifiedNode, NodeRefusal, StoredIdentity, revocation};
use crate::access::rejection;
use crate::clock;
use crate::driver::CallError;
use crate::http::api::{Api, Handled};
use crate::http::edge::authenticate::AuditedRequest;
use crate::http::edge::body::JsonBody;
use crate::http::error::{BadRequest, Denied, Failure};
use crate::http::openapi::{BODY, CALL, OWN_NODE_ID, QUERY, examples, params, refusals};
use crate::http::query::Query;
use crate::http::respond::json;
use crate::keys::authorities::Authorities;
use crate::protection::Protection;

/// As whom the audit log knows the holder of a join token.
const JOIN_TOKEN: &str = "join token";

/// How often a join is tried again when another node uses the same token at the same time.
const ATTEMPTS: u32 = 16;

pub(super) fn router() -> Operations<Arc<Api>> {
    Operations::default().merge(collect!(enrol)).merge(collect!(renew))
}

/// Enrol
///
/// Makes the holder of a join token a node: its ID, and a certificate that says so. A repetition
/// with the same key and token gets the same ID again, so that a lost answer costs nothing.
#[utoipa::path(
    post,
    path = routes::NODE_JOIN,
    operation_id = "enrolNode",
    tag = "Agent protocol",
    request_body(content = EnrolRequest, example = json!(examples::enrol_request())),
    responses((status = 200, description = "The node's ID and certificate.", body = NodeCertificate, example = json!(examples::node_certificate()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, BODY, CALL, &[Code::Conflict]])))),
)]
async fn enrol(
    State(api): State<Arc<Api>>,
    Extension(request_of): Extension<Arc<AuditedRequest>>,
    _: Query,
    body: JsonBody,
) -> Handled {
    let asked: EnrolRequest = body.read_exactly()?;
    let protection = protection(&api)?;
    let request = read(&asked.csr)?;
    for _ in 0..ATTEMPTS {
        let authorities = protection.authorities();
        let (node, writes) = admit(&api, (protection, &authorities), &asked, request.key())?;
        // One that joins again uses no token, and changes nothing.
        let uses_token = writes.iter().any(|write| write.key.kind == RecordKind::JoinToken);
        let chain = if uses_token { AuditChain::Changes } else { AuditChain::Rest };
        let entry = AuditEntry {
            chain,
            object: node.to_string(),
            ..request_of.done_by(JOIN_TOKEN, &join_token::id_of(&asked.token))
        };
        match api.handle.on_behalf(Some(entry)).change_records(writes).await {
            Ok(()) => {
                tracing::info!(%node, "a node joined with a token");
                return answer(protection, &authorities, &request, node);
            }
            // Another node has used the token in between.
            Err(CallError::Record(RecordRefusal::Changed(_))) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Failure::Call(CallError::QueueFull))
}

/// Renew
///
/// A newer certificate for the key that the node already has. A certificate that has expired may be
/// used for this alone, for as long as a disconnected node is remembered.
#[utoipa::path(
    post,
    path = routes::NODE_CERTIFICATE,
    operation_id = "renewCertificate",
    tag = "Agent protocol",
    params(params::OwnNodePath),
    request_body(content = RenewRequest, example = json!(examples::renew_request())),
    responses((status = 200, description = "The newer certificate.", body = NodeCertificate, example = json!(examples::node_certificate()))),
    extensions(("x-error-codes" = json!(refusals(&[OWN_NODE_ID, QUERY, BODY, CALL, &[Code::Unauthenticated, Code::Conflict]])))),
)]
async fn renew(
    State(api): State<Arc<Api>>,
    certified: Option<Extension<CertifiedNode>>,
    _: Query,
    body: JsonBody,
) -> Handled {
    let asked: RenewRequest = body.read_exactly()?;
    let protection = protection(&api)?;
    let Some(Extension(CertifiedNode { peer, identity, key })) = certified else {
        return Err(Denied::Node(NodeRefusal::Unprotected).into());
    };
    let request = read(&asked.csr)?;
    if request.key() != peer.key {
        return Err(invalid_request("must be for the key of the certificate it is sent with"));
    }
    let authorities = protection.authorities();
    let renewed = signed_by(&authorities, protection, (*identity).clone());
    let record =
        api.view.records().get(&key).ok_or(Denied::Node(NodeRefusal::Revoked(peer.node)))?;
    let expected = record.unchanged();
    api.handle.change_records(vec![renewed.write(key, expected)]).await?;
    answer(protection, &authorities, &request, peer.node)
}

/// The record of a key that gets a certificate of this CA.
fn signed_by(
    authorities: &Authorities,
    protection: &Protection,
    identity: StoredIdentity,
) -> StoredIdentity {
    let ca = Some(authorities.signing.key());
    StoredIdentity { expire_time: end(protection), ca, ..identity }
}

fn protection(api: &Api) -> Result<&Protection, Failure> {
    Ok(api.protection.as_deref().ok_or(Denied::Node(NodeRefusal::Unprotected))?)
}

fn read(csr: &str) -> Result<NodeRequest, Failure> {
    NodeRequest::read(csr).map_err(|error| invalid_request(&error.to_string()))
}

fn invalid_request(reason: &str) -> Failure {
    let problem = FieldError { path: "CSR".to_owned(), reason: reason.to_owned() };
    BadRequest::Body(vec![problem]).into()
}

/// When a certificate that is made now ends.
fn end(protection: &Protection) -> Timestamp {
    clock::now() + protection.node_lifetime()
}

/// Who the holder of this key becomes, and what has to be stored for it.
fn admit(
    api: &Api,
    (protection, authorities): (&Protection, &Authorities),
    asked: &EnrolRequest,
    key: KeyDigest,
) -> Result<(NodeId, Vec<RecordWrite>), Failure> {
    let (records, now) = (api.view.records(), clock::now());
    let (record, token) = join_token::verify(records, &asked.token, now).map_err(Denied::Node)?;
    let token_id = record.key.key.clone();
    if let Some(node) = rejection::rejected_with(records, key) {
        return Err(Denied::Node(NodeRefusal::RejectedKey(node)).into());
    }
    if let Some((node, record, identity)) = joined_before(api, &token_id, key) {
        let expected = record.unchanged();
        let renewed = signed_by(authorities, protection, identity);
        let writes = vec![renewed.write(record.key, expected), rejection::unless_rejected(key)];
        return Ok((node, writes));
    }
    if !token.is_usable(now) {
        return Err(Denied::Node(NodeRefusal::UsedToken).into());
    }
    if let Some(bound) = asked.node_id.filter(|bound| token.node_id != Some(*bound)) {
        return Err(Denied::Node(NodeRefusal::BoundNode(bound)).into());
    }
    let node = token.node_id.unwrap_or_else(mint);
    let identity = StoredIdentity {
        token_id: token_id.clone(),
        name: token.name.clone(),
        labels: token.labels.clone(),
        admin_labels: token.admin_labels.clone(),
        max_capacity: token.max_capacity,
        join_time: now,
        expire_time: end(protection),
        ca: Some(authorities.signing.key()),
    };
    let used = StoredJoinToken { uses_left: token.uses_left - 1, ..token };
    // An ID that is given back is taken from the key that had it.
    let mut writes = revocation(records, node);
    writes.push(identity.write(StoredIdentity::key(node, key), Expected::Nothing));
    writes.push(used.write(&token_id, record.unchanged()));
    writes.push(rejection::unless_rejected(key));
    Ok((node, writes))
}

/// The node that this key became with the same token.
fn joined_before(
    api: &Api,
    token_id: &str,
    key: KeyDigest,
) -> Option<(NodeId, Record, StoredIdentity)> {
    let of_key = format!(" {key}");
    api.view.records().of_kind(RecordKind::NodeIdentity).into_iter().find_map(|record| {
        let node = record.key.key.strip_suffix(&of_key)?.parse().ok()?;
        let identity = StoredIdentity::from_record(&record).filter(|it| it.token_id == token_id)?;
        Some((node, record, identity))
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "the IDs of nodes that join with a token are minted here"
)]
fn mint() -> NodeId {
    NodeId::from_uuid(Uuid::new_v4())
}

fn answer(
    protection: &Protection,
    authorities: &Authorities,
    request: &NodeRequest,
    node: NodeId,
) -> Handled {
    let authority = &authorities.signing;
    let certificate = authority
        .sign_node(request, node, end(protection))
        .map_err(|error| Failure::Internal { cause: format!("sign a certificate: {error}") })?;
    json(&NodeCertificate {
        node_id: node,
        certificate,
        // The node needs no older one any more: its orchestrator has a certificate of this CA.
        ca: authority.certificate().to_owned(),
        lifetime_seconds: protection.node_lifetime().as_secs(),
    })
}
