//! The connection to one base URL, and the ways of asking that all operations share.

use std::time::Duration;

use api_types::ApiError;
use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use reqwest::{Method, RequestBuilder, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{ClientError, InvalidBaseUrl, reason};

/// How long a connection may take to be made; beyond it the service counts as unreachable.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a whole answer may take; for a stream, only its head. A commit on a busy disk takes
/// well below a second; what takes longer than this is better asked again.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest answer that is taken in; beyond it the request fails. Room for a page of a
/// thousand ordinary jobs, and a bound on what a wrong server can make this process hold.
pub const MAX_ANSWER_BYTES: usize = 64 << 20;

/// A pooled connection is dropped after this long without use, before a server's own patience
/// (75 s is common) can close it under a request.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(45);

/// After this long without traffic the kernel probes the peer, so that a stream whose peer
/// vanished does not hang for ever.
const TCP_KEEPALIVE: Duration = Duration::from_secs(15);

/// How much of a foreign answer is quoted in an error.
const QUOTED_CHARS: usize = 200;

/// Speaks to one base URL. Clones share their connections.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    /// Without a slash at the end.
    base_url: String,
}

/// A request on its way to be sent, with its name for error messages.
pub(crate) struct Call<'a> {
    client: &'a Client,
    operation: String,
    builder: RequestBuilder,
    timeout: Duration,
}

/// Names where an error came up.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    operation: String,
    base_url: String,
}

// === impl Client ===

impl Client {
    /// A client for `base_url`, like `http://127.0.0.1:1234`; nothing is sent yet.
    pub fn new(base_url: &str) -> Result<Self, InvalidBaseUrl> {
        let invalid = |reason: String| InvalidBaseUrl { url: base_url.to_owned(), reason };
        let url = reqwest::Url::parse(base_url).map_err(|error| invalid(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(invalid("it begins with http:// or https:// and a host".to_owned()));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(invalid("it has neither a query nor a fragment".to_owned()));
        }
        // Whoever installed a provider before made the choice for the whole process.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("api-client/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            .tcp_keepalive(TCP_KEEPALIVE)
            .tcp_nodelay(true)
            // The API redirects nowhere; following one could send a body to a stranger.
            .redirect(reqwest::redirect::Policy::none());
        if url.scheme() == "http" {
            // Otherwise a host without any CA certificates, such as a minimal container, could
            // not even make the client.
            builder = builder.tls_certs_only([]);
        }
        let http = builder.build().map_err(|error| invalid(reason(&error)))?;
        Ok(Self { http, base_url: base_url.trim_end_matches('/').to_owned() })
    }

    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    pub(crate) fn call(&self, method: Method, path: &str) -> Call<'_> {
        let builder = self
            .http
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

/// A path parameter as it stands in a URL: whatever is not plainly safe is escaped, so that no id
/// can reach another path.
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

    /// Takes another kind of answer than JSON.
    pub(crate) fn accept(mut self, kind: &'static str) -> Self {
        let kind = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(kind))]);
        self.builder = self.builder.headers(kind);
        self
    }

    /// Sends a body as it is made; it may take as long as it takes, and so may the answer.
    pub(crate) async fn upload(mut self, body: reqwest::Body) -> Result<(), ClientError> {
        let place = self.place();
        self.builder = self.builder.header(CONTENT_TYPE, "application/x-ndjson").body(body);
        let response = self.builder.send().await.map_err(|error| place.unreachable(&error))?;
        accepted(response, &place).await.map(drop)
    }

    /// Waits this much longer than usual, for an operation that is asked to wait.
    pub(crate) fn patience(mut self, more: Duration) -> Self {
        self.timeout += more;
        self
    }

    /// Waits no longer than this.
    pub(crate) fn within(mut self, patience: Duration) -> Self {
        self.timeout = patience;
        self
    }

    /// Sends, and reads the whole answer.
    pub(crate) async fn answer<T: DeserializeOwned>(mut self) -> Result<T, ClientError> {
        let place = self.place();
        self.builder = self.builder.timeout(self.timeout);
        let response = self.builder.send().await.map_err(|error| place.unreachable(&error))?;
        let response = accepted(response, &place).await?;
        let body = whole_body(response, &place).await?;
        serde_json::from_slice(&body).map_err(|error| place.protocol(error.to_string()))
    }

    /// Sends, and hands back the body as it comes; only its head is waited for with a bound.
    pub(crate) async fn open(self) -> Result<(Response, Place), ClientError> {
        let place = self.place();
        let response = tokio::time::timeout(self.timeout, self.builder.send())
            .await
            .map_err(|elapsed| place.unreachable(&elapsed))?
            .map_err(|error| place.unreachable(&error))?;
        Ok((accepted(response, &place).await?, place))
    }

    fn place(&self) -> Place {
        Place { operation: self.operation.clone(), base_url: self.client.base_url.clone() }
    }
}

// === impl Place ===

impl Place {
    pub(crate) fn unreachable(&self, error: &dyn std::error::Error) -> ClientError {
        ClientError::Unreachable {
            operation: self.operation.clone(),
            base_url: self.base_url.clone(),
            reason: reason(error),
        }
    }

    pub(crate) fn protocol(&self, reason: String) -> ClientError {
        ClientError::Protocol {
            operation: self.operation.clone(),
            base_url: self.base_url.clone(),
            reason,
        }
    }
}

/// The response when it is a success, the service's refusal otherwise.
async fn accepted(response: Response, place: &Place) -> Result<Response, ClientError> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = tokio::time::timeout(REQUEST_TIMEOUT, whole_body(response, place))
        .await
        .map_err(|elapsed| place.unreachable(&elapsed))??;
    match serde_json::from_slice::<ApiError>(&body) {
        Ok(error) => Err(ClientError::Api(error)),
        Err(_) => {
            let quoted: String =
                String::from_utf8_lossy(&body).chars().take(QUOTED_CHARS).collect();
            Err(place.protocol(format!("status {status} with the body '{}'", quoted.trim())))
        }
    }
}

async fn whole_body(mut response: Response, place: &Place) -> Result<Bytes, ClientError> {
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| place.unreachable(&error))? {
        if body.len() + chunk.len() > MAX_ANSWER_BYTES {
            return Err(place.protocol(format!(
                "the answer is longer than {MAX_ANSWER_BYTES} bytes; ask for a smaller page"
            )));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_is_checked_before_anything_is_sent() {
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
    async fn a_service_that_is_not_there_is_unreachable_and_says_where() {
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
