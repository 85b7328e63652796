//! Tokens: create, list and revoke them.

use std::sync::Arc;
use std::time::Duration;

use api_types::access::{
    ALL_NAMESPACES, CreateToken, CreatedToken, ListTokens, RevokedToken, RevokedTokens, Role, Token,
};
use api_types::error::FieldError;
use api_types::job::DEFAULT_NAMESPACE;
use api_types::text::is_control;
use api_types::{Code, Timestamp, routes};
use axum::extract::State;
use control_plane::records::{Expected, RecordKey, RecordKind, RecordRefusal, RecordWrite};
use control_plane::store::Namespaces;
use daemon::collect;
use daemon::http::Operations;

use crate::access::credential::Credential;
use crate::access::lineage::{self, Lineage, MAX_GENERATIONS, NoPerson};
use crate::access::token::{Invalid, StoredToken};
use crate::access::token_count::{self, MAX_OF_NAMESPACE};
use crate::access::{Caller, Who};
use crate::creating::Begun;
use crate::driver::CallError;
use crate::http::api::{Api, Handled, Parameter};
use crate::http::edge::authenticate::Access;
use crate::http::edge::body::JsonBody;
use crate::http::error::{BadRequest, Denied, Failure, Kind};
use crate::http::lookup;
use crate::http::openapi::{BODY, CALL, QUERY, examples, params, refusals};
use crate::http::query::{Flag, Query, Text, query};
use crate::http::respond::{blocking, json};
use crate::{clock, namespaces};

/// The longest name of a token, in characters.
const MAX_NAME_CHARS: usize = 100;

/// The most namespaces of a token.
const MAX_NAMESPACES: usize = 100;

/// The longest life of a token that has an end: longer ones would only hide that they have one.
const MAX_TTL_SECONDS: u64 = 10 * 365 * 86_400;

/// How often a change is tried again when a token is used or made at the same time.
const ATTEMPTS: u32 = 16;

query! {
    struct RevokeQuery {
        descendants: bool = (
            "descendants",
            Flag,
            "Revokes the tokens that it made too, directly or through others."
        );
    }

    struct PersonQuery {
        subject: Option<String> = (
            "subject",
            Text,
            "Required. The person's subject at the issuer, or issuer and subject with a space between \
             them, as `Subject` of a token shows it."
        );
    }
}

pub(super) fn router() -> Operations<Arc<Api>> {
    Operations::default().merge(collect!(list, create, revoke_of_person)).merge(collect!(revoke))
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
        let token = StoredToken::from_record(record)?;
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
    let asked: CreateToken = body.read()?;
    let credential = Credential::mint();
    for _ in 0..ATTEMPTS {
        let parent = parent(&api, &access)?;
        let token = checked(&api, &access, asked.clone(), parent.as_ref())?;
        if !manages(access.caller(), &token) {
            return Err(Denied::RoleBeyondOwn { role: token.role }.into());
        }
        let _begun = check_count(&api, &access, &token).await?;
        let token = StoredToken { hash: credential.hash(), ..token };
        let mut writes = vec![token.write(&credential.id, Expected::Nothing)];
        // In the same commit, so that no token is made by one that is revoked at the same time.
        writes.extend(parent.map(Parent::used));
        let audit = access.audit_of(&credential.id);
        match api.handle.on_behalf(audit).change_records(writes).await {
            Ok(()) => return created(&credential, &token),
            // The parent was used elsewhere, or revoked.
            Err(CallError::Record(RecordRefusal::Changed(_))) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Failure::Call(CallError::QueueFull))
}

fn created(credential: &Credential, token: &StoredToken) -> Handled {
    json(&CreatedToken { secret: token.text(credential), token: token.wire(&credential.id) })
}

/// Revoke Token
///
/// It is refused from now on, and streams that it opened end. A caller may revoke the token that it
/// uses, and those that it may list. The tokens that it made stay valid and are listed, or end with it
/// if `descendants` says so.
#[utoipa::path(
    delete,
    path = routes::TOKEN,
    operation_id = "revokeToken",
    tag = "Access",
    params(params::TokenPath, RevokeQuery),
    responses((status = 200, description = "The token as it was.", body = RevokedToken, example = json!(examples::revoked_token()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, CALL, &[Code::TokenNotFound, Code::PathNotFound, Code::Conflict]])))),
)]
async fn revoke(
    State(api): State<Arc<Api>>,
    access: Access,
    RevokeQuery { descendants }: RevokeQuery,
    Parameter(id): Parameter,
) -> Handled {
    let key = StoredToken::key(&id);
    let records = api.view.records();
    let found = records.get(&key);
    let token = found.as_ref().and_then(StoredToken::from_record);
    let caller = access.caller();
    let is_own = matches!(&caller.who, Who::Token { id: own, .. } if *own == id);
    let token = token.filter(|token| is_own || manages(caller, token));
    let token = token.ok_or_else(|| lookup::absent(Kind::Token, &id))?;
    let below = || lineage::descendants(records, &id, clock::now());
    let first = below();
    let mut writes = vec![RecordWrite::removal(key)];
    if descendants {
        writes.extend(lineage::revocation(&first));
    }
    api.handle.on_behalf(access.audit()).change_records(writes).await?;
    let mut all = first;
    if descendants {
        all.extend(revoke_all(&api, below).await?);
    }
    let descendants_revoked = descendants;
    let descendants = wire(&all);
    json(&RevokedToken { token: token.wire(&id), descendants, descendants_revoked })
}

