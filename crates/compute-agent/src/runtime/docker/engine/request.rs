//! Requests of the Engine's API, from typed parts.
//!
//! [`Request::new`] is the one place that makes a path. Its segments are words of this program, or
//! names that are checked and percent-encoded here: no segment can end early, add another one, or
//! begin a query.

use std::fmt;

use api_types::image::ImageReference;
use bollard::ClientVersion;
use bollard::errors::Error;
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, UPGRADE};
use http::{HeaderName, HeaderValue, Method};
use http_body_util::Full;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;

/// Carries the Engine's name for "X-Registry-Auth".
const REGISTRY_AUTH: HeaderName = HeaderName::from_static("x-registry-auth");

/// Everything but what RFC 3986 calls unreserved.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A part of a path, between two slashes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Segment<'a> {
    Word(&'static str),
    /// The name or ID of a container.
    Container(&'a str),
    Image(&'a ImageReference),
}

/// A version of the Engine's API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version {
    major: usize,
    minor: usize,
}

#[derive(Debug)]
pub(super) struct Request {
    method: Method,
    /// Below the version; none of a request that names what cannot exist.
    path: Result<String, NoSuchName>,
    query: String,
    content_type: &'static str,
    body: Bytes,
    upgrades: bool,
}

/// A name that no container can have.
#[derive(Debug)]
struct NoSuchName(String);

// === impl Request ===

impl Request {
    pub(super) fn new(method: Method, segments: &[Segment<'_>]) -> Self {
        let mut path = Ok(String::new());
        for segment in segments {
            path = path.and_then(|path| Ok(format!("{path}/{}", segment.encoded()?)));
        }
        Self {
            method,
            path,
            query: String::new(),
            content_type: "application/json",
            body: Bytes::new(),
            upgrades: false,
        }
    }

    pub(super) fn query<Q: Serialize + ?Sized>(self, query: &Q) -> Result<Self, Error> {
        Ok(Self { query: serde_urlencoded::to_string(query)?, ..self })
    }

    pub(super) fn json<B: Serialize>(self, body: &B) -> Result<Self, Error> {
        Ok(Self { body: serde_json::to_vec(body)?.into(), ..self })
    }

    pub(super) fn tar(self, body: Bytes) -> Self {
        Self { body, content_type: "application/x-tar", ..self }
    }

    /// The connection becomes the standard streams of a container.
    pub(super) fn upgrading(self) -> Self {
        Self { upgrades: true, ..self }
    }

    pub(super) fn into_http(
        self,
        version: Option<Version>,
        login: Option<&HeaderValue>,
    ) -> Result<http::Request<Full<Bytes>>, Error> {
        // As the Engine would answer, which is not asked.
        let path = self.path.map_err(|NoSuchName(name)| Error::DockerResponseServerError {
            status_code: 404,
            message: format!("No such container: '{}'", name.escape_default()),
        })?;
        let mut target = version.map(|version| format!("/v{version}")).unwrap_or_default();
        target.push_str(&path);
        if !self.query.is_empty() {
            target.push('?');
            target.push_str(&self.query);
        }
        let mut request = http::Request::builder()
            .method(self.method)
            .uri(target)
            .header(CONTENT_TYPE, self.content_type);
        if self.upgrades {
            request = request.header(CONNECTION, "Upgrade").header(UPGRADE, "tcp");
        }
        if let Some(login) = login {
            request = request.header(REGISTRY_AUTH, login);
        }
        Ok(request.body(Full::new(self.body))?)
    }
}

// === impl Segment ===

impl Segment<'_> {
    fn encoded(self) -> Result<String, NoSuchName> {
        let text = match self {
            Self::Word(word) => word,
            Self::Container(name) if is_container(name) => name,
            Self::Container(name) => return Err(NoSuchName(name.to_owned())),
            Self::Image(image) => image.as_str(),
        };
        Ok(utf8_percent_encode(text, RESERVED).to_string())
    }
}

/// Whether the Engine accepts the name for a container.
fn is_container(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphanumeric())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

// === impl Version ===

impl Version {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once('.')?;
        Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

impl From<&ClientVersion> for Version {
    fn from(version: &ClientVersion) -> Self {
        Self { major: version.major_version, minor: version.minor_version }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}
