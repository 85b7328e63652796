//! The credentials that an execution names, for the node that runs it.

use std::sync::Arc;

use api_types::credential::{CredentialsAnswer, CredentialsRequest};
use api_types::{Code, routes};
use axum::Extension;
use axum::extract::State;
use daemon::http::Peer;

use super::secrets::note;
use super::specification::placed;
use crate::access::node::CertifiedNode;
use crate::credentials;
use crate::http::authenticate::Access;
use crate::http::body::JsonBody;
use crate::http::edge::json;
use crate::http::error::Failure;
use crate::http::namespaced::check_way;
use crate::http::openapi::{BODY, CALL, OWN_NODE_ID, QUERY, READ, examples, params, refusals};
use crate::http::query::Query;
use crate::http::{Api, Handled, Parameter, lookup};

/// Credentials
///
/// The credentials that an execution's task names, only for an execution that the node has accepted
/// and that has not ended. Credentials that do not exist are a 404, and the execution waits.
#[utoipa::path(
    post,
    path = routes::NODE_CREDENTIALS,
    operation_id = "readCredentials",
    tag = "Agent protocol",
    params(params::OwnNodePath),
    request_body(content = CredentialsRequest, example = json!(examples::credentials_request())),
    responses((status = 200, description = "The credentials, each once, with their logins.", body = CredentialsAnswer, example = json!(examples::credentials_answer()))),
    extensions(("x-error-codes" = json!(refusals(&[OWN_NODE_ID, QUERY, BODY, READ, CALL, &[Code::ExecutionNotFound, Code::CredentialNotFound]])))),
)]
pub(super) async fn read(
    State(api): State<Arc<Api>>,
    access: Option<Extension<Access>>,
    certified: Option<Extension<CertifiedNode>>,
    peer: Peer,
    _: Query,
    Parameter(text): Parameter,
    body: JsonBody,
) -> Handled {
    check_way(&api, peer)?;
    let node = lookup::full_node(&text)?;
    let CredentialsRequest { execution_id, names } = body.read_exactly()?;
    let spec = placed(&api, node, execution_id).await?;
    let mut values = Vec::new();
    let mut handed_over = Vec::new();
    let mut named: Vec<_> =
        spec.tasks.iter().flat_map(|task| task.credentials()).map(|named| named.name).collect();
    named.sort_unstable();
    named.dedup();
    named.retain(|name| names.is_empty() || names.iter().any(|wanted| wanted == name));
    for name in named {
        let key = credentials::key(&spec.namespace, name);
        let revealed = credentials::reveal(&api.keys, api.view.records(), &key);
        let revealed = revealed
            .map_err(|error| Failure::Internal { cause: format!("read credentials: {error}") })?;
        let Some(value) = revealed else {
            let namespace = spec.namespace.clone();
            return Err(Failure::MissingCredential { name: name.to_owned(), namespace });
        };
        handed_over.push(format!("{} (version {})", key.key, value.version));
        values.push(value);
    }
    note(&api, access, certified, execution_id, &handed_over).await?;
    json(&CredentialsAnswer { credentials: values })
}
