//! The only way from the agent to the Docker Engine.
//!
//! A job decides texts that reach the Engine: the name of an image, paths, variables. None of them
//! may become part of a request's form, and no answer may take the agent's memory, however it
//! comes. So this module builds every request itself, from typed parts ([`request`]), and reads
//! every answer within a bound ([`answer`]); only what is a stream by its nature (logs, archives,
//! pulls) is read piece by piece, each piece bounded ([`frames`]).
//!
//! Rejected: bollard's own requests. It formats names into paths, collects answers whole, and its
//! transport cannot be given other bodies. Its models, options and errors are used as they are.

mod answer;
mod attached;
mod containers;
mod frames;
mod images;
mod request;
mod transport;

use std::sync::Arc;
use std::time::Duration;

use bollard::API_DEFAULT_VERSION;
use bollard::errors::Error;
use bollard::models::{SystemInfo, SystemVersion, Volume};
use http::{HeaderValue, Method};

use answer::Answer;
use request::{Request, Segment, Version};
use transport::Address;

/// One Docker Engine. A clone shares its address.
#[derive(Debug, Clone)]
pub(crate) struct Engine {
    address: Arc<Address>,
    /// None until it was negotiated: the Engine's own default.
    version: Option<Version>,
    /// For the head of an answer, and again for the rest of one that is no stream.
    timeout: Duration,
    /// The login for a registry.
    login: Option<HeaderValue>,
}

// === impl Engine ===

impl Engine {
    /// `host` is the address as `DOCKER_HOST` has it; nothing is connected yet.
    pub(super) fn new(host: &str, timeout: Duration) -> Self {
        Self { address: Arc::new(Address::parse(host)), version: None, timeout, login: None }
    }

    /// The same Engine, asked in the latest version of the API that both sides know.
    pub(super) async fn negotiate(self) -> Result<Self, Error> {
        let request = Request::new(Method::GET, &[Segment::Word("version")]);
        let answered: SystemVersion = self.value(request).await?;
        let theirs = answered.api_version.as_deref().and_then(Version::parse);
        let theirs = theirs.ok_or(Error::APIVersionParseError {})?;
        Ok(Self { version: Some(theirs.min(Version::from(API_DEFAULT_VERSION))), ..self })
    }

    /// The negotiated version, for the log.
    pub(super) fn version(&self) -> String {
        self.version.map_or_else(|| "unknown".to_owned(), |version| version.to_string())
    }

    pub(super) fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    pub(super) fn with_login(self, login: HeaderValue) -> Self {
        Self { login: Some(login), ..self }
    }

    pub(super) async fn info(&self) -> Result<SystemInfo, Error> {
        self.value(Request::new(Method::GET, &[Segment::Word("info")])).await
    }

    /// Every volume, with its size. Engines before API 1.52 answer in another form than later ones.
    pub(super) async fn measured_volumes(&self) -> Result<Vec<Volume>, Error> {
        #[derive(Default, serde::Deserialize)]
        #[serde(default)]
        struct Usage {
            #[serde(rename = "Volumes")]
            volumes: Option<Vec<Volume>>,
            #[serde(rename = "VolumeUsage")]
            usage: Option<Items>,
        }
        #[derive(Default, serde::Deserialize)]
        #[serde(default)]
        struct Items {
            #[serde(rename = "Items")]
            items: Option<Vec<Volume>>,
        }
        let path = [Segment::Word("system"), Segment::Word("df")];
        let query = [("type", "volume"), ("verbose", "true")];
        let usage: Usage = self.value(Request::new(Method::GET, &path).query(&query)?).await?;
        let items = usage.usage.and_then(|usage| usage.items);
        Ok(usage.volumes.or(items).unwrap_or_default())
    }

    /// The answer to a request, once its head says that the request succeeded.
    async fn send(&self, request: Request) -> Result<Answer, Error> {
        let request = request.into_http(self.version, self.login.as_ref())?;
        let response = self.address.send(request, self.timeout).await?;
        Answer::new(response, self.timeout).or_refusal().await
    }

    async fn value<T: serde::de::DeserializeOwned>(&self, request: Request) -> Result<T, Error> {
        self.send(request).await?.value().await
    }

    /// Whatever else the answer says.
    async fn done(&self, request: Request) -> Result<(), Error> {
        self.send(request).await.map(drop)
    }
}

#[cfg(test)]
mod tests;
