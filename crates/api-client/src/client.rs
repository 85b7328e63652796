//! The connection to one base URL, and the requests that all operations share.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use api_types::ApiError;
use api_types::text::unparsed_url;
use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use reqwest::{Method, RequestBuilder, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{ClientError, InvalidBaseUrl, reason};
use crate::options::{Credentials, Identity, Options, Trust};
use crate::{proxy, tls};

/// Time limit for opening a connection; beyond it the service counts as unreachable.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit for a whole response; for a stream, only for its head. A commit on a busy disk takes
/// well below a second; a longer request is better repeated.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The largest response; the request fails beyond it. Enough for a page of a thousand ordinary
/// jobs, and a bound on the memory that a misbehaving server can make this process use.
pub const MAX_RESPONSE_BYTES: usize = 64 << 20;

/// A pooled connection is closed after this idle time, before the server's own idle timeout
/// (75 s is common) can close it under a request.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(45);

/// After this idle time the kernel probes the peer, so that a stream whose peer vanished does not
/// hang forever.
const TCP_KEEPALIVE: Duration = Duration::from_secs(15);

/// Characters of an unexpected response that an error quotes.
const QUOTED_CHARS: usize = 200;

/// A client of one base URL. Clones share their connections.
#[derive(Debug, Clone)]
pub struct Client {
    http: Arc<RwLock<reqwest::Client>>,
    /// Without a trailing slash.
    base_url: String,
    options: Arc<Options>,
    /// Through which requests go, if any.
    proxy: Option<Arc<str>>,
}

/// A request before it is sent, with its name for error messages.
pub(crate) struct Call<'a> {
    client: &'a Client,
    operation: String,
    builder: RequestBuilder,
    timeout: Duration,
}

/// Identifies the request in an error.
#[derive(Debug, Clone)]
pub(crate) struct ErrorContext {
    operation: String,
    base_url: String,
    proxy: Option<Arc<str>>,
}

// === impl Client ===

impl Client {
    /// Makes a client for `base_url`, like `http://127.0.0.1:1234`; sends nothing.
    pub fn new(base_url: &str) -> Result<Self, InvalidBaseUrl> {
        Self::with(Options { base_url: base_url.to_owned(), ..Options::default() })
    }

    /// Makes a client with these options; sends nothing.
    pub fn with(options: Options) -> Result<Self, InvalidBaseUrl> {
        let (http, proxy) = connections(&options)?;
        let base_url = options.base_url.trim_end_matches('/').to_owned();
        let (http, options) = (Arc::new(RwLock::new(http)), Arc::new(options));
        Ok(Self { http, base_url, options, proxy: proxy.map(Arc::from) })
    }

    /// Opens new connections of this client and of its clones with another identity, to servers of
    /// this CA, in PEM; requests in progress end on their own connections.
    pub fn replace_identity(&self, identity: Identity, ca: String) -> Result<(), InvalidBaseUrl> {
        let (trust, credentials) = (Trust::Authority(ca), Credentials::Agent(Some(identity)));
        let Options { base_url, proxy, .. } = &*self.options;
        let (base_url, proxy) = (base_url.clone(), *proxy);
        let (http, _) = connections(&Options { base_url, trust, credentials, proxy })?;
        *self.http.write().unwrap_or_else(PoisonError::into_inner) = http;
        Ok(())
    }

    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// The base URL for messages: without a user and password.
    fn shown_url(&self) -> String {
        if !self.base_url.contains('@') {
            return self.base_url.clone();
        }
        let Ok(mut url) = reqwest::Url::parse(&self.base_url) else {
            return unparsed_url(&self.base_url);
        };
        // Only a URL without a host refuses, and that has neither.
        let _ = url.set_password(None);
        let _ = url.set_username("***");
        url.as_str().trim_end_matches('/').to_owned()
    }

    pub(crate) fn call(&self, method: Method, path: &str) -> Call<'_> {
        let http = self.http.read().unwrap_or_else(PoisonError::into_inner).clone();
        let builder = http
            .request(method.clone(), format!("{}{path}", self.base_url))
            .header(ACCEPT, "application/json");
        Call {
            client: self,
            operation: format!("{method} {path}"),
            builder,
            timeout: REQUEST_TIMEOUT,
        }
    }

    pub(crate) fn get(&self, path: &str) -> Call<'_> {
        self.call(Method::GET, path)
    }
}

