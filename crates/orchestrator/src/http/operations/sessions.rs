//! Signing in with a browser, and the identity of a caller.

use std::sync::Arc;
use std::time::Duration;

use api_types::access::{ALL_NAMESPACES, Identity, SignIn};
use api_types::{Code, Timestamp, routes};
use axum::extract::{Extension, State};
use axum::response::IntoResponse;
use control_plane::records::{RecordKind, RecordWrite};
use control_plane::store::Namespaces;
use daemon::collect;
use daemon::http::Operations;
use http::header;

use crate::access::credential::Credential;
use crate::access::token::{self, SESSION, StoredSession, StoredToken, shown};
use crate::access::{Caller, Needs, Who};
use crate::clock;
use crate::http::api::{Api, Handled};
use crate::http::edge::authenticate::{Access, AuditedRequest, cookie_name};
use crate::http::edge::body::JsonBody;
use crate::http::error::{Denied, Failure};
use crate::http::openapi::{BODY, CALL, QUERY, examples, refusals};
use crate::http::query::Query;
use crate::http::respond::json;
use crate::records::Published;

/// How long a browser stays signed in: a working day.
const SESSION_LIFETIME: Duration = Duration::from_hours(12);

/// The most sessions of one token: browsers and machines of one person. A further one takes the place
/// of the oldest, so that a script that signs in each time does not fill the store, which would keep
/// everybody out.
const SESSIONS_OF_ONE: usize = 50;

/// A session that is to be stored.
pub(super) struct NewSession {
    pub(super) write: RecordWrite,
    pub(super) cookie: String,
    expire_time: Timestamp,
}

pub(super) fn router() -> Operations<Arc<Api>> {
    Operations::default().merge(collect!(sign_in, sign_out)).merge(collect!(identity))
}

/// Sign In
///
/// Trades a token for a cookie that scripts cannot read. It ends with the token, at sign-out, or
/// after 12 hours. A token has at most 50 sessions; a further one takes the place of the oldest.
#[utoipa::path(
    post,
    path = routes::AUTH_SESSION,
    operation_id = "signIn",
    tag = "Access",
    request_body(content = SignIn, example = json!(examples::sign_in())),
    responses((status = 200, description = "The cookie is set.", body = Identity, headers(("Set-Cookie" = String)), example = json!(examples::identity()))),
    security(()),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, BODY, CALL, &[Code::Conflict]])))),
)]
async fn sign_in(
    State(api): State<Arc<Api>>,
    Extension(request): Extension<Arc<AuditedRequest>>,
    _: Query,
    body: JsonBody,
) -> Handled {
    let SignIn { token } = body.read()?;
    let now = clock::now();
    let verified =
        token::verify(api.view.records(), token.trim(), now).map_err(Denied::InvalidCredentials)?;
    if !verified.caller.has_somewhere(Needs::User) {
        // A node that has seen the token gets no session for it.
        api.handle.repeats().note(request.denied(&verified.caller));
        return Err(Denied::NotPermitted { needs: Needs::User, namespace: None }.into());
    }
    let Who::Token { id: token_id, .. } = &verified.caller.who else {
        return Err(Failure::Internal { cause: "a token belongs to no one".to_owned() });
    };
    api.last_uses.note(token_id, now);
    let session = open(&api, token_id, verified.expires, now);
    let entry = request.done_by(verified.caller.name(), token_id);
    let mut writes = surplus(api.view.records(), token_id);
    writes.push(session.write);
    api.handle.on_behalf(Some(entry)).change_records(writes).await?;
    let identity = json(&describe(&verified.caller, Some(session.expire_time)))?;
    Ok(([(header::SET_COOKIE, session.cookie)], identity).into_response())
}

