//! One request, and at which of several URLs it is tried.
//!
//! All URLs lead to the same service, and the next one is tried only where that cannot do twice what
//! should be done once:
//!
//! | at this URL | the next one gets |
//! |---|---|
//! | no connection, or a certificate that is not trusted: nothing was sent | any request |
//! | the connection ended before the whole response | a request that may be repeated |
//! | 503 because the service stops, or its store does not answer | a request that may be repeated |
//! | no response in time | none: the time of the request is over |
//! | any other response | none: the service has answered |
//!
//! A request may be repeated if it only reads, or has an idempotency key. A 503 does not allow more:
//! the service may have stored the change and not have learned it. After each of the first four,
//! later requests begin with the next URL.

use std::sync::Arc;
use std::time::Duration;

use api_types::{ApiError, Code};
use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Method, RequestBuilder, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::Client;
use crate::endpoints::Endpoint;
use crate::error::{ClientError, NoAnswer, reason};
use crate::tls;

/// Time limit for a whole response; for a stream, only for its head. A commit on a busy disk takes
/// well below a second; a longer request is better repeated.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The largest response; the request fails beyond it. Enough for a page of a thousand ordinary
/// jobs, and a bound on the memory that a misbehaving server can make this process use.
pub const MAX_RESPONSE_BYTES: usize = 64 << 20;

/// Characters of an unexpected response that an error quotes.
const QUOTED_CHARS: usize = 200;

const JSON: &str = "application/json";
const LINES: &str = "application/x-ndjson";

/// Makes a repeat of a request harmless.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// A request before it is sent, with its name for error messages.
pub(crate) struct Call<'a> {
    client: &'a Client,
    method: Method,
    path: String,
    query: Vec<(String, String)>,
    accept: &'static str,
    headers: Vec<(&'static str, String)>,
    body: Option<Bytes>,
    may_be_repeated: bool,
    timeout: Duration,
}

/// Identifies the request in an error.
#[derive(Debug, Clone)]
pub(crate) struct ErrorContext {
    operation: String,
    base_url: String,
    proxy: Option<Arc<str>>,
}

/// The attempts at sending one request.
struct Attempts<'a> {
    call: &'a Call<'a>,
    /// Each URL, with its number.
    order: Vec<(usize, &'a Endpoint)>,
    /// How those that failed ended.
    failures: Vec<(String, ClientError)>,
}

/// What an attempt at one URL ended with.
struct Failed {
    error: ClientError,
    next: Next,
}

/// Which requests the next URL gets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Any,
    Repeatable,
    /// Later ones.
    Others,
    /// None, and this URL works.
    Nothing,
}

// === impl Call ===

impl<'a> Call<'a> {
    pub(crate) fn new(client: &'a Client, method: Method, path: &str) -> Self {
        Self {
            client,
            may_be_repeated: method == Method::GET,
            method,
            path: path.to_owned(),
            query: Vec::new(),
            accept: JSON,
            headers: Vec::new(),
            body: None,
            timeout: REQUEST_TIMEOUT,
        }
    }

    pub(crate) fn query(mut self, pairs: &[(&str, String)]) -> Self {
        self.query.extend(pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        self
    }

    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.may_be_repeated |= name == IDEMPOTENCY_KEY;
        self.headers.push((name, value.to_owned()));
        self
    }

    pub(crate) fn json<T: Serialize>(self, body: &T) -> Self {
        let body = serde_json::to_vec(body).expect("a type of the API is JSON");
        self.json_bytes(Bytes::from(body))
    }

    pub(crate) fn json_bytes(mut self, body: Bytes) -> Self {
        self.body = Some(body);
        self
    }

    /// Accepts a content type other than JSON.
    pub(crate) fn accept(mut self, kind: &'static str) -> Self {
        self.accept = kind;
        self
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
}

// === impl Call: sending ===

impl Call<'_> {
    /// Streams a body to the service, at one URL, since it cannot be sent twice; neither the body nor
    /// the response has a time limit.
    pub(crate) async fn upload(self, body: reqwest::Body) -> Result<(), ClientError> {
        let mut attempts = Attempts::new(&self);
        let (endpoint, context) = attempts.current();
        let sent = self.request(endpoint).header(CONTENT_TYPE, LINES).body(body).send().await;
        let ended = match sent {
            Ok(response) => accepted(response, &context).await.map(drop),
            Err(error) => Err(context.failed(&error)),
        };
        ended.map_err(|failed| attempts.ended(failed))
    }

    /// Sends the request and parses the whole response.
    pub(crate) async fn send<T: DeserializeOwned>(self) -> Result<T, ClientError> {
        let mut attempts = Attempts::new(&self);
        loop {
            let (endpoint, context) = attempts.current();
            match self.body(endpoint, &context).await {
                Ok(body) => {
                    return serde_json::from_slice(&body)
                        .map_err(|error| context.protocol(error.to_string()));
                }
                Err(failed) => attempts.go_on(failed)?,
            }
        }
    }

    /// Sends the request and returns the open body; the timeout applies to the head only.
    pub(crate) async fn open(self) -> Result<(Response, ErrorContext), ClientError> {
        let mut attempts = Attempts::new(&self);
        loop {
            let (endpoint, context) = attempts.current();
            match self.head(endpoint, &context).await {
                Ok(response) => return Ok((response, context)),
                Err(failed) => attempts.go_on(failed)?,
            }
        }
    }

