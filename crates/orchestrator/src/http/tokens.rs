//! Tokens: create, list and revoke them.

use std::sync::Arc;
use std::time::Duration;

use api_types::access::{
    ALL_NAMESPACES, CreateToken, CreatedToken, ListTokens, RevokedToken, Role,
};
use api_types::error::FieldError;
use api_types::job::DEFAULT_NAMESPACE;
use api_types::{Code, Timestamp, routes};
use axum::extract::State;
use control_plane::records::{Expected, RecordKind, RecordWrite};
use control_plane::store::Namespaces;
use daemon::collect;
use daemon::http::Operations;

use super::authenticate::Access;
use super::body::JsonBody;
use super::edge::json;
use super::error::{Failure, Kind};
use super::openapi::{BODY, CALL, QUERY, examples, params, refusals};
use super::query::Query;
use super::{Api, Handled, Parameter, lookup, namespaces};
use crate::access::credential::Credential;
use crate::access::token::{StoredToken, TOKEN};
use crate::access::{Caller, Who};
use crate::clock;

/// The longest name of a token, in characters.
const MAX_NAME_CHARS: usize = 100;

/// The most namespaces of a token.
const MAX_NAMESPACES: usize = 100;

/// The longest life of a token that has an end: longer ones would only hide that they have one.
const MAX_TTL_SECONDS: u64 = 10 * 365 * 86_400;

pub(super) fn router() -> Operations<Arc<Api>> {
    Operations::default().merge(collect!(list, create)).merge(collect!(revoke))
}

/// List Tokens
///
/// The tokens whose namespaces are all the caller's; an admin sees every token. The 1,000 that expired
/// last stay listed.
#[utoipa::path(
    get,
    path = routes::TOKENS,
    operation_id = "listTokens",
    tag = "Access",
    responses((status = 200, description = "The tokens, in order of their IDs.", body = ListTokens, example = json!(examples::list_tokens()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY])))),
)]
async fn list(State(api): State<Arc<Api>>, access: Access, _: Query) -> Handled {
    let records = api.view.records().of_kind(RecordKind::Token);
    let tokens = records.iter().filter_map(|record| {
        let token = StoredToken::of(record)?;
        manages(access.caller(), &token).then(|| token.wire(&record.key.key))
    });
    json(&ListTokens { tokens: tokens.collect() })
}

/// Create Token
///
/// The secret is in this response and nowhere else. An owner creates tokens for namespaces of its
/// own, up to its own role; an admin any.
#[utoipa::path(
    post,
    path = routes::TOKENS,
    operation_id = "createToken",
    tag = "Access",
    request_body(content = CreateToken, example = json!(examples::create_token())),
    responses((status = 200, description = "The token.", body = CreatedToken, example = json!(examples::created_token()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, BODY, CALL, &[Code::NamespaceNotFound, Code::Conflict]])))),
)]
async fn create(State(api): State<Arc<Api>>, access: Access, _: Query, body: JsonBody) -> Handled {
    let token = checked(&api, &access, body.read()?)?;
    if !manages(access.caller(), &token) {
        return Err(Failure::RoleBeyondOwn { role: token.role });
    }
    let credential = Credential::mint();
    let token = StoredToken { hash: credential.hash(), ..token };
    let audit = access.audit_of(&credential.id);
    let write = token.write(&credential.id, Expected::Nothing);
    api.handle.on_behalf(audit).change_records(vec![write]).await?;
    json(&CreatedToken { secret: credential.text(TOKEN), token: token.wire(&credential.id) })
}

