//! The credentials that an execution names, for the node that runs it.

use std::collections::BTreeSet;
use std::sync::Arc;

use api_types::credential::{CredentialsAnswer, CredentialsRequest};
use api_types::job::JobSpec;
use api_types::{Code, routes};
use axum::extract::State;

use super::sealed::{self, Recipient};
use crate::credentials::CredentialScope;
use crate::http::api::{Api, Handled, Parameter};
use crate::http::edge::body::JsonBody;
use crate::http::openapi::{BODY, CALL, OWN_NODE_ID, QUERY, READ, examples, params, refusals};
use crate::http::query::Query;
use crate::http::respond::json;

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
    recipient: Recipient,
    _: Query,
    Parameter(node): Parameter,
    body: JsonBody,
) -> Handled {
    let CredentialsRequest { execution_id, names: wanted } = body.read_exactly()?;
    let names = |spec: &JobSpec| {
        let named = spec.tasks.iter().flat_map(|task| task.credentials());
        let is_wanted = |name: &&str| wanted.is_empty() || wanted.iter().any(|it| it == name);
        let names: BTreeSet<_> = named.map(|named| named.name).filter(is_wanted).collect();
        names.into_iter().map(str::to_owned).collect()
    };
    let credentials =
        sealed::reveal::<CredentialScope>(&api, recipient, &node, execution_id, names).await?;
    json(&CredentialsAnswer { credentials })
}