/// Removes the oldest sessions of a token to make room for another.
fn surplus(records: &Published, token_id: &str) -> Vec<RecordWrite> {
    let sessions = records.of_kind(RecordKind::Session).into_iter().filter_map(|record| {
        let session =
            StoredSession::from_record(&record).filter(|session| session.token_id == token_id)?;
        Some((session.expire_time, record.key))
    });
    let mut sessions: Vec<_> = sessions.collect();
    sessions.sort();
    let surplus = (sessions.len() + 1).saturating_sub(SESSIONS_OF_ONE);
    sessions.into_iter().take(surplus).map(|(_, key)| RecordWrite::removal(key)).collect()
}

/// The session of a browser with this token, which ends at `expires` if ever.
pub(super) fn open(
    api: &Api,
    token_id: &str,
    expires: Option<Timestamp>,
    now: Timestamp,
) -> NewSession {
    let end = now + SESSION_LIFETIME;
    let expire_time = expires.map_or(end, |expires| expires.min(end));
    let credential = Credential::mint();
    let hash = credential.hash();
    let session = StoredSession { token_id: token_id.to_owned(), expire_time, hash };
    let age = expire_time.since(now).as_secs();
    let cookie = set_cookie(api, &credential.text(SESSION), age);
    NewSession { write: session.write(&credential.id), cookie, expire_time }
}

/// Sign Out
///
/// Ends the browser's session and removes the cookie. The token itself stays valid, unless the browser
/// signed in at the issuer: then no one else has it.
#[utoipa::path(
    delete,
    path = routes::AUTH_SESSION,
    operation_id = "signOut",
    tag = "Access",
    responses((status = 200, description = "The session has ended.", body = Identity, headers(("Set-Cookie" = String)), example = json!(examples::identity()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY, CALL, &[Code::Conflict]])))),
)]
async fn sign_out(State(api): State<Arc<Api>>, access: Access, _: Query) -> Handled {
    if let Who::Token { session: Some(session), id, .. } = &access.caller().who {
        let mut ends = vec![RecordKind::Session.key(session)];
        let token = api.view.records().get(&StoredToken::key(id));
        if token
            .as_ref()
            .and_then(StoredToken::from_record)
            .is_some_and(|token| token.hash.is_empty())
        {
            ends.push(StoredToken::key(id));
        }
        let writes = ends.into_iter().map(RecordWrite::removal).collect();
        api.handle.on_behalf(access.audit()).change_records(writes).await?;
    }
    let identity = json(&describe(access.caller(), access.expires))?;
    Ok(([(header::SET_COOKIE, set_cookie(&api, "", 0))], identity).into_response())
}

/// Identity
///
/// As whom the service knows the caller.
#[utoipa::path(
    get,
    path = routes::IDENTITY,
    operation_id = "describeIdentity",
    tag = "Access",
    responses((status = 200, description = "The caller.", body = Identity, example = json!(examples::identity()))),
    extensions(("x-error-codes" = json!(refusals(&[QUERY])))),
)]
async fn identity(access: Access, _: Query) -> Handled {
    json(&describe(access.caller(), access.expires))
}

fn describe(caller: &Caller, expires: Option<Timestamp>) -> Identity {
    let token_id = match &caller.who {
        Who::Local | Who::Node(_) => String::new(),
        Who::Token { id, .. } => id.clone(),
    };
    let namespaces = match &caller.namespaces {
        Namespaces::All => vec![ALL_NAMESPACES.to_owned()],
        Namespaces::Only(names) => names.iter().cloned().collect(),
    };
    Identity {
        name: caller.name().to_owned(),
        role: caller.role,
        namespaces,
        token_id,
        expire_time: shown(expires),
    }
}

/// No script reads it, and no other site's page sends it.
fn set_cookie(api: &Api, value: &str, age_seconds: u64) -> String {
    let name = cookie_name(api);
    let secure = if api.protection.is_some() { "; Secure" } else { "" };
    format!("{name}={value}; Path=/; Max-Age={age_seconds}; HttpOnly; SameSite=Strict{secure}")
}
