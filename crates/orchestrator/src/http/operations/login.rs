//! Signs people in to the pages through an issuer: sends them there with the code flow, and gives
//! them a session when they return.
//!
//! What belongs to one sign-in stays in a cookie of its browser: a seed, of which state, nonce and the
//! verifier of PKCE are made, and the page that the person was on. So nothing is stored for those who
//! never come back, and a code counts only in the browser that asked for it. Whatever goes wrong ends on
//! the page to sign in, which has a sentence for each [`Problem`]; the reason is in the log.

use std::sync::Arc;

use api_types::access::Role;
use api_types::{Code, routes};
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use daemon::collect;
use daemon::http::Operations;
use http::{HeaderMap, StatusCode, Uri, header};
use oidc::{Flow, ProviderError, Refused, SEED_BYTES};

use super::{exchange, sessions};
use crate::access::credential::random;
use crate::access::exchange::{ExchangeRefusal, Minted, Secret, mint};
use crate::clock;
use crate::http::api::{Api, Handled};
use crate::http::edge::authenticate::{AuditedRequest, cookie};
use crate::http::openapi::{CALL, QUERY, refusals};
use crate::http::query::{Text, query};
use crate::issuer::{self, Issuer};

/// The cookie of a sign-in that has begun; over TLS as that of a session.
const COOKIE: &str = "sign-in";
const HOST_COOKIE: &str = "__Host-sign-in";

/// Seconds that a person has to sign in at the issuer.
const FLOW_SECONDS: u64 = 600;

/// The longest path that a browser is sent back to; beyond it, to the first page.
const MAX_PAGE_BYTES: usize = 1000;

/// The parameter of a page that says why the sign-in failed.
const PROBLEM: &str = "sign_in_problem";

query! {
    struct BeginQuery {
        to: Option<String> = (
            "to",
            Text,
            "The page to open afterwards, like `/jobs`; the first page when absent."
        );
    }
}

/// Why a sign-in failed. The page has a sentence for each word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Problem {
    /// There is no issuer.
    Off,
    Away,
    /// The person, or the issuer, said no.
    Denied,
    /// The cookie of the sign-in is missing, or of another one.
    OtherFlow,
    /// The issuer's answer is no good.
    Refused,
    NoRule,
    /// The service cannot store a session.
    Failed,
}

/// What the cookie of a sign-in holds.
struct Begun {
    seed: [u8; SEED_BYTES],
    page: String,
}

pub(super) fn router() -> Operations<Arc<Api>> {
    Operations::default().merge(collect!(begin)).merge(collect!(finish))
}

/// Begin Sign-In
///
/// For browsers: leads to the issuer.
#[utoipa::path(
    get,
    path = routes::AUTH_LOGIN,
    operation_id = "beginSignIn",
    tag = "Access",
    params(BeginQuery),
    responses((status = 303, description = "To the issuer, or to the page that says what is wrong.", headers(("Location" = String), ("Set-Cookie" = String)))),
    security(()),
    extensions(("x-error-codes" = json!(refusals(&[QUERY])))),
)]
async fn begin(
    State(api): State<Arc<Api>>,
    uri: Uri,
    headers: HeaderMap,
    BeginQuery { to }: BeginQuery,
) -> Handled {
    let page = to.filter(|page| is_page(page)).unwrap_or_else(|| "/".to_owned());
    let Some(issuer) = &api.issuer else { return Ok(failed(&api, &page, Problem::Off)) };
    let seed = random();
    match started(&api, issuer, &uri, &headers, &Flow::of_seed(&seed)).await {
        Ok(location) => {
            let value = Begun { seed, page }.text();
            Ok(redirect(&location, vec![set_cookie(&api, &value, FLOW_SECONDS)]))
        }
        Err(problem) => Ok(failed(&api, &page, problem)),
    }
}

/// Finish Sign-In
///
/// Where the issuer sends a browser back. Trades the code for an ID token, that for a session, and
/// leads to the page that the person was on.
#[utoipa::path(
    get,
    path = routes::AUTH_CALLBACK,
    operation_id = "finishSignIn",
    tag = "Access",
    responses((status = 303, description = "To a page.", headers(("Location" = String), ("Set-Cookie" = String)))),
    security(()),
    extensions(("x-error-codes" = json!(refusals(&[CALL, &[Code::Conflict]])))),
)]
async fn finish(
    State(api): State<Arc<Api>>,
    Extension(request): Extension<Arc<AuditedRequest>>,
    uri: Uri,
    headers: HeaderMap,
) -> Handled {
    let begun = cookie(&headers, cookie_name(&api)).and_then(Begun::read);
    let page = begun.as_ref().map_or("/", |begun| &begun.page).to_owned();
    match finished(&api, &request, &uri, &headers, begun).await {
        Ok(session) => Ok(redirect(&page, vec![set_cookie(&api, "", 0), session])),
        Err(problem) => Ok(failed(&api, &page, problem)),
    }
}

