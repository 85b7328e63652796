//! An OpenID Connect issuer with its own keys, which signs whatever a test asks for.

mod key;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

use axum::Router;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use axum::routing::{get, post};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::{HeaderMap, StatusCode};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

pub use key::{Algorithm, SigningKey, unsigned, with_public_key_as_secret};

use crate::Serving;

/// For how long an ID token is valid.
const LIFETIME_SECONDS: u64 = 300;

/// The issuer; dropping it stops it.
#[derive(Debug)]
pub struct Issuer {
    serving: Serving,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    url: String,
    keys: Vec<SigningKey>,
    /// Whether requests are answered with 503.
    is_away: bool,
    /// Where its metadata says that the keys are, if not where they are.
    jwks_uri: Option<String>,
    /// How often the keys were asked for.
    reads: usize,
    /// Claims of the next token of the code flow, in addition to the usual ones.
    person: Value,
    /// By code.
    codes: HashMap<String, Authorization>,
    /// The secret that the token endpoint asks for, if any, and whether in the form.
    client_secret: Option<String>,
    takes_secret_in_form: bool,
    /// Bytes that its metadata has for nothing.
    padding: usize,
}

#[derive(Debug)]
struct Authorization {
    client_id: String,
    redirect_uri: String,
    nonce: String,
    challenge: String,
}

/// As tokens have it.
#[expect(clippy::disallowed_methods, reason = "an issuer has its own clock")]
pub fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

// === impl Issuer ===

impl Issuer {
    /// With one RSA key.
    pub async fn start() -> Self {
        let shared = Arc::new(Mutex::new(Shared {
            keys: vec![SigningKey::new(Algorithm::Rs256, "first")],
            person: json!({ "sub": "ada" }),
            ..Shared::default()
        }));
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(metadata))
            .route("/jwks", get(keys))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .with_state(Arc::clone(&shared));
        let serving = Serving::start(router).await;
        shared.lock().unwrap().url.clone_from(&serving.url);
        Self { serving, shared }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap()
    }

    pub fn url(&self) -> &str {
        &self.serving.url
    }

    /// Publishes these keys instead of those before; the first signs.
    pub fn publish(&self, keys: Vec<SigningKey>) {
        self.shared().keys = keys;
    }

    pub fn key(&self) -> SigningKey {
        self.shared().keys[0].clone()
    }

    pub fn be_away(&self, is_away: bool) {
        self.shared().is_away = is_away;
    }

    pub fn say_keys_are_at(&self, url: &str) {
        self.shared().jwks_uri = Some(url.to_owned());
    }

    pub fn ask_for_secret(&self, secret: &str) {
        self.shared().client_secret = Some(secret.to_owned());
    }

    pub fn ask_for_secret_in_form(&self, secret: &str) {
        self.ask_for_secret(secret);
        self.shared().takes_secret_in_form = true;
    }

    pub fn pad_metadata(&self, bytes: usize) {
        self.shared().padding = bytes;
    }

    /// Says another URL of itself: that of something in front of it.
    pub fn be_known_as(&self, url: &str) {
        url.clone_into(&mut self.shared().url);
    }

    /// How often the keys were asked for.
    pub fn reads(&self) -> usize {
        self.shared().reads
    }

    /// Who signs in from now on: claims, `sub` among them.
    pub fn sign_in(&self, person: Value) {
        self.shared().person = person;
    }

    /// Claims of a good token, with others added or replaced; null removes one.
    pub fn claims(&self, audience: &str, more: &Value) -> Value {
        claims(&self.shared().url, audience, more)
    }

    /// A good token.
    pub fn token(&self, audience: &str, more: &Value) -> String {
        self.key().sign(&self.claims(audience, more))
    }
}

fn claims(issuer: &str, audience: &str, more: &Value) -> Value {
    let now = unix_seconds();
    let mut claims = json!({
        "iss": issuer, "aud": audience, "sub": "ada",
        "iat": now, "exp": now + LIFETIME_SECONDS,
    });
    let all = claims.as_object_mut().unwrap();
    for (name, value) in more.as_object().unwrap() {
        match value {
            Value::Null => drop(all.remove(name)),
            value => drop(all.insert(name.clone(), value.clone())),
        }
    }
    claims
}

type Shares = State<Arc<Mutex<Shared>>>;