    async fn body(&self, endpoint: &Endpoint, context: &ErrorContext) -> Result<Bytes, Failed> {
        let sent = self.request(endpoint).timeout(self.timeout).send().await;
        let response = sent.map_err(|error| context.failed(&error))?;
        whole_body(accepted(response, context).await?, context).await
    }

    async fn head(&self, endpoint: &Endpoint, context: &ErrorContext) -> Result<Response, Failed> {
        let sent = tokio::time::timeout(self.timeout, self.request(endpoint).send()).await;
        let sent = sent.map_err(|elapsed| context.late(&elapsed))?;
        accepted(sent.map_err(|error| context.failed(&error))?, context).await
    }

    fn request(&self, endpoint: &Endpoint) -> RequestBuilder {
        let url = format!("{}{}", endpoint.base_url(), self.path);
        let mut builder =
            endpoint.http().request(self.method.clone(), url).header(ACCEPT, self.accept);
        for (name, value) in &self.headers {
            builder = builder.header(*name, value);
        }
        if !self.query.is_empty() {
            builder = builder.query(&self.query);
        }
        match &self.body {
            Some(body) => builder.header(CONTENT_TYPE, JSON).body(body.clone()),
            None => builder,
        }
    }

    fn operation(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    fn context(&self, endpoint: &Endpoint) -> ErrorContext {
        ErrorContext {
            operation: self.operation(),
            base_url: endpoint.shown_url(),
            proxy: endpoint.proxy().cloned(),
        }
    }
}

// === impl Attempts ===

impl<'a> Attempts<'a> {
    fn new(call: &'a Call<'a>) -> Self {
        let order: Vec<_> = call.client.endpoints().in_order().collect();
        Self { call, order, failures: Vec::new() }
    }

    /// The URL of this attempt.
    fn current(&self) -> (&'a Endpoint, ErrorContext) {
        let (_, endpoint) = self.order[self.failures.len()];
        (endpoint, self.call.context(endpoint))
    }

    /// Goes on to the next URL, unless the request may not; then the error is that of the request.
    fn go_on(&mut self, failed: Failed) -> Result<(), ClientError> {
        let may_go_on = match failed.next {
            Next::Any => true,
            Next::Repeatable => self.call.may_be_repeated,
            Next::Others | Next::Nothing => false,
        };
        let has_next = self.failures.len() + 1 < self.order.len();
        if !(may_go_on && has_next) {
            return Err(self.ended(failed));
        }
        self.leave(failed.error);
        Ok(())
    }

    /// The error of a request that goes no further.
    fn ended(&mut self, Failed { error, next }: Failed) -> ClientError {
        if next == Next::Nothing {
            return error;
        }
        self.leave(error);
        NoAnswer::of_all(self.call.operation(), std::mem::take(&mut self.failures))
    }

    fn leave(&mut self, error: ClientError) {
        let (index, endpoint) = self.order[self.failures.len()];
        self.call.client.endpoints().leave(index);
        self.failures.push((endpoint.shown_url(), error));
    }
}

// === impl Failed ===

impl Failed {
    fn finally(error: ClientError) -> Self {
        Self { error, next: Next::Nothing }
    }
}

// === impl ErrorContext ===

impl ErrorContext {
    fn failed(&self, error: &reqwest::Error) -> Failed {
        let next = match error {
            _ if error.is_connect() || tls::is_distrust(error) => Next::Any,
            // Such as a header that cannot be sent.
            _ if error.is_builder() => Next::Nothing,
            _ if error.is_timeout() => Next::Others,
            _ => Next::Repeatable,
        };
        Failed { error: self.unreachable(error), next }
    }

    fn late(&self, elapsed: &tokio::time::error::Elapsed) -> Failed {
        Failed { error: self.unreachable(elapsed), next: Next::Others }
    }

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
async fn accepted(response: Response, context: &ErrorContext) -> Result<Response, Failed> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = tokio::time::timeout(REQUEST_TIMEOUT, whole_body(response, context))
        .await
        .map_err(|elapsed| context.late(&elapsed))??;
    match serde_json::from_slice::<ApiError>(&body) {
        Ok(error) => {
            let next = match error.code {
                Code::StoreUnavailable | Code::ShuttingDown => Next::Repeatable,
                _ => Next::Nothing,
            };
            Err(Failed { error: ClientError::Api(error), next })
        }
        Err(_) => {
            let quoted: String =
                String::from_utf8_lossy(&body).chars().take(QUOTED_CHARS).collect();
            let error =
                context.protocol(format!("status {status} with the body '{}'", quoted.trim()));
            // Of a load balancer that has no service.
            let is_away = status == StatusCode::SERVICE_UNAVAILABLE;
            Err(Failed { error, next: if is_away { Next::Repeatable } else { Next::Nothing } })
        }
    }
}

async fn whole_body(mut response: Response, context: &ErrorContext) -> Result<Bytes, Failed> {
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| context.failed(&error))? {
        if body.len() + chunk.len() > MAX_RESPONSE_BYTES {
            return Err(Failed::finally(context.protocol(format!(
                "the response is longer than {MAX_RESPONSE_BYTES} bytes; request a smaller page"
            ))));
        }
        body.extend_from_slice(&chunk);
    }
    #[cfg(feature = "observed")]
    crate::observed::show(&context.operation, &body);
    Ok(body.freeze())
}

#[cfg(test)]
mod tests;