/// The URL of the issuer with which this flow begins.
async fn started(
    api: &Api,
    issuer: &Issuer,
    uri: &Uri,
    headers: &HeaderMap,
    flow: &Flow,
) -> Result<String, Problem> {
    let redirect_uri = redirect_uri(api, issuer, uri, headers)?;
    // The reason was logged when the issuer was asked.
    let metadata = issuer.verifier.metadata(issuer::now()).await.map_err(|_| Problem::Away)?;
    let provider = issuer.verifier.provider();
    flow.authorization_url(provider, &metadata, &issuer.client, &redirect_uri)
        .map_err(|error| logged(&error))
}

/// The session cookie of the person who comes back.
async fn finished(
    api: &Api,
    request: &AuditedRequest,
    uri: &Uri,
    headers: &HeaderMap,
    begun: Option<Begun>,
) -> Result<String, Problem> {
    let issuer = api.issuer.as_ref().ok_or(Problem::Off)?;
    let Begun { seed, .. } = begun.ok_or(Problem::OtherFlow)?;
    let flow = Flow::of_seed(&seed);
    let provider = issuer.verifier.provider();
    let query = uri.query().unwrap_or_default();
    let callback = flow.callback(provider.issuer(), query).map_err(|refused| {
        tracing::info!(reason = %refused, "a sign-in at the issuer was not completed");
        match refused {
            Refused::OtherFlow => Problem::OtherFlow,
            Refused::ByIssuer(_) => Problem::Denied,
            Refused::OtherIssuer | Refused::NoCode => Problem::Refused,
        }
    })?;
    let metadata = issuer.verifier.metadata(issuer::now()).await.map_err(|_| Problem::Away)?;
    let redirect_uri = redirect_uri(api, issuer, uri, headers)?;
    let token = flow
        .redeem(provider, &metadata, &issuer.client, &callback, &redirect_uri)
        .await
        .map_err(|error| logged(&error))?;
    let known = exchange::known(api, request, &token, Some(flow.nonce())).await;
    let person = known.map_err(|refusal| problem_of(&refusal))?;
    if person.grant.role == Role::Monitor {
        tracing::info!(user = person.name, "a browser was refused: monitors scrape metrics alone");
        request.note_denied(api, &person.name);
        return Err(Problem::NoRule);
    }
    let now = clock::now();
    let minted = mint(api.view.records(), &person, Secret::Dropped, now);
    let Minted { credential, token, mut writes } = minted.map_err(|it| problem_of(&it))?;
    let session = sessions::open(api, &credential.id, token.expire_time, now);
    writes.push(session.write);
    let entry = request.done_for(&person.name, &credential.id);
    api.handle.on_behalf(Some(entry)).change_records(writes).await.map_err(|error| {
        tracing::warn!(%error, "a session cannot be stored");
        Problem::Failed
    })?;
    Ok(session.cookie)
}

fn problem_of(refusal: &ExchangeRefusal) -> Problem {
    tracing::info!(reason = %refusal, "a sign-in at the issuer was refused");
    match refusal {
        ExchangeRefusal::NoIssuer => Problem::Off,
        ExchangeRefusal::Invalid(_) => Problem::Refused,
        ExchangeRefusal::NoRule(_) => Problem::NoRule,
        ExchangeRefusal::Away => Problem::Away,
        ExchangeRefusal::TooMany => Problem::Failed,
    }
}

fn logged(error: &ProviderError) -> Problem {
    tracing::warn!(%error, "no one can be signed in at the issuer");
    match error {
        ProviderError::Unreachable { .. } => Problem::Away,
        ProviderError::Invalid { .. } | ProviderError::Refused(_) => Problem::Refused,
    }
}

