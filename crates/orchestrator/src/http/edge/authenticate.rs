//! Finds out who sends a request, and refuses what the caller may not do at all.
//!
//! A caller presents a token in `Authorization`, or a browser the cookie of its session. A cookie
//! counts only on requests that the browser says come from this origin. A response that stays open
//! ends when the right to it does: with its token, its session, or their expiry.

mod audited_request;
mod nodes;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use api_types::Timestamp;
use api_types::access::Role;
use api_types::audit::AuditOutcome;
use axum::body::{Body, HttpBody};
use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use control_plane::audit::AuditEntry;
use control_plane::records::RecordKey;
use control_plane::store::Namespaces;
use daemon::http::RequestContext;
use futures_util::StreamExt;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};

use crate::access::policy::Rule;
use crate::access::token::{self, Invalid, Verified};
use crate::access::{Caller, Needs, Who};
use crate::clock;
use crate::http::api::{Api, RouteMatch};
use crate::http::error::{Absent, Denied, Failure};
use crate::shares::Owner;
use crate::view::View;
pub(in crate::http) use audited_request::AuditedRequest;

/// The cookie of a session.
pub(in crate::http) const COOKIE: &str = "session";

/// The same over TLS: browsers bind a cookie with this prefix to its host and to TLS, and let no
/// sibling domain set it. Over TLS, no other name is accepted.
const HOST_COOKIE: &str = "__Host-session";

const BEARER: &str = "Bearer ";

/// The caller where no credentials are required.
static LOCAL: LazyLock<Arc<Caller>> = LazyLock::new(|| Arc::new(Caller::local()));

/// Interval between checks of an expiry: the wall clock may be set in between.
const EXPIRY_CHECK: Duration = Duration::from_secs(1);

/// Who asks, and what the operation needs of them.
#[derive(Debug, Clone)]
pub(in crate::http) struct Access {
    caller: Arc<Caller>,
    /// The role that the operation needs in the namespace of its record.
    role: Role,
    /// When the right to an answer ends.
    pub(in crate::http) expires: Option<Timestamp>,
    request: Arc<AuditedRequest>,
}

/// Ends a response when the right to it does.
struct Right {
    view: Arc<View>,
    depends_on: Vec<RecordKey>,
    expires: Option<Timestamp>,
    /// Whether a request that sends for long ends too.
    cuts_uploads: bool,
}

/// Lets a request through with its [`Access`], or refuses it.
pub(in crate::http) async fn check(
    api: &Arc<Api>,
    found: &RouteMatch<'_>,
    mut request: Request<Body>,
) -> Response {
    let Rule { operation, needs } = found.meta().rules.rule(request.method());
    let asked = Arc::new(AuditedRequest::new(api, &request, operation));
    if needs == Needs::Nothing {
        request.extensions_mut().insert(Arc::clone(&asked));
    }
    if needs != Needs::Nothing
        && let Some(shown) = RequestContext::from_extensions(request.extensions())
            .and_then(|it| it.certificate.clone())
    {
        let checked = nodes::check(api, found, needs, &shown, asked, request);
        return Box::pin(checked).await;
    }
    let verified = match identify(api, request.headers()) {
        Ok(Some(verified)) => verified,
        Ok(None) | Err(_) if needs == Needs::Nothing => {
            let owner = Owner::unknown(asked.address);
            return Box::pin(owner.within(found.answer(request))).await;
        }
        unknown => {
            asked.note_unknown(api);
            return refused(match unknown {
                Err(invalid) => Denied::InvalidCredentials(invalid).into(),
                Ok(_) => Denied::NoCredentials.into(),
            });
        }
    };
    if !verified.caller.has_somewhere(needs) {
        api.handle.repeats().note(asked.entry(&verified.caller, AuditOutcome::Denied));
        return Failure::from(Denied::NotPermitted { needs, namespace: None }).into_response();
    }
    let paced = asked.is_lasting(request.method()).then(|| api.pools.owner(&verified.caller));
    if let Some(Err(refused)) = paced.as_ref().map(|owner| api.pools.changes.admit(owner)) {
        return Failure::from(refused).into_response();
    }
    if let Who::Token { id, .. } = &verified.caller.who {
        api.last_uses.note(id, clock::now());
    }
    let Verified { caller, depends_on, expires } = verified;
    let role = match needs {
        Needs::Role(role) => role,
        Needs::Nothing | Needs::Credentials | Needs::User | Needs::Node => Role::Viewer,
    };
    let access = Access { caller, role, expires, request: asked };
    let owner = api.pools.owner(&access.caller);
    if depends_on.is_empty() {
        request.extensions_mut().insert(access);
        return owner.within(found.answer(request)).await;
    }
    request.extensions_mut().insert(access.clone());
    let right = Right { view: Arc::clone(&api.view), depends_on, expires, cuts_uploads: false };
    let response = Box::pin(owner.within(within(right, found, request))).await;
    if let Some(owner) = paced.filter(|_| !response.status().is_success()) {
        api.pools.changes.refund(&owner);
    }
    if response.status() == StatusCode::FORBIDDEN {
        api.handle.repeats().note(access.request.entry(&access.caller, AuditOutcome::Denied));
    }
    response
}