/// Revoke Tokens
///
/// Revokes every token of a person who signed in at an issuer, and those that they made, directly or
/// through others. The person can sign in again for as long as the issuer and the rules permit it.
#[utoipa::path(
    delete,
    path = routes::TOKENS,
    operation_id = "revokeTokens",
    tag = "Access",
    params(PersonQuery),
    responses((status = 200, description = "The tokens as they were.", body = RevokedTokens, example = json!(examples::revoked_tokens()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, CALL, &[Code::TokenNotFound, Code::Conflict]])))),
)]
async fn revoke_of_person(
    State(api): State<Arc<Api>>,
    access: Access,
    PersonQuery { subject }: PersonQuery,
) -> Handled {
    let records = api.view.records();
    let invalid = |reason| Failure::from(BadRequest::Query { reason, permitted: Vec::new() });
    let subject = subject
        .ok_or_else(|| invalid("subject is required, as Subject of a token shows it".to_owned()))?;
    let of_person = || lineage::of_person(records, &subject, clock::now());
    let mut all = of_person().map_err(|none| match none {
        NoPerson::Unknown => lookup::absent(Kind::Token, &subject),
        NoPerson::Ambiguous(people) => {
            invalid(format!("subject: '{subject}' is one of {}; say which", people.join(", ")))
        }
    })?;
    api.handle.on_behalf(access.audit()).change_records(lineage::revocation(&all)).await?;
    all.extend(revoke_all(&api, || of_person().unwrap_or_default()).await?);
    json(&RevokedTokens { tokens: wire(&all) })
}

/// Revokes tokens until there are none left: one may have been made while the others were revoked.
async fn revoke_all(
    api: &Api,
    remaining: impl Fn() -> Vec<(RecordKey, StoredToken)>,
) -> Result<Vec<(RecordKey, StoredToken)>, Failure> {
    let mut revoked = Vec::new();
    for _ in 0..ATTEMPTS {
        let late = remaining();
        if late.is_empty() {
            return Ok(revoked);
        }
        api.handle.change_records(lineage::revocation(&late)).await?;
        revoked.extend(late);
    }
    Err(Failure::Call(CallError::QueueFull))
}

fn wire(tokens: &[(RecordKey, StoredToken)]) -> Vec<Token> {
    tokens.iter().map(|(key, token)| token.wire(&key.key)).collect()
}

/// The token that a caller makes another one with.
struct Parent {
    id: String,
    token: StoredToken,
    as_read: Expected,
}

/// None for a caller without one.
fn parent(api: &Api, access: &Access) -> Result<Option<Parent>, Failure> {
    let Who::Token { id, .. } = &access.caller().who else { return Ok(None) };
    let record = api.view.records().get(&StoredToken::key(id));
    let found =
        record.and_then(|record| Some((StoredToken::from_record(&record)?, record.unchanged())));
    match found {
        None => Err(Denied::InvalidCredentials(Invalid::Unknown).into()),
        Some((token, _)) if token.is_over(clock::now()) => {
            Err(Denied::InvalidCredentials(Invalid::Expired).into())
        }
        Some((token, as_read)) => Ok(Some(Parent { id: id.clone(), token, as_read })),
    }
}

// === impl Parent ===

impl Parent {
    /// The change that says when it was used, for which it must still be there.
    fn used(self) -> RecordWrite {
        let token = StoredToken { last_use_time: Some(clock::now()), ..self.token };
        token.write(&self.id, self.as_read)
    }
}

