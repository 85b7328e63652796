//! Join tokens: create, list and revoke them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api_types::access::Role;
use api_types::error::FieldError;
use api_types::joining::{CreateNodeToken, CreatedNodeToken, ListNodeTokens, RevokedNodeToken};
use api_types::node::check_node_name;
use api_types::quantity::Capacity;
use api_types::{Code, routes};
use axum::extract::State;
use control_plane::records::{Expected, RecordKind, RecordWrite};
use daemon::collect;
use daemon::http::Operations;

use crate::access::credential::Credential;
use crate::access::join_token::{self, StoredJoinToken};
use crate::access::node::{NodeRefusal, wrong_labels};
use crate::clock;
use crate::http::api::{Api, Handled, Parameter};
use crate::http::edge::authenticate::Access;
use crate::http::edge::body::JsonBody;
use crate::http::error::{BadRequest, Conflict, Denied, Kind};
use crate::http::lookup;
use crate::http::openapi::{BODY, CALL, QUERY, examples, params, refusals};
use crate::http::query::Query;
use crate::http::respond::json;

/// The longest lifetime of a join token: the longer one exists, the more likely it leaks.
const MAX_TTL_SECONDS: u64 = 365 * 86_400;

/// The most nodes that join with one token; a larger cluster makes another.
const MAX_USES: u32 = 100_000;

pub(super) fn router() -> Operations<Arc<Api>> {
    Operations::default().merge(collect!(list, create)).merge(collect!(revoke))
}

/// List Node Tokens
///
/// The join tokens that have not expired, without their secrets.
#[utoipa::path(
    get,
    path = routes::NODE_TOKENS,
    operation_id = "listNodeTokens",
    tag = "Nodes",
    responses((status = 200, description = "The tokens, in order of their IDs.", body = ListNodeTokens, example = json!(examples::list_node_tokens()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY])))),
)]
async fn list(State(api): State<Arc<Api>>, _: Query) -> Handled {
    let now = clock::now();
    let records = api.view.records().of_kind(RecordKind::JoinToken);
    let tokens = records.iter().filter_map(|record| {
        let token = StoredJoinToken::from_record(record).filter(|token| now < token.expire_time)?;
        Some(token.wire(&record.key.key))
    });
    json(&ListNodeTokens { node_tokens: tokens.collect() })
}

/// Create Node Token
///
/// The secret is in this response and nowhere else. A node joins with it over https.
#[utoipa::path(
    post,
    path = routes::NODE_TOKENS,
    operation_id = "createNodeToken",
    tag = "Nodes",
    request_body(content = CreateNodeToken, example = json!(examples::create_node_token())),
    responses((status = 200, description = "The token.", body = CreatedNodeToken, example = json!(examples::created_node_token()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, BODY, CALL, &[Code::Conflict, Code::NodeConflict]])))),
)]
async fn create(State(api): State<Arc<Api>>, access: Access, _: Query, body: JsonBody) -> Handled {
    let asked: CreateNodeToken = body.read()?;
    let Some(protection) = &api.protection else {
        return Err(Denied::Node(NodeRefusal::Unprotected).into());
    };
    if let Some(node) = asked.node_id.filter(|node| *node == api.own.id) {
        return Err(Conflict::OwnNode(node).into());
    }
    let problems = problems(&asked);
    if !problems.is_empty() {
        return Err(BadRequest::Body(problems).into());
    }
    let CreateNodeToken { ttl_seconds, uses, name, labels, node_id, max_capacity } = asked;
    let (credential, now) = (Credential::mint(), clock::now());
    let admin_labels = match access.caller().role {
        Role::Admin => labels.keys().cloned().collect(),
        Role::Viewer | Role::Submitter | Role::Owner | Role::Monitor | Role::Operator => {
            BTreeSet::new()
        }
    };
    let token = StoredJoinToken {
        name,
        labels,
        admin_labels: Some(admin_labels),
        node_id,
        max_capacity,
        uses_left: uses,
        create_time: now,
        expire_time: now + Duration::from_secs(ttl_seconds),
        hash: credential.hash(),
    };
    let audit = access.audit_of(&credential.id);
    let write = token.write(&credential.id, Expected::Nothing);
    api.handle.on_behalf(audit).change_records(vec![write]).await?;
    let secret = join_token::text(&credential, protection.ca());
    json(&CreatedNodeToken { secret, node_token: token.wire(&credential.id) })
}

/// Revoke Node Token
///
/// No node joins with it any more; the nodes that have joined stay.
#[utoipa::path(
    delete,
    path = routes::NODE_TOKEN,
    operation_id = "revokeNodeToken",
    tag = "Nodes",
    params(params::NodeTokenPath),
    responses((status = 200, description = "The token as it was.", body = RevokedNodeToken, example = json!(examples::revoked_node_token()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, CALL, &[Code::TokenNotFound, Code::PathNotFound, Code::Conflict]])))),
)]
async fn revoke(
    State(api): State<Arc<Api>>,
    access: Access,
    _: Query,
    Parameter(id): Parameter,
) -> Handled {
    let key = StoredJoinToken::key(&id);
    let found = api.view.records().get(&key).as_ref().and_then(StoredJoinToken::from_record);
    let token = found.ok_or_else(|| lookup::absent(Kind::Token, &id))?;
    let write = RecordWrite::removal(key);
    api.handle.on_behalf(access.audit()).change_records(vec![write]).await?;
    json(&RevokedNodeToken { node_token: token.wire(&id) })
}

fn problems(asked: &CreateNodeToken) -> Vec<FieldError> {
    let mut problems = Vec::new();
    let mut problem = |path: &str, reason: String| {
        problems.push(FieldError { path: path.to_owned(), reason });
    };
    if !(1..=MAX_TTL_SECONDS).contains(&asked.ttl_seconds) {
        problem("TTLSeconds", format!("must be from 1 to {MAX_TTL_SECONDS}"));
    }
    if !(1..=MAX_USES).contains(&asked.uses) {
        problem("Uses", format!("must be from 1 to {MAX_USES}"));
    }
    if asked.node_id.is_some() && asked.uses > 1 {
        problem("Uses", "must be 1 for a node that gets its ID back".to_owned());
    }
    if let Err(reason) = check_node_name(&asked.name)
        && !asked.name.is_empty()
    {
        problem("Name", reason);
    }
    if let Some(reason) = wrong_labels(&asked.labels) {
        problem("Labels", reason);
    }
    if let Some(Capacity { cpu, .. }) = asked.max_capacity
        && !(cpu.is_finite() && cpu >= 0.0)
    {
        problem("MaxCapacity.CPU", "must be a number of cores".to_owned());
    }
    problems
}