/// Answers for as long as the right lasts.
async fn within(right: Right, found: &RouteMatch<'_>, request: Request<Body>) -> Response {
    // What changes something is not broken off halfway: its caller would not know what became of it.
    let reads = [Method::GET, Method::HEAD].contains(request.method());
    let is_cut = reads || right.cuts_uploads;
    let response = if is_cut {
        tokio::select! {
            biased;
            () = right.ended() => return refused(Denied::InvalidCredentials(Invalid::Expired).into()),
            response = found.answer(request) => response,
        }
    } else {
        found.answer(request).await
    };
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    response.map(|body| {
        let pieces = body.into_data_stream().map(|piece| piece.map_err(std::io::Error::other));
        // An error, so that the part does not pass for the whole.
        let cut = futures_util::stream::once(async move {
            right.ended().await;
            Err(std::io::Error::other("the right to read on has ended"))
        });
        Body::from_stream(until_error(pieces, cut))
    })
}

/// The pieces, until the cut yields first.
fn until_error<T, E>(
    pieces: impl futures_util::Stream<Item = Result<T, E>>,
    cut: impl futures_util::Stream<Item = Result<T, E>>,
) -> impl futures_util::Stream<Item = Result<T, E>> {
    let state = Some((Box::pin(pieces), Box::pin(cut)));
    futures_util::stream::unfold(state, |state| async move {
        let (mut pieces, mut cut) = state?;
        tokio::select! {
            biased;
            end = cut.next() => end.map(|end| (end, None)),
            piece = pieces.next() => piece.map(|piece| (piece, Some((pieces, cut)))),
        }
    })
}

/// None for a caller without any credentials on a listener that asks for some.
fn identify(api: &Api, headers: &HeaderMap) -> Result<Option<Verified>, Invalid> {
    let (records, now) = (api.view.records(), clock::now());
    let presented = headers.get(header::AUTHORIZATION).map(|value| {
        let text = value.to_str().ok().and_then(|text| text.strip_prefix(BEARER));
        text.map(str::trim).unwrap_or_default()
    });
    // Where none are required, credentials for something else say nothing.
    let counts = |text: &&str| api.asks_for_credentials || token::is_token(text);
    if let Some(text) = presented.filter(counts) {
        return token::verify(records, text, now).map(Some);
    }
    if !api.asks_for_credentials {
        return Ok(Some(Verified {
            caller: Arc::clone(&LOCAL),
            depends_on: Vec::new(),
            expires: None,
        }));
    }
    match cookie(headers, cookie_name(api)) {
        Some(text) if is_same_origin(headers) => {
            token::verify_session(records, text, now).map(Some)
        }
        Some(_) | None => Ok(None),
    }
}

/// Browsers say so of what a page of this origin sends, and of what a person opens.
fn is_same_origin(headers: &HeaderMap) -> bool {
    // The guard has refused foreign origins and foreign sites.
    headers.contains_key(header::ORIGIN) || headers.contains_key("sec-fetch-site")
}

/// The name of the cookie of a session on this listener.
pub(in crate::http) fn cookie_name(api: &Api) -> &'static str {
    if api.protection.is_some() { HOST_COOKIE } else { COOKIE }
}

pub(in crate::http) fn cookie<'a>(headers: &'a HeaderMap, wanted: &str) -> Option<&'a str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    cookies.flat_map(|cookies| cookies.split(';')).find_map(|cookie| {
        let (name, value) = cookie.trim().split_once('=')?;
        (name == wanted).then_some(value)
    })
}

