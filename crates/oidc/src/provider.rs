//! The issuer's side: its metadata, its keys, its token endpoint.
//!
//! What an issuer sends is bounded in bytes and time, and it sends clients nowhere else: redirects
//! are not followed.

use std::error::Error;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::redirect::Policy;
use reqwest::{RequestBuilder, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::key::{self, Key};
use crate::url::{check_issuer, encode, form, is_loopback, is_protected};

/// The largest response of an issuer.
const MAX_RESPONSE_BYTES: usize = 1 << 20;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit for a whole response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Characters of what an issuer says that are repeated.
const QUOTED_CHARS: usize = 200;

const WELL_KNOWN: &str = "/.well-known/openid-configuration";

/// An issuer.
#[derive(Debug, Clone)]
pub struct Provider {
    issuer: String,
    http: reqwest::Client,
}

/// Where an issuer has what.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Metadata {
    issuer: String,
    /// Absent where no one signs in with a browser, as in a Kubernetes cluster.
    authorization_endpoint: Option<String>,
    token_endpoint: Option<String>,
    jwks_uri: String,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Vec<String>,
}

/// The client with which people sign in through the code flow.
#[derive(Clone, PartialEq, Eq)]
pub struct Client {
    pub id: String,
    /// Of a confidential client; secret.
    pub secret: Option<String>,
    /// Separated by spaces.
    pub scopes: String,
}

#[derive(Debug, thiserror::Error)]
pub enum InvalidIssuer {
    #[error("the issuer {0}")]
    Url(&'static str),
    #[error("the issuer's CA is not usable")]
    Authority(#[source] reqwest::Error),
    #[error("the issuer's CA contains no certificate; it is a PEM file")]
    NoAuthority,
    #[error("make an HTTP client")]
    Client(#[source] reqwest::Error),
}

/// Why an issuer did not give what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    #[error("cannot get {url}: {reason}")]
    Unreachable { url: String, reason: String },
    #[error("{url}: {reason}")]
    Invalid { url: String, reason: String },
    /// The token endpoint refused the code.
    #[error("the issuer refused the sign-in: {0}")]
    Refused(String),
}

/// An error of OAuth 2.0.
#[derive(Deserialize)]
struct OAuthError {
    error: String,
    #[serde(default)]
    error_description: String,
}

#[derive(Deserialize)]
struct Tokens {
    id_token: Option<String>,
}

// === impl Provider ===

impl Provider {
    /// Sends nothing. With a CA, in PEM, the certificates of no other one are accepted.
    ///
    /// # Errors
    /// The issuer is no protected URL, or the CA cannot be read.
    pub fn new(issuer: &str, ca: Option<&str>) -> Result<Self, InvalidIssuer> {
        check_issuer(issuer).map_err(InvalidIssuer::Url)?;
        // Fails when the process has already installed a provider, which then applies.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .redirect(Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(REQUEST_TIMEOUT);
        if let Some(ca) = ca {
            let authorities = reqwest::Certificate::from_pem_bundle(ca.as_bytes())
                .map_err(InvalidIssuer::Authority)?;
            if authorities.is_empty() {
                return Err(InvalidIssuer::NoAuthority);
            }
            builder = builder.tls_certs_only(authorities);
        } else if issuer.starts_with("http:") {
            // Reading the machine's certificates takes time and memory.
            builder = builder.tls_certs_only([]);
        }
        if Url::parse(issuer).is_ok_and(|url| is_loopback(&url)) {
            builder = builder.no_proxy();
        }
        let http = builder.build().map_err(InvalidIssuer::Client)?;
        Ok(Self { issuer: issuer.to_owned(), http })
    }

    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Asks the issuer where it has what.
    ///
    /// # Errors
    /// It does not answer, or speaks for another issuer, or names an address that nothing protects.
    pub async fn discover(&self) -> Result<Metadata, ProviderError> {
        let url = format!("{}{WELL_KNOWN}", self.issuer.trim_end_matches('/'));
        let metadata: Metadata = read(&url, &self.send(&url, self.http.get(&url)).await?)?;
        let invalid = |reason: String| Err(ProviderError::Invalid { url: url.clone(), reason });
        if metadata.issuer != self.issuer {
            let other: String = metadata.issuer.chars().take(QUOTED_CHARS).collect();
            return invalid(format!("is of the issuer '{other}', not of '{}'", self.issuer));
        }
        let allows_http = self.issuer.starts_with("http:");
        let endpoints = [&metadata.authorization_endpoint, &metadata.token_endpoint];
        let endpoints = endpoints.into_iter().flatten().chain([&metadata.jwks_uri]);
        for endpoint in endpoints {
            let url = Url::parse(endpoint).ok().filter(is_protected);
            if !url.is_some_and(|url| allows_http || url.scheme() == "https") {
                let shown: String = endpoint.chars().take(QUOTED_CHARS).collect();
                return invalid(format!(
                    "names '{shown}', which is neither https nor http on loopback"
                ));
            }
        }
        Ok(metadata)
    }

    pub(crate) async fn keys(&self, metadata: &Metadata) -> Result<Vec<Key>, ProviderError> {
        let url = &metadata.jwks_uri;
        let set = self.send(url, self.http.get(url)).await?;
        let invalid = |reason| ProviderError::Invalid { url: url.clone(), reason };
        let keys = key::parse(&set).map_err(|error| invalid(error.to_string()))?;
        match keys.is_empty() {
            true => Err(invalid("has no key for RS256, ES256 or EdDSA".to_owned())),
            false => Ok(keys),
        }
    }

    /// Trades a code for an ID token, which is not verified here.
    ///
    /// # Errors
    /// The issuer does not answer, or refuses the code.
    pub async fn redeem(
        &self,
        metadata: &Metadata,
        client: &Client,
        code: &str,
        verifier: &str,
        redirect_uri: &str,
    ) -> Result<String, ProviderError> {
        let url = metadata.token_endpoint.as_deref().ok_or_else(|| self.without_sign_in())?;
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect_uri),
            ("client_id", client.id.as_str()),
            ("code_verifier", verifier),
        ];
        let mut request = self.http.post(url);
        if let Some(secret) = &client.secret {
            if metadata.takes_basic() {
                request = request.header("Authorization", basic(&client.id, secret));
            } else {
                fields.push(("client_secret", secret));
            }
        }
        let request = request
            .header("Content-Type", "application/x-www-form-urlencoded")
            .header("Accept", "application/json")
            .body(form(&fields));
        let tokens: Tokens = read(url, &self.send(url, request).await?)?;
        tokens.id_token.ok_or_else(|| ProviderError::Invalid {
            url: url.to_owned(),
            reason: "returned no ID token; is 'openid' among the scopes?".to_owned(),
        })
    }

