//! Request bodies: JSON by content type, bounded in size and time.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use api_types::MAX_BODY_BYTES;
use api_types::error::FieldError;
use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use daemon::http::Peer;
use futures_util::FutureExt;
use http::request::Parts;
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;

use super::arriving::{BODY_TIMEOUT, BodyMemory, LargeBodies};
use super::authenticate::{Access, AuditedRequest};
use crate::http::api::Api;
use crate::http::error::{BadRequest, Failure};
use crate::json::{self, Author, Texts, Unreadable};
use crate::shares::Owner;

/// How long a body may not grow. Its sender has gone, or holds what others need.
const STALL_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest body of an operation that is open to callers without credentials: an ID token has up
/// to 16 KiB. Such a body takes no permit, so that these callers cannot use up any.
const OPEN_BODY_BYTES: usize = 24 * 1024;

/// How much of an oversized body is read and discarded, so that a client that sends before it
/// listens sees the 413. Beyond it, the connection is closed.
const DISCARD_BYTES: usize = 4 * MAX_BODY_BYTES;

/// A body up to this size needs no permit: the connection limit bounds the memory of all small
/// bodies together.
const SMALL_BODY_BYTES: usize = 16 * 1024;

/// A smaller body takes well below a millisecond to read and check and is handled in place; a
/// larger one goes to a blocking thread, so that it does not delay other connections.
pub(in crate::http) const READ_ON_THE_SPOT_BYTES: usize = 64 * 1024;

/// A required request body. Dropping it returns its permits, so keep it until the request is
/// answered.
pub(in crate::http) struct JsonBody {
    pub(in crate::http) bytes: Bytes,
    _memory: Option<BodyMemory>,
}

/// A required body in one of the languages of jobs.
pub(in crate::http) struct JobBody {
    pub(in crate::http) body: JsonBody,
    pub(in crate::http) language: Language,
    owner: Owner,
    /// Of what its aliases made of it.
    expanded: Option<BodyMemory>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum Language {
    Json,
    Yaml,
}

/// The registered type of YAML, and those that were used before (RFC 9512).
const YAML_TYPES: [&str; 4] =
    ["application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"];

/// An optional request body.
pub(in crate::http) struct OptionalBody(pub(in crate::http) Option<JsonBody>);

impl FromRequest<Arc<Api>> for OptionalBody {
    type Rejection = Failure;

    async fn from_request(request: Request, api: &Arc<Api>) -> Result<Self, Failure> {
        let (parts, body) = request.into_parts();
        let body = receive_in_time(&parts, body, api).await?;
        if body.bytes.is_empty() {
            return Ok(Self(None));
        }
        refuse_encoded(&parts.headers)?;
        match language(&parts.headers) {
            Some(Language::Json) => Ok(Self(Some(body))),
            Some(Language::Yaml) | None => Err(unsupported(&parts.headers)),
        }
    }
}

impl FromRequest<Arc<Api>> for JobBody {
    type Rejection = Failure;

    async fn from_request(request: Request, api: &Arc<Api>) -> Result<Self, Failure> {
        let (parts, body) = request.into_parts();
        let body = receive_in_time(&parts, body, api).await?;
        if body.bytes.is_empty() {
            return Err(BadRequest::MalformedBody { reason: "the body is empty".to_owned() }.into());
        }
        refuse_encoded(&parts.headers)?;
        let language = language(&parts.headers).ok_or_else(|| unsupported(&parts.headers))?;
        let owner = owner(&parts, api);
        Ok(Self { body, language, owner, expanded: None })
    }
}

impl JobBody {
    /// Whom what it costs is charged to.
    pub(in crate::http) fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Takes the memory of what the body became, until the request is answered, as if it had arrived
    /// like this.
    pub(in crate::http) async fn expand(&mut self, bytes: usize, api: &Api) -> Result<(), Failure> {
        if bytes > SMALL_BODY_BYTES {
            let memory = api.pools.large_bodies.take(bytes, &self.owner).await?;
            memory.arriving.complete();
            self.expanded = Some(memory);
        }
        Ok(())
    }
}

impl FromRequest<Arc<Api>> for JsonBody {
    type Rejection = Failure;