async fn metadata(State(shared): Shares) -> Response {
    let shared = shared.lock().unwrap();
    let url = &shared.url;
    let keys = shared.jwks_uri.clone().unwrap_or_else(|| format!("{url}/jwks"));
    answer(
        &shared,
        &json!({
            "issuer": url,
            "authorization_endpoint": format!("{url}/authorize"),
            "token_endpoint": format!("{url}/token"),
            "jwks_uri": keys,
            "token_endpoint_auth_methods_supported": match shared.takes_secret_in_form {
                true => json!(["client_secret_post"]),
                false => json!(["client_secret_post", "client_secret_basic"]),
            },
            "padding": "x".repeat(shared.padding),
        }),
    )
}

async fn keys(State(shared): Shares) -> Response {
    let mut shared = shared.lock().unwrap();
    shared.reads += 1;
    let keys: Vec<_> = shared.keys.iter().map(SigningKey::public).collect();
    answer(&shared, &json!({ "keys": keys }))
}

/// Sends the browser back immediately, with a code.
async fn authorize(State(shared): Shares, RawQuery(query): RawQuery) -> Response {
    let mut shared = shared.lock().unwrap();
    let asked = parameters(&query.unwrap_or_default());
    let part = |name: &str| asked.get(name).cloned().unwrap_or_default();
    assert_eq!(
        (part("response_type"), part("code_challenge_method")),
        ("code".into(), "S256".into())
    );
    let code = format!("code-{}", shared.codes.len());
    let authorization = Authorization {
        client_id: part("client_id"),
        redirect_uri: part("redirect_uri"),
        nonce: part("nonce"),
        challenge: part("code_challenge"),
    };
    let back = format!("{}?code={code}&state={}", part("redirect_uri"), part("state"));
    shared.codes.insert(code, authorization);
    Response::builder().status(303).header("Location", back).body(Body::empty()).unwrap()
}

async fn token(State(shared): Shares, headers: HeaderMap, form: String) -> Response {
    let mut shared = shared.lock().unwrap();
    let asked = parameters(&form);
    let part = |name: &str| asked.get(name).map(String::as_str).unwrap_or_default();
    let Some(known) = shared.codes.remove(part("code")) else {
        return refused(StatusCode::BAD_REQUEST, "invalid_grant");
    };
    let challenge = digest(&SHA256, part("code_verifier").as_bytes());
    let is_own = known.challenge == URL_SAFE_NO_PAD.encode(challenge)
        && known.redirect_uri == part("redirect_uri")
        && known.client_id == part("client_id")
        && part("grant_type") == "authorization_code";
    if !is_own {
        return refused(StatusCode::BAD_REQUEST, "invalid_grant");
    }
    let secret = match shared.takes_secret_in_form {
        true => asked.get("client_secret").cloned(),
        false => presented(&headers, &known),
    };
    if shared.client_secret.is_some() && shared.client_secret != secret {
        return refused(StatusCode::UNAUTHORIZED, "invalid_client");
    }
    let mut person = shared.person.clone();
    // A test may have the issuer say another nonce.
    if person.get("nonce").is_none() {
        person["nonce"] = json!(known.nonce);
    }
    let token = shared.keys[0].sign(&claims(&shared.url, &known.client_id, &person));
    answer(&shared, &json!({ "access_token": "x", "token_type": "Bearer", "id_token": token }))
}

/// The secret of a client that presents one as RFC 6749, section 2.3.1, says.
fn presented(headers: &HeaderMap, known: &Authorization) -> Option<String> {
    let text = headers.get("authorization")?.to_str().ok()?.strip_prefix("Basic ")?;
    let pair = String::from_utf8(STANDARD.decode(text).ok()?).ok()?;
    let (id, secret) = pair.split_once(':')?;
    (decoded(id) == known.client_id).then(|| decoded(secret))
}

fn answer(shared: &Shared, body: &Value) -> Response {
    let status = if shared.is_away { 503 } else { 200 };
    Response::builder()
        .status(status)
        .header("Content-Type", "application/json")
        .body(Body::from(if shared.is_away { String::new() } else { body.to_string() }))
        .unwrap()
}

fn refused(status: StatusCode, error: &str) -> Response {
    let body = json!({ "error": error, "error_description": "as the test wants" }).to_string();
    Response::builder().status(status).body(Body::from(body)).unwrap()
}

fn parameters(query: &str) -> HashMap<String, String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (decoded(name), decoded(value))).collect()
}

fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).unwrap()
}