/// Where the issuer sends people back. The guard has judged the host, and an issuer takes only those
/// that it knows.
fn redirect_uri(
    api: &Api,
    issuer: &Issuer,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<String, Problem> {
    if let Some(url) = &issuer.public_url {
        return Ok(format!("{url}{}", routes::AUTH_CALLBACK));
    }
    let host = match uri.authority() {
        Some(authority) => Some(authority.as_str()),
        None => headers.get(header::HOST).and_then(|host| host.to_str().ok()),
    };
    let scheme = if api.protection.is_some() { "https" } else { "http" };
    // Every browser names a host.
    let host = host.ok_or(Problem::Failed)?;
    Ok(format!("{scheme}://{host}{}", routes::AUTH_CALLBACK))
}

/// Whether it is a path of this service, and not something that a browser takes for another host.
fn is_page(page: &str) -> bool {
    let is_path = page.starts_with('/') && !page.starts_with("//");
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'\\';
    is_path && page.len() <= MAX_PAGE_BYTES && page.bytes().all(is_plain)
}

fn failed(api: &Api, page: &str, problem: Problem) -> Response {
    let (page, place) = page.split_once('#').unwrap_or((page, ""));
    let separator = if page.contains('?') { '&' } else { '?' };
    let place = if place.is_empty() { String::new() } else { format!("#{place}") };
    let location = format!("{page}{separator}{PROBLEM}={}{place}", problem.word());
    redirect(&location, vec![set_cookie(api, "", 0)])
}

fn redirect(location: &str, cookies: Vec<String>) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    let fields = std::iter::once((header::LOCATION, location.to_owned()))
        .chain(std::iter::once((header::CACHE_CONTROL, "no-store".to_owned())))
        .chain(cookies.into_iter().map(|cookie| (header::SET_COOKIE, cookie)));
    for (name, value) in fields {
        // Pages are graphic ASCII, and an issuer's URL has been parsed.
        if let Ok(value) = value.parse() {
            response.headers_mut().append(name, value);
        }
    }
    response
}

fn cookie_name(api: &Api) -> &'static str {
    if api.protection.is_some() { HOST_COOKIE } else { COOKIE }
}

/// The issuer's page leads back to this service, so the cookie is sent when a user opens a page of
/// it from elsewhere; no script reads it.
fn set_cookie(api: &Api, value: &str, age_seconds: u64) -> String {
    let name = cookie_name(api);
    let secure = if api.protection.is_some() { "; Secure" } else { "" };
    format!("{name}={value}; Path=/; Max-Age={age_seconds}; HttpOnly; SameSite=Lax{secure}")
}

// === impl Problem ===

impl Problem {
    const fn word(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Away => "away",
            Self::Denied => "denied",
            Self::OtherFlow => "other",
            Self::Refused => "refused",
            Self::NoRule => "rules",
            Self::Failed => "failed",
        }
    }
}

// === impl Begun ===

impl Begun {
    fn text(&self) -> String {
        let Self { seed, page } = self;
        format!("{}.{}", URL_SAFE_NO_PAD.encode(seed), URL_SAFE_NO_PAD.encode(page))
    }

    /// None if it is not what was set. The page is judged again: a cookie comes from a browser.
    fn read(text: &str) -> Option<Self> {
        let (seed, page) = text.split_once('.')?;
        let seed = URL_SAFE_NO_PAD.decode(seed).ok()?.try_into().ok()?;
        let page = String::from_utf8(URL_SAFE_NO_PAD.decode(page).ok()?).ok()?;
        is_page(&page).then_some(Self { seed, page })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_sent_to_pages_of_this_service_alone() {
        for page in ["/", "/jobs", "/jobs/j-1?tab=logs#end", "/jobs?labels=a%20in%20(b)"] {
            assert!(is_page(page), "{page}");
        }
        let long = format!("/{}", "a".repeat(MAX_PAGE_BYTES));
        for page in [
            "",
            "jobs",
            "//evil.example",
            "/\\evil.example",
            "/jobs\\..\\",
            "https://evil.example",
            "/a\r\nSet-Cookie: x",
            "/\t/evil.example",
            "/a b",
            "/ä",
            &long,
        ] {
            assert!(!is_page(page), "{page}");
        }
    }

    #[test]
    fn a_sign_in_reads_back_from_its_cookie() {
        let begun = Begun { seed: [7; SEED_BYTES], page: "/jobs?x=1".to_owned() };
        let read = Begun::read(&begun.text()).unwrap();
        assert_eq!((read.seed, read.page), (begun.seed, begun.page));
        let elsewhere = Begun { seed: [7; SEED_BYTES], page: "//evil.example".to_owned() };
        assert!(Begun::read(&elsewhere.text()).is_none());
        for text in ["", ".", "a.b", "AAAA.Lw"] {
            assert!(Begun::read(text).is_none(), "{text}");
        }
    }
}
