//! The way to the collector: requests run on the daemon's runtime, and what fails is told once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use opentelemetry_http::{HttpClient, HttpError};
use tokio::runtime::Handle;

/// The longest answer that is taken in; collectors answer with a few bytes.
const MAX_ANSWER_BYTES: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct Collector {
    runtime: Handle,
    client: reqwest::Client,
    /// For the log: without what may be secret.
    name: String,
    away: AtomicBool,
}

// === impl Collector ===

impl Collector {
    pub(super) fn new(
        runtime: Handle,
        endpoint: &str,
        timeout: Duration,
    ) -> Result<Self, reqwest::Error> {
        // Whoever installed a provider before made the choice for the whole process.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = || reqwest::Client::builder().timeout(timeout);
        let client = if endpoint.starts_with("https:") {
            builder().build()?
        } else {
            // Reading the system's certificates takes time and memory that plain HTTP can do without.
            builder().tls_certs_only([]).build()?
        };
        let name = reqwest::Url::parse(endpoint)
            .map(|url| url.origin().ascii_serialization())
            .unwrap_or_default();
        Ok(Self { runtime, client, name, away: AtomicBool::new(false) })
    }

    fn note(&self, outcome: &Result<Response<Bytes>, reqwest::Error>) {
        let reason = match outcome {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(format!("it answers {}", answer.status())),
            Err(error) => Some(chain(error)),
        };
        let was_away = self.away.swap(reason.is_some(), Ordering::Relaxed);
        match (was_away, reason) {
            (false, Some(reason)) => tracing::warn!(
                collector = self.name,
                reason,
                "traces cannot be sent; spans are dropped until the collector takes them"
            ),
            (true, None) => {
                tracing::info!(collector = self.name, "the collector takes traces again")
            }
            (true, Some(reason)) => tracing::debug!(reason, "traces still cannot be sent"),
            (false, None) => {}
        }
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        // The exporter's thread has no runtime of its own.
        let sent = self.runtime.spawn(async move {
            let answer = client.execute(request.try_into()?).await?;
            let status = answer.status();
            let body = match answer.content_length() {
                Some(length) if length > MAX_ANSWER_BYTES => Bytes::new(),
                Some(_) | None => answer.bytes().await?,
            };
            let mut response = Response::new(body);
            *response.status_mut() = status;
            Ok::<_, reqwest::Error>(response)
        });
        let outcome = sent.await?;
        self.note(&outcome);
        Ok(outcome?)
    }
}

/// What failed, without the URL: it may hold a credential.
fn chain(error: &reqwest::Error) -> String {
    let mut text = if error.is_timeout() { "no answer in time".to_owned() } else { String::new() };
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