    async fn from_request(request: Request, api: &Arc<Api>) -> Result<Self, Failure> {
        match OptionalBody::from_request(request, api).await?.0 {
            Some(body) => Ok(body),
            None => {
                Err(BadRequest::MalformedBody { reason: "the body is empty".to_owned() }.into())
            }
        }
    }
}

impl JsonBody {
    /// Reads what a person wrote: strict, except that the case of keys is ignored.
    pub(in crate::http) fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        self.read_of(Author::Person)
    }

    /// The same, where an unknown field is a mistake.
    pub(in crate::http) fn read_known<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let read = json::read(&self.bytes, Author::Person, Texts::Any);
        let json::Reading { value, mut problems, unknown } = read.map_err(refused)?;
        let reason = "is not a known field".to_owned();
        problems
            .extend(unknown.into_iter().map(|path| FieldError { path, reason: reason.clone() }));
        if problems.is_empty() { Ok(value) } else { Err(BadRequest::Body(problems).into()) }
    }

    /// Reads what an agent wrote: fully strict.
    pub(in crate::http) fn read_exactly<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        self.read_of(Author::Program)
    }

    fn read_of<T: DeserializeOwned>(&self, author: Author) -> Result<T, Failure> {
        json::read_strictly(&self.bytes, author).map_err(refused)
    }
}

fn refused(unreadable: Unreadable) -> Failure {
    match unreadable {
        Unreadable::Malformed(reason) => BadRequest::MalformedBody { reason }.into(),
        Unreadable::Shape(problems) => BadRequest::Body(problems).into(),
    }
}

/// Whom a request is charged to.
fn owner(parts: &Parts, api: &Api) -> Owner {
    match parts.extensions.get::<Access>() {
        Some(access) => api.pools.owner(access.caller()),
        None => Owner::unknown(Peer::from_extensions(&parts.extensions).0),
    }
}

async fn receive_in_time(parts: &Parts, body: Body, api: &Api) -> Result<JsonBody, Failure> {
    // What the audit log says of a request goes with it where its credentials are in its body.
    let is_open = parts.extensions.get::<Arc<AuditedRequest>>().is_some();
    let limit = if is_open { OPEN_BODY_BYTES } else { MAX_BODY_BYTES };
    let small = if is_open { OPEN_BODY_BYTES } else { SMALL_BODY_BYTES };
    let owner = owner(parts, api);
    let receiving = Receiving { limit, small, large_bodies: &api.pools.large_bodies, owner };
    let mut received = pin!(receiving.receive(&parts.headers, body));
    // Most bodies have arrived by now. Only one that is waited for gets a timer, in an allocation of
    // its own: its alignment would put that of every handler on the allocator's slow path.
    if let Some(received) = received.as_mut().now_or_never() {
        return received;
    }
    let in_time = Box::pin(tokio::time::timeout(BODY_TIMEOUT, received)).await;
    in_time.map_err(|_| BadRequest::BodyTooSlow { limit: BODY_TIMEOUT })?
}

/// How a body is received.
struct Receiving<'a> {
    /// The longest that is accepted.
    limit: usize,
    /// The longest that needs no permit.
    small: usize,
    large_bodies: &'a LargeBodies,
    owner: Owner,
}

// === impl Receiving ===