/// An admin manages every token, an owner those that apply to no namespace but its own.
fn manages(caller: &Caller, token: &StoredToken) -> bool {
    match caller.role {
        Role::Admin => true,
        Role::Viewer | Role::Submitter | Role::Monitor | Role::Operator => false,
        Role::Owner => {
            let is_within = match &caller.namespaces {
                Namespaces::All => true,
                Namespaces::Only(own) => token.namespaces.iter().all(|name| own.contains(name)),
            };
            !token.role.is_of_the_cluster() && is_within
        }
    }
}

/// Refuses a caller of a namespace that has enough tokens. Until the value is dropped, the new one
/// counts for other requests.
async fn check_count(
    api: &Api,
    access: &Access,
    token: &StoredToken,
) -> Result<Option<Begun>, Failure> {
    if access.caller().role.is_of_the_cluster() {
        return Ok(None);
    }
    let begun = api.pools.creating.begin(RecordKind::Token, token.namespaces.iter().cloned());
    let others = begun.others();
    let (records, new, now) =
        (api.view.records().of_kind(RecordKind::Token), token.clone(), clock::now());
    // There may be thousands.
    let full = blocking(move || {
        let tokens = records.iter().filter_map(StoredToken::from_record);
        token_count::full_namespace(tokens, &new, others, now).map(str::to_owned)
    });
    match full.await? {
        None => Ok(Some(begun)),
        Some(namespace) => Err(BadRequest::Body(vec![FieldError {
            path: "Namespaces".to_owned(),
            reason: format!(
                "namespace '{namespace}' has {MAX_OF_NAMESPACE} tokens already; revoke some, or ask \
                 an admin for one"
            ),
        }]).into()),
    }
}

/// The token that is asked for, still without its secret.
fn checked(
    api: &Api,
    access: &Access,
    asked: CreateToken,
    parent: Option<&Parent>,
) -> Result<StoredToken, Failure> {
    let caller = access.caller();
    let now = clock::now();
    let CreateToken { name, role, namespaces, ttl_seconds } = asked;
    let role = if role.is_empty() { Ok(Role::Submitter) } else { role.parse::<Role>() };
    let mut problems = Vec::new();
    let mut problem = |path: &str, reason: String| {
        problems.push(FieldError { path: path.to_owned(), reason });
    };
    let name = name.trim();
    if name.is_empty() || name.chars().count() > MAX_NAME_CHARS || name.contains(is_control) {
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
    let lineage = parent.map(|Parent { id, token, .. }| Lineage::of_child(id, token, now));
    let Lineage { ancestors, person, latest_end } = lineage.unwrap_or_default();
    let expire_time =
        (ttl_seconds > 0).then(|| now + Duration::from_secs(ttl_seconds.min(MAX_TTL_SECONDS)));
    if ttl_seconds > MAX_TTL_SECONDS {
        problem("TTLSeconds", format!("must be at most {MAX_TTL_SECONDS}, or 0 for no end"));
    } else if let Some(latest) =
        latest_end.filter(|latest| expire_time.is_none_or(|end| end > *latest))
    {
        problem("TTLSeconds", outlives(latest, now));
    }
    if ancestors.len() > MAX_GENERATIONS {
        let reason =
            format!("the token that makes it is the last of {MAX_GENERATIONS} generations");
        problem("", reason);
    }
    let role = match role {
        Ok(role) if problems.is_empty() => role,
        Ok(_) => return Err(BadRequest::Body(problems).into()),
        Err(unknown) => {
            let reason = unknown.to_string();
            problems.push(FieldError { path: "Role".to_owned(), reason });
            return Err(BadRequest::Body(problems).into());
        }
    };
    for name in namespaces.iter().filter(|name| *name != ALL_NAMESPACES) {
        if !caller.sees(name) || !namespaces::exists(api.view.records(), name) {
            return Err(access.no_namespace(name));
        }
    }
    Ok(StoredToken {
        name: name.to_owned(),
        role,
        namespaces,
        created_by: caller.name().to_owned(),
        create_time: now,
        expire_time,
        last_use_time: None::<Timestamp>,
        subject: None,
        ancestors,
        person,
        hash: String::new(),
    })
}

/// Why a token may not last as long as was asked for.
fn outlives(latest: Timestamp, now: Timestamp) -> String {
    let (end, seconds) = (latest.rfc3339_seconds(), latest.since(now).as_secs());
    format!("it must end by {end}, because of the token that makes it: say at most {seconds}")
}
