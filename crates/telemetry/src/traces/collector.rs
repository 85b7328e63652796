//! The connection to the collector: requests run on the daemon's runtime, an outage is logged once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use opentelemetry_http::{HttpClient, HttpError};
use tokio::runtime::Handle;

/// Larger responses are discarded; collectors send a few bytes.
const MAX_RESPONSE_BYTES: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct Collector {
    runtime: Handle,
    client: reqwest::Client,
    /// Origin of the endpoint, for the log: contains no secret.
    name: String,
    is_down: AtomicBool,
}

// === impl Collector ===

impl Collector {
    pub(super) fn new(
        runtime: Handle,
        endpoint: &str,
        timeout: Duration,
    ) -> Result<Self, reqwest::Error> {
        // Fails when the process has already installed a provider, which then applies.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // A proxy of the environment is for what leaves the cluster.
        let builder = || reqwest::Client::builder().timeout(timeout).no_proxy();
        let client = if endpoint.starts_with("https:") {
            builder().build()?
        } else {
            // Plain HTTP needs no certificates; reading them takes time and memory.
            builder().tls_certs_only([]).build()?
        };
        let name = reqwest::Url::parse(endpoint)
            .map(|url| url.origin().ascii_serialization())
            .unwrap_or_default();
        Ok(Self { runtime, client, name, is_down: AtomicBool::new(false) })
    }

    fn log_change(&self, outcome: &Result<Response<Bytes>, reqwest::Error>) {
        let reason = match outcome {
            Ok(response) if response.status().is_success() => None,
            Ok(response) => Some(format!("the collector responded {}", response.status())),
            Err(error) => Some(chain(error)),
        };
        let was_down = self.is_down.swap(reason.is_some(), Ordering::Relaxed);
        match (was_down, reason) {
            (false, Some(reason)) => tracing::warn!(
                collector = self.name,
                reason,
                "cannot export traces; dropping spans until the collector accepts them"
            ),
            (true, None) => {
                tracing::info!(collector = self.name, "the collector accepts traces again")
            }
            (true, Some(reason)) => tracing::debug!(reason, "still cannot export traces"),
            (false, None) => {}
        }
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        // The exporter's thread has no runtime.
        let sent = self.runtime.spawn(async move {
            let received = client.execute(request.try_into()?).await?;
            let status = received.status();
            let body = match received.content_length() {
                Some(length) if length > MAX_RESPONSE_BYTES => Bytes::new(),
                Some(_) | None => received.bytes().await?,
            };
            let mut response = Response::new(body);
            *response.status_mut() = status;
            Ok::<_, reqwest::Error>(response)
        });
        let outcome = sent.await?;
        self.log_change(&outcome);
        Ok(outcome?)
    }
}

/// The causes of an error without the URL, which may contain a credential.
fn chain(error: &reqwest::Error) -> String {
    let mut text =
        if error.is_timeout() { "the request timed out".to_owned() } else { String::new() };
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
