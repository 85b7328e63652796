//! Requests of nodes: a certificate acts for its own node, and for nothing else.

use std::sync::Arc;

use api_types::audit::AuditOutcome;
use api_types::id::SHORT_ID_CHARS;
use api_types::routes;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use daemon::http::ClientCertificate;
use http::{Method, Request, StatusCode};
use pki::Peer;

use super::{Access, AuditedRequest, Right, within};
use crate::access::node::{self, CertifiedNode, NodeRefusal, Renewable};
use crate::access::{Caller, Needs};
use crate::clock;
use crate::driver::CallError;
use crate::http::api::{Api, RouteMatch};
use crate::http::error::{Denied, Failure};

/// Lets the request of a node through if it is about itself, for as long as its key is not revoked.
pub(super) async fn check(
    api: &Arc<Api>,
    found: &RouteMatch<'_>,
    needs: Needs,
    shown: &ClientCertificate,
    asked: Arc<AuditedRequest>,
    mut request: Request<Body>,
) -> Response {
    let certified = match certify(api, found.pattern(), needs, shown, &request) {
        Ok(certified) => certified,
        Err(failure) => {
            // The certificate is of this cluster's CA, so its holder is known.
            if let Some(caller) = holder(shown) {
                api.handle.repeats().note(asked.entry(&caller, AuditOutcome::Denied));
            }
            return failure.into_response();
        }
    };
    let right = Right {
        view: Arc::clone(&api.view),
        depends_on: vec![certified.key.clone()],
        expires: None,
        // Output of an execution arrives for as long as it runs.
        cuts_uploads: found.pattern() == routes::NODE_STREAM,
    };
    let caller = Arc::new(Caller::node(certified.peer.node));
    let role = caller.role;
    let access = Access { caller, role, expires: None, request: asked };
    request.extensions_mut().insert(access.clone());
    request.extensions_mut().insert(certified);
    let response = within(right, found, request).await;
    if response.status() == StatusCode::FORBIDDEN {
        api.handle.repeats().note(access.request.entry(&access.caller, AuditOutcome::Denied));
    }
    response
}

fn certify(
    api: &Api,
    route: &str,
    needs: Needs,
    shown: &ClientCertificate,
    request: &Request<Body>,
) -> Result<CertifiedNode, Failure> {
    let Some(protection) = &api.protection else {
        return Err(Denied::Node(NodeRefusal::Unprotected).into());
    };
    let renews = route == routes::NODE_CERTIFICATE;
    let (records, now) = (api.view.records(), clock::now());
    if !records.are_known() {
        // A node that is refused stops its tasks, so it is only refused when its record is gone.
        return Err(Failure::Call(CallError::StoreUnavailable));
    }
    let renewable = Renewable {
        time: protection.renewable_for(),
        remembered: &|node| api.view.node(node).is_some(),
    };
    let certified =
        node::verify(records, &shown.0, now, &renewable, renews).map_err(Denied::Node)?;
    let own = certified.peer.node;
    // A node drains itself before it stops, and takes work again after its start.
    let is_of_nodes = needs == Needs::Node
        || (route == routes::NODE && [Method::GET, Method::PUT].contains(request.method()));
    if !is_of_nodes {
        return Err(Denied::NotPermitted { needs, namespace: None }.into());
    }
    let asked = in_path(request.uri().path());
    if own == api.own.id || asked != Some(own.to_string().as_str()) {
        let asked = asked.unwrap_or_default();
        // In the short form, as IDs are in other messages.
        let asked = asked.get(..2 + SHORT_ID_CHARS).unwrap_or(asked).to_owned();
        return Err(Denied::Node(NodeRefusal::OtherNode { own, asked }).into());
    }
    Ok(certified)
}

/// Whose certificate it is.
fn holder(shown: &ClientCertificate) -> Option<Caller> {
    Peer::read(&shown.0).ok().map(|peer| Caller::node(peer.node))
}

/// The node that a path below the nodes is about, as the path spells it.
fn in_path(path: &str) -> Option<&str> {
    path.strip_prefix(routes::NODES)?.strip_prefix('/')?.split('/').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_of_a_path_is_found() {
        let path = "/api/v1/orchestrator/nodes/n-1/streams/2";
        assert_eq!(in_path(path), Some("n-1"));
        assert_eq!(in_path("/api/v1/orchestrator/nodes"), None);
        assert_eq!(in_path("/api/v1/orchestrator/jobs/n-1"), None);
    }
}