/// Revoke Token
///
/// It is refused from now on, and streams that it opened end. A caller may revoke the token that it
/// uses, and those that it may list.
#[utoipa::path(
    delete,
    path = routes::TOKEN,
    operation_id = "revokeToken",
    tag = "Access",
    params(params::TokenPath),
    responses((status = 200, description = "The token as it was.", body = RevokedToken, example = json!(examples::revoked_token()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, CALL, &[Code::TokenNotFound, Code::PathNotFound, Code::Conflict]])))),
)]
async fn revoke(
    State(api): State<Arc<Api>>,
    access: Access,
    _: Query,
    Parameter(id): Parameter,
) -> Handled {
    let key = StoredToken::key(&id);
    let found = api.view.records().get(&key);
    let token = found.as_ref().and_then(StoredToken::of);
    let caller = access.caller();
    let is_own = matches!(&caller.who, Who::Token { id: own, .. } if *own == id);
    let token = token.filter(|token| is_own || manages(caller, token));
    let token = token.ok_or_else(|| lookup::absent(Kind::Token, &id))?;
    let write = RecordWrite::removal(key);
    api.handle.on_behalf(access.audit()).change_records(vec![write]).await?;
    json(&RevokedToken { token: token.wire(&id) })
}

/// An admin manages every token, an owner those that apply to no namespace but its own.
fn manages(caller: &Caller, token: &StoredToken) -> bool {
    match caller.role {
        Role::Admin => true,
        Role::Viewer | Role::Submitter | Role::Operator => false,
        Role::Owner => {
            let is_within = match &caller.namespaces {
                Namespaces::All => true,
                Namespaces::Only(own) => token.namespaces.iter().all(|name| own.contains(name)),
            };
            !token.role.is_of_the_cluster() && is_within
        }
    }
}

/// The token that is asked for, still without its secret.
fn checked(api: &Api, access: &Access, asked: CreateToken) -> Result<StoredToken, Failure> {
    let caller = access.caller();
    let now = clock::now();
    let CreateToken { name, role, namespaces, ttl_seconds } = asked;
    let role = if role.is_empty() { Ok(Role::Submitter) } else { role.parse::<Role>() };
    let mut problems = Vec::new();
    let mut problem = |path: &str, reason: String| {
        problems.push(FieldError { path: path.to_owned(), reason });
    };
    let name = name.trim();
    if name.is_empty() || name.chars().count() > MAX_NAME_CHARS || name.contains(char::is_control) {
        problem("Name", format!("say in 1 to {MAX_NAME_CHARS} characters whose token it is"));
    }
    let is_of_the_cluster = role.as_ref().is_ok_and(|role| role.is_of_the_cluster());
    let namespaces = match (namespaces.is_empty(), is_of_the_cluster) {
        (true, true) => vec![ALL_NAMESPACES.to_owned()],
        (true, false) => vec![DEFAULT_NAMESPACE.to_owned()],
        (false, _) => namespaces,
    };
    let names_all = namespaces.iter().any(|name| name == ALL_NAMESPACES);
    if names_all && namespaces.len() > 1 {
        problem("Namespaces", format!("'{ALL_NAMESPACES}' stands alone"));
    } else if is_of_the_cluster && !names_all {
        problem("Namespaces", "a role of the cluster applies to all namespaces".to_owned());
    } else if namespaces.len() > MAX_NAMESPACES {
        problem("Namespaces", format!("name at most {MAX_NAMESPACES}, or '{ALL_NAMESPACES}'"));
    }
    if ttl_seconds > MAX_TTL_SECONDS {
        problem("TTLSeconds", format!("must be at most {MAX_TTL_SECONDS}, or 0 for no end"));
    }
    let role = match role {
        Ok(role) if problems.is_empty() => role,
        Ok(_) => return Err(Failure::InvalidBody(problems)),
        Err(unknown) => {
            let reason = unknown.to_string();
            problems.push(FieldError { path: "Role".to_owned(), reason });
            return Err(Failure::InvalidBody(problems));
        }
    };
    for name in namespaces.iter().filter(|name| *name != ALL_NAMESPACES) {
        if !caller.sees(name) || !namespaces::exists(api, name) {
            return Err(access.no_namespace(name));
        }
    }
    Ok(StoredToken {
        name: name.to_owned(),
        role,
        namespaces,
        created_by: caller.name().to_owned(),
        create_time: now,
        expire_time: (ttl_seconds > 0).then(|| now + Duration::from_secs(ttl_seconds)),
        last_use_time: None::<Timestamp>,
        subject: None,
        hash: String::new(),
    })
}