/// The connections of a client with these options, and the proxy that they use.
fn connections(options: &Options) -> Result<(reqwest::Client, Option<String>), InvalidBaseUrl> {
    let invalid = |reason: String| InvalidBaseUrl { url: unparsed_url(&options.base_url), reason };
    let url = reqwest::Url::parse(&options.base_url).map_err(|error| invalid(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(invalid("it must begin with http:// or https:// and a host".to_owned()));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(invalid("it must have neither a query nor a fragment".to_owned()));
    }
    let is_plain = url.scheme() == "http";
    if is_plain && !matches!(options.trust, Trust::System) {
        let reason = "a CA is given, so it must begin with https://".to_owned();
        return Err(invalid(reason));
    }
    // Fails when the process has already installed a provider, which then applies.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("api-client/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(POOL_IDLE_TIMEOUT)
        .tcp_keepalive(TCP_KEEPALIVE)
        .tcp_nodelay(true)
        // The API never redirects; following a redirect could send a body to another server.
        .redirect(reqwest::redirect::Policy::none());
    if let Credentials::Bearer(token) = &options.credentials {
        let mut value = HeaderValue::try_from(format!("Bearer {token}"))
            .map_err(|_| invalid("the token has characters that no token has".to_owned()))?;
        value.set_sensitive(true);
        builder = builder.default_headers(HeaderMap::from_iter([(AUTHORIZATION, value)]));
    }
    if is_plain {
        // Otherwise construction fails on a host without CA certificates, such as a
        // minimal container.
        builder = builder.tls_certs_only([]);
    } else if let Some(config) =
        tls::config(&options.trust, &options.credentials).map_err(invalid)?
    {
        builder = builder.tls_backend_preconfigured(config);
    }
    let proxy = proxy::for_url(&url, options.proxy);
    if proxy.is_none() {
        builder = builder.no_proxy();
    }
    let client = builder.build().map_err(|error| invalid(reason(&error)))?;
    Ok((client, proxy))
}

/// Escapes a path parameter: everything but unreserved characters, so that no id can reach another
/// path.
pub(crate) fn segment(value: impl std::fmt::Display) -> String {
    let mut escaped = String::new();
    for byte in value.to_string().bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

// === impl Call ===

impl Call<'_> {
    pub(crate) fn query(mut self, pairs: &[(&str, String)]) -> Self {
        if !pairs.is_empty() {
            self.builder = self.builder.query(pairs);
        }
        self
    }

    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.builder = self.builder.header(name, value);
        self
    }

    pub(crate) fn json<T: Serialize>(mut self, body: &T) -> Self {
        self.builder = self.builder.json(body);
        self
    }

    pub(crate) fn json_bytes(mut self, body: Bytes) -> Self {
        self.builder = self.builder.header(CONTENT_TYPE, "application/json").body(body);
        self
    }

    /// Accepts a content type other than JSON.
    pub(crate) fn accept(mut self, kind: &'static str) -> Self {
        let kind = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(kind))]);
        self.builder = self.builder.headers(kind);
        self
    }

    /// Streams a body to the service; neither the body nor the response has a time limit.
    pub(crate) async fn upload(mut self, body: reqwest::Body) -> Result<(), ClientError> {
        let context = self.context();
        self.builder = self.builder.header(CONTENT_TYPE, "application/x-ndjson").body(body);
        let response = self.builder.send().await.map_err(|error| context.unreachable(&error))?;
        accepted(response, &context).await.map(drop)
    }

    /// Extends the timeout, for an operation that waits on request.
    pub(crate) fn extend_timeout(mut self, more: Duration) -> Self {
        self.timeout += more;
        self
    }

    /// Replaces the timeout.
    pub(crate) fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sends the request and parses the whole response.
    pub(crate) async fn send<T: DeserializeOwned>(mut self) -> Result<T, ClientError> {
        let context = self.context();
        self.builder = self.builder.timeout(self.timeout);
        let response = self.builder.send().await.map_err(|error| context.unreachable(&error))?;
        let response = accepted(response, &context).await?;
        let body = whole_body(response, &context).await?;
        serde_json::from_slice(&body).map_err(|error| context.protocol(error.to_string()))
    }

    /// Sends the request and returns the open body; the timeout applies to the head only.
    pub(crate) async fn open(self) -> Result<(Response, ErrorContext), ClientError> {
        let context = self.context();
        let response = tokio::time::timeout(self.timeout, self.builder.send())
            .await
            .map_err(|elapsed| context.unreachable(&elapsed))?
            .map_err(|error| context.unreachable(&error))?;
        Ok((accepted(response, &context).await?, context))
    }

    fn context(&self) -> ErrorContext {
        ErrorContext {
            operation: self.operation.clone(),
            base_url: self.client.shown_url(),
            proxy: self.client.proxy.clone(),
        }
    }
}

