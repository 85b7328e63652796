//! The secrets of an execution, for the node that is about to start it.

use std::sync::Arc;

use api_types::job::JobSpec;
use api_types::secret::{SecretsAnswer, SecretsRequest};
use api_types::{Code, routes};
use axum::extract::State;

use super::sealed::{self, Recipient};
use crate::http::api::{Api, Handled, Parameter};
use crate::http::edge::body::JsonBody;
use crate::http::openapi::{BODY, CALL, OWN_NODE_ID, QUERY, READ, examples, params, refusals};
use crate::http::query::Query;
use crate::http::respond::json;
use crate::secrets::SecretScope;

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
    recipient: Recipient,
    _: Query,
    Parameter(node): Parameter,
    body: JsonBody,
) -> Handled {
    let SecretsRequest { execution_id } = body.read_exactly()?;
    let names = |spec: &JobSpec| {
        let named = spec.tasks.iter().flat_map(|task| &task.secrets);
        named.map(|secret| secret.name.clone()).collect()
    };
    let secrets =
        sealed::reveal::<SecretScope>(&api, recipient, &node, execution_id, names).await?;
    json(&SecretsAnswer { secrets })
}
