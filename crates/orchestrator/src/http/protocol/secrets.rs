//! The secrets of an execution, for the node that is about to start it.

use std::sync::Arc;

use api_types::secret::{SecretValue, SecretsAnswer, SecretsRequest};
use api_types::{Code, ExecutionId, routes};
use axum::Extension;
use axum::extract::State;
use control_plane::audit::AuditEntry;
use daemon::http::Peer;

use crate::access::node::CertifiedNode;
use crate::http::authenticate::Access;
use crate::http::body::JsonBody;
use crate::http::edge::json;
use crate::http::error::Failure;
use crate::http::namespaced::check_way;
use crate::http::openapi::{BODY, CALL, OWN_NODE_ID, QUERY, READ, examples, params, refusals};
use crate::http::protocol::specification::placed;
use crate::http::query::Query;
use crate::http::{Api, Handled, Parameter, lookup};
use crate::secrets::{self, Revealed};

/// Secrets
///
/// The values of the secrets that an execution's task names, only for an execution that the node has
/// accepted and that has not ended. A secret that does not exist is a 404, and the execution waits.
#[utoipa::path(
    post,
    path = routes::NODE_SECRETS,
    operation_id = "readSecrets",
    tag = "Agent protocol",
    params(params::OwnNodePath),
    request_body(content = SecretsRequest, example = json!(examples::secrets_request())),
    responses((status = 200, description = "The values, in the order of the task.", body = SecretsAnswer, example = json!(examples::secrets_answer()))),
    extensions(("x-error-codes" = json!(refusals(&[OWN_NODE_ID, QUERY, BODY, READ, CALL, &[Code::ExecutionNotFound, Code::SecretNotFound]])))),
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
    let SecretsRequest { execution_id } = body.read_exactly()?;
    let spec = placed(&api, node, execution_id).await?;
    let mut secrets = Vec::new();
    let mut handed_over = Vec::new();
    for name in spec.tasks.iter().flat_map(|task| &task.secrets).map(|secret| &secret.name) {
        let key = secrets::key(&spec.namespace, name);
        let revealed = secrets::reveal(&api.keys, api.view.records(), &key);
        let revealed = revealed
            .map_err(|error| Failure::Internal { cause: format!("read a secret: {error}") })?;
        let Some(Revealed { version, value }) = revealed else {
            let namespace = spec.namespace.clone();
            return Err(Failure::MissingSecret { name: name.clone(), namespace });
        };
        secrets.push(SecretValue::new(name.clone(), version, &value));
        handed_over.push(format!("{} (version {version})", key.key));
    }
    note(&api, access, certified, execution_id, &handed_over).await?;
    json(&SecretsAnswer { secrets })
}

/// Notes in the audit log what a certified node is about to get.
pub(super) async fn note(
    api: &Api,
    access: Option<Extension<Access>>,
    certified: Option<Extension<CertifiedNode>>,
    execution_id: ExecutionId,
    handed_over: &[String],
) -> Result<(), Failure> {
    let audit = access
        .filter(|_| certified.is_some() && !handed_over.is_empty())
        .and_then(|Extension(access)| access.audit())
        .map(|entry| AuditEntry {
            object: format!("{execution_id}: {}", handed_over.join(", ")),
            ..entry
        });
    if audit.is_some() {
        api.handle.on_behalf(audit).change_records(Vec::new()).await?;
    }
    Ok(())
}