// === impl ErrorContext ===

impl ErrorContext {
    pub(crate) fn unreachable(&self, error: &(dyn std::error::Error + 'static)) -> ClientError {
        if tls::is_distrust(error) {
            return ClientError::Untrusted {
                operation: self.operation.clone(),
                base_url: self.base_url.clone(),
                reason: reason(error),
            };
        }
        ClientError::Unreachable {
            operation: self.operation.clone(),
            base_url: self.base_url.clone(),
            reason: self.through_proxy(reason(error)),
        }
    }

    /// The reason with the proxy, which may be what does not respond.
    fn through_proxy(&self, reason: String) -> String {
        match &self.proxy {
            Some(proxy) => format!("through the proxy {proxy} of the environment: {reason}"),
            None => reason,
        }
    }

    pub(crate) fn protocol(&self, reason: String) -> ClientError {
        ClientError::Protocol {
            operation: self.operation.clone(),
            base_url: self.base_url.clone(),
            reason: self.through_proxy(reason),
        }
    }
}

/// Passes a success through; turns any other response into an error.
async fn accepted(response: Response, context: &ErrorContext) -> Result<Response, ClientError> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = tokio::time::timeout(REQUEST_TIMEOUT, whole_body(response, context))
        .await
        .map_err(|elapsed| context.unreachable(&elapsed))??;
    match serde_json::from_slice::<ApiError>(&body) {
        Ok(error) => Err(ClientError::Api(error)),
        Err(_) => {
            let quoted: String =
                String::from_utf8_lossy(&body).chars().take(QUOTED_CHARS).collect();
            Err(context.protocol(format!("status {status} with the body '{}'", quoted.trim())))
        }
    }
}

async fn whole_body(mut response: Response, context: &ErrorContext) -> Result<Bytes, ClientError> {
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| context.unreachable(&error))? {
        if body.len() + chunk.len() > MAX_RESPONSE_BYTES {
            return Err(context.protocol(format!(
                "the response is longer than {MAX_RESPONSE_BYTES} bytes; request a smaller page"
            )));
        }
        body.extend_from_slice(&chunk);
    }
    #[cfg(feature = "observed")]
    crate::observed::show(&context.operation, &body);
    Ok(body.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_is_checked_before_anything_is_sent() {
        let refused = Client::new("http://u:secret@h:x/").unwrap_err();
        assert_eq!(refused.to_string(), "'http://h…' is not a base URL: invalid port number");
        let client = Client::new("http://u:secret@h:1/a").unwrap();
        assert_eq!(client.shown_url(), "http://***@h:1/a");
        for url in ["", "127.0.0.1:1234", "ftp://h", "http://h?x=1", "http://h/#x"] {
            assert!(Client::new(url).is_err(), "{url}");
        }
        assert_eq!(Client::new("http://h:1/").unwrap().base_url(), "http://h:1");
    }

    #[test]
    fn an_id_cannot_reach_another_path() {
        assert_eq!(segment("j-12ab34cd"), "j-12ab34cd");
        assert_eq!(segment("a/b?c#d%ü"), "a%2Fb%3Fc%23d%25%C3%BC");
    }

    #[tokio::test]
    async fn an_unreachable_service_is_named_in_the_error() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let base_url = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let error = Client::new(&base_url).unwrap().alive().await.unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, ClientError::Unreachable { .. }), "{text}");
        assert!(text.contains(&base_url) && text.contains("refused"), "{text}");
        assert!(text.starts_with("GET /api/v1/agent/alive"), "{text}");
    }
}