fn refused(failure: Failure) -> Response {
    let mut response = failure.into_response();
    let scheme = HeaderValue::from_static("Bearer");
    response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
    response
}

// === impl Right ===

impl Right {
    async fn ended(&self) {
        let mut changes = self.view.records().changes();
        while self.lasts() {
            let until_expiry = self.expires.map(|end| end.since(clock::now()).min(EXPIRY_CHECK));
            let expiry = async {
                match until_expiry {
                    Some(time) => tokio::time::sleep(time).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // The sender lives as long as the view.
                _ = changes.changed() => {}
                () = expiry => {}
            }
        }
    }

    fn lasts(&self) -> bool {
        let records = self.view.records();
        self.expires.is_none_or(|end| end > clock::now())
            && self.depends_on.iter().all(|key| records.get(key).is_some())
    }
}

// === impl Access ===

impl<S: Send + Sync> FromRequestParts<S> for Access {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| Failure::Internal {
            cause: "a request reached its handler without being judged".to_owned(),
        })
    }
}

impl Access {
    pub(in crate::http) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// What the audit log says of the request if it is carried out; nothing of a caller whom no one
    /// asked for credentials.
    pub(in crate::http) fn audit(&self) -> Option<AuditEntry> {
        match &self.caller.who {
            Who::Local => None,
            Who::Node(_) | Who::Token { .. } => {
                Some(self.request.entry(&self.caller, AuditOutcome::Done))
            }
        }
    }

    /// A URL of this service as the caller reaches it.
    pub(in crate::http) fn url_of(&self, path: &str) -> String {
        self.request.url_of(path)
    }

    /// Whether everything is visible and permitted, so that no record has to be judged.
    pub(in crate::http) fn is_unbounded(&self) -> bool {
        self.caller.visible() == Namespaces::All && self.caller.may(self.role, "")
    }

    /// The same for a request that makes something with this ID.
    pub(in crate::http) fn audit_of(&self, made: &str) -> Option<AuditEntry> {
        self.audit().map(|entry| AuditEntry { object: made.to_owned(), ..entry })
    }

    /// The namespaces that a list covers which asks for this one, or for all.
    pub(in crate::http) fn within(&self, requested: Option<String>) -> Result<Namespaces, Failure> {
        match requested {
            None => Ok(self.caller.visible()),
            Some(name) if self.caller.sees(&name) => Ok(Namespaces::one(name)),
            Some(name) => Err(self.no_namespace(&name)),
        }
    }

    /// The same for one that does not exist and for one that the caller does not see.
    pub(in crate::http) fn no_namespace(&self, name: &str) -> Failure {
        let own = match self.caller.visible() {
            Namespaces::All => Vec::new(),
            Namespaces::Only(names) => names.into_iter().collect(),
        };
        Absent::Namespace { name: name.to_owned(), own }.into()
    }

    /// Of a record that may exist: whether the caller may do there what the operation does.
    pub(in crate::http) fn check(
        &self,
        namespace: &str,
        absent: impl FnOnce() -> Failure,
    ) -> Result<(), Failure> {
        if !self.caller.sees(namespace) {
            return Err(absent());
        }
        if !self.caller.may(self.role, namespace) {
            let (needs, namespace) = (Needs::Role(self.role), Some(namespace.to_owned()));
            return Err(Denied::NotPermitted { needs, namespace }.into());
        }
        Ok(())
    }

    /// Whether the caller sees specifications and output, not only what runs.
    pub(in crate::http) fn shows_content(&self, namespace: &str) -> bool {
        self.caller.may(Role::Submitter, namespace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sibling of the host may set a cookie without the prefix, and sign people in as another
    /// person.
    #[test]
    fn one_name_of_a_cookie_counts() {
        let mut headers = HeaderMap::new();
        let both = "a=1; session=of-a-sibling; __Host-session=own";
        headers.append(header::COOKIE, both.parse().unwrap());
        assert_eq!(cookie(&headers, HOST_COOKIE), Some("own"));
        assert_eq!(cookie(&headers, COOKIE), Some("of-a-sibling"));
        headers.insert(header::COOKIE, "session=of-a-sibling".parse().unwrap());
        assert_eq!(cookie(&headers, HOST_COOKIE), None);
    }
}