    pub(crate) fn without_sign_in(&self) -> ProviderError {
        ProviderError::Invalid {
            url: self.issuer.clone(),
            reason: "cannot sign people in: it lacks an authorization endpoint or a token endpoint"
                .to_owned(),
        }
    }

    async fn send(&self, url: &str, request: RequestBuilder) -> Result<Vec<u8>, ProviderError> {
        let unreachable = |error: &reqwest::Error| ProviderError::Unreachable {
            url: url.to_owned(),
            reason: reason(error),
        };
        let invalid = |reason| ProviderError::Invalid { url: url.to_owned(), reason };
        let mut response = request.send().await.map_err(|error| unreachable(&error))?;
        let status = response.status();
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(|error| unreachable(&error))? {
            if body.len() + piece.len() > MAX_RESPONSE_BYTES {
                return Err(invalid(format!("is longer than {MAX_RESPONSE_BYTES} bytes")));
            }
            body.extend_from_slice(&piece);
        }
        if status.is_success() {
            return Ok(body);
        }
        if let Ok(OAuthError { error, error_description }) = serde_json::from_slice(&body) {
            let said = format!("{error} {error_description}");
            let said = said.chars().filter(|it| !it.is_control()).take(QUOTED_CHARS).collect();
            return Err(ProviderError::Refused(said));
        }
        // A server in trouble may recover; nothing else changes by itself.
        Err(match status.is_server_error() {
            true => ProviderError::Unreachable {
                url: url.to_owned(),
                reason: format!("status {status}"),
            },
            false => invalid(format!("status {status}")),
        })
    }
}

// === impl Metadata ===

impl Metadata {
    pub(crate) fn authorization_endpoint(&self) -> Option<&str> {
        self.authorization_endpoint.as_deref()
    }

    /// What an issuer that says nothing takes (OpenID Connect Discovery, section 3).
    fn takes_basic(&self) -> bool {
        let methods = &self.token_endpoint_auth_methods_supported;
        methods.is_empty() || methods.iter().any(|method| method == "client_secret_basic")
    }
}

/// Both parts are encoded as in a form (RFC 6749, section 2.3.1).
fn basic(id: &str, secret: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{}:{}", encode(id), encode(secret))))
}

/// The secret stays out of logs.
impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("id", &self.id).finish_non_exhaustive()
    }
}

fn read<T: DeserializeOwned>(url: &str, body: &[u8]) -> Result<T, ProviderError> {
    serde_json::from_slice(body)
        .map_err(|error| ProviderError::Invalid { url: url.to_owned(), reason: error.to_string() })
}

/// The causes of an error without the URL, which stands in front of it.
fn reason(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "it took too long".to_owned();
    }
    let mut cause = error.source();
    let mut text = String::new();
    while let Some(current) = cause {
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&current.to_string());
        cause = current.source();
    }
    text
}