impl Receiving<'_> {
    async fn receive(self, headers: &HeaderMap, mut body: Body) -> Result<JsonBody, Failure> {
        let limit = self.limit;
        let announced = headers
            .get(header::CONTENT_LENGTH)
            .and_then(|length| length.to_str().ok())
            .and_then(|length| length.parse::<u64>().ok());
        let is_large = announced.is_some_and(|length| length > limit as u64);
        if is_large && headers.contains_key(header::EXPECT) {
            // The client waits for `100 Continue`, which this sends.
            return Err(BadRequest::BodyTooLarge { limit_bytes: limit }.into());
        }
        let mut received = Vec::new();
        let mut memory: Option<Result<BodyMemory, Failure>> = None;
        let mut length = 0_usize;
        while let Some(data) = next_piece(&mut body, memory.as_ref()).await? {
            length = length.saturating_add(data.len());
            if length > DISCARD_BYTES {
                return Err(BadRequest::BodyTooLarge { limit_bytes: limit }.into());
            }
            if is_large || length > limit {
                continue;
            }
            if length > self.small && memory.is_none() {
                // Without a declared length, a body may be as long as any.
                let bytes = announced.and_then(|bytes| usize::try_from(bytes).ok());
                let bytes = bytes.unwrap_or(limit).max(length);
                memory = Some(self.large_bodies.take(bytes, &self.owner).await);
            }
            match &memory {
                // Read and discarded as well, so that the sender sees the reason.
                Some(Err(_)) => continue,
                Some(Ok(memory)) => memory.arriving.received(data.len()),
                None => {}
            }
            received.extend_from_slice(&data);
        }
        if is_large || length > limit {
            return Err(BadRequest::BodyTooLarge { limit_bytes: limit }.into());
        }
        let memory = memory.transpose()?;
        if let Some(memory) = &memory {
            memory.arriving.complete();
        }
        Ok(JsonBody { bytes: received.into(), _memory: memory })
    }
}

/// The next data of a body, `None` at its end; waits as long as a body may not grow, or until its
/// owner's other bodies need the memory.
async fn next_piece(
    body: &mut Body,
    memory: Option<&Result<BodyMemory, Failure>>,
) -> Result<Option<Bytes>, Failure> {
    loop {
        let frame = match body.frame().now_or_never() {
            Some(frame) => frame,
            None => {
                // In a separate allocation, as the timer of the whole.
                let in_time = Box::pin(tokio::time::timeout(STALL_TIMEOUT, body.frame()));
                let frame = match memory {
                    Some(Ok(memory)) => memory.arriving.cut.run_until_cancelled(in_time).await,
                    _ => Some(in_time.await),
                };
                frame.and_then(Result::ok).ok_or(BadRequest::BodyTooSlow { limit: BODY_TIMEOUT })?
            }
        };
        let Some(frame) = frame else { return Ok(None) };
        let frame = frame.map_err(|_| BadRequest::MalformedBody {
            reason: "the body is incomplete: the connection ended early".to_owned(),
        })?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
}

/// Refuses a compressed body: it would be read as malformed JSON, and the limit counts what arrives.
pub(in crate::http) fn refuse_encoded(headers: &HeaderMap) -> Result<(), Failure> {
    let mut encodings = headers.get_all(header::CONTENT_ENCODING).iter();
    let encoded = encodings.find(|encoding| {
        let encoding = encoding.as_bytes().trim_ascii();
        !encoding.is_empty() && !encoding.eq_ignore_ascii_case(b"identity")
    });
    encoded.map_or(Ok(()), |encoding| {
        let encoding = String::from_utf8_lossy(encoding.as_bytes()).into_owned();
        Err(BadRequest::ContentEncoding(encoding).into())
    })
}

/// What the content type names, if it is known.
fn language(headers: &HeaderMap) -> Option<Language> {
    let text = String::from_utf8_lossy(headers.get(header::CONTENT_TYPE)?.as_bytes());
    let essence = text.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Some(Language::Json);
    }
    let is_yaml = YAML_TYPES.iter().any(|known| essence.eq_ignore_ascii_case(known));
    is_yaml.then_some(Language::Yaml)
}

fn unsupported(headers: &HeaderMap) -> Failure {
    let found = headers.get(header::CONTENT_TYPE);
    let found = found.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    BadRequest::MediaType { found }.into()
}
