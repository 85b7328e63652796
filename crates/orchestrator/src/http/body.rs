//! Request bodies: JSON by content type, bounded in size and time.

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use api_types::MAX_BODY_BYTES;
use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use daemon::http::Peer;
use futures_util::FutureExt;
use http::request::Parts;
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;

use super::Api;
use super::arriving::{LargeBodies, Room};
use super::error::Failure;
use crate::json::{self, Author, Unreadable};

/// How long a body may take to arrive: 10 MB at 170 kB/s. A slower sender receives an error and its
/// connection is closed, so it cannot occupy one forever.
pub(super) const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// How much of an oversized body is read and discarded, so that a client that sends before it
/// listens sees the 413. Beyond it, the connection is closed.
const DISCARD_BYTES: usize = 4 * MAX_BODY_BYTES;

/// A body up to this size needs no permit: the connection limit bounds the memory of all small
/// bodies together.
const SMALL_BODY_BYTES: usize = 16 * 1024;

/// A smaller body takes well below a millisecond to read and check and is handled in place; a
/// larger one goes to a blocking thread, so that it does not delay other connections.
pub(super) const READ_ON_THE_SPOT_BYTES: usize = 64 * 1024;

/// A required request body. Dropping it returns its permits, so keep it until the request is
/// answered.
pub(super) struct JsonBody {
    pub(super) bytes: Bytes,
    _room: Option<Room>,
}

/// A required body in one of the languages of jobs.
pub(super) struct JobBody {
    pub(super) body: JsonBody,
    pub(super) language: Language,
    from: Option<IpAddr>,
    /// Of what its aliases made of it.
    expanded: Option<Room>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    Json,
    Yaml,
}

/// The registered type of YAML, and those that were used before (RFC 9512).
const YAML_TYPES: [&str; 4] =
    ["application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"];

/// An optional request body.
pub(super) struct OptionalBody(pub(super) Option<JsonBody>);

impl FromRequest<Arc<Api>> for OptionalBody {
    type Rejection = Failure;

    async fn from_request(request: Request, api: &Arc<Api>) -> Result<Self, Failure> {
        let (parts, body) = request.into_parts();
        let body = receive_in_time(&parts, body, api).await?;
        if body.bytes.is_empty() {
            return Ok(Self(None));
        }
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
            return Err(Failure::MalformedBody { reason: "the body is empty".to_owned() });
        }
        let language = language(&parts.headers).ok_or_else(|| unsupported(&parts.headers))?;
        let from = Peer::of(&parts.extensions).0;
        Ok(Self { body, language, from, expanded: None })
    }
}

impl JobBody {
    /// Takes the memory of what the body became, until the request is answered, as if it had arrived
    /// like this.
    pub(super) async fn expand(&mut self, bytes: usize, api: &Api) -> Result<(), Failure> {
        if bytes > SMALL_BODY_BYTES {
            let room = api.large_bodies.take(bytes, self.from).await?;
            room.arriving.complete();
            self.expanded = Some(room);
        }
        Ok(())
    }
}

impl FromRequest<Arc<Api>> for JsonBody {
    type Rejection = Failure;

    async fn from_request(request: Request, api: &Arc<Api>) -> Result<Self, Failure> {
        match OptionalBody::from_request(request, api).await?.0 {
            Some(body) => Ok(body),
            None => Err(Failure::MalformedBody { reason: "the body is empty".to_owned() }),
        }
    }
}

impl JsonBody {
    /// Reads what a person wrote: strict, except that the case of keys is ignored.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        self.read_of(Author::Person)
    }

    /// Reads what an agent wrote: fully strict.
    pub(super) fn read_exactly<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        self.read_of(Author::Program)
    }

    fn read_of<T: DeserializeOwned>(&self, author: Author) -> Result<T, Failure> {
        json::read_strictly(&self.bytes, author).map_err(|unreadable| match unreadable {
            Unreadable::Malformed(reason) => Failure::MalformedBody { reason },
            Unreadable::Shape(problems) => Failure::InvalidBody(problems),
        })
    }
}

async fn receive_in_time(parts: &Parts, body: Body, api: &Api) -> Result<JsonBody, Failure> {
    let from = Peer::of(&parts.extensions).0;
    let mut received = pin!(receive(&parts.headers, body, &api.large_bodies, from));
    // Most bodies have arrived by now. Only one that is waited for gets a timer, in an allocation of
    // its own: its alignment would put that of every handler on the allocator's slow path.
    if let Some(received) = received.as_mut().now_or_never() {
        return received;
    }
    let in_time = Box::pin(tokio::time::timeout(BODY_TIMEOUT, received)).await;
    in_time.map_err(|_| Failure::BodyTooSlow)?
}

async fn receive(
    headers: &HeaderMap,
    mut body: Body,
    large_bodies: &LargeBodies,
    from: Option<IpAddr>,
) -> Result<JsonBody, Failure> {
    let announced = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok())
        .and_then(|length| length.parse::<u64>().ok());
    let is_large = announced.is_some_and(|length| length > MAX_BODY_BYTES as u64);
    if is_large && headers.contains_key(header::EXPECT) {
        // The client waits for `100 Continue`, which this sends.
        return Err(Failure::BodyTooLarge);
    }
    let mut received = Vec::new();
    let mut room: Option<Result<Room, Failure>> = None;
    let mut length = 0_usize;
    loop {
        let frame = match &room {
            Some(Ok(room)) => room.arriving.cut.run_until_cancelled(body.frame()).await,
            _ => Some(body.frame().await),
        };
        let Some(frame) = frame.ok_or(Failure::BodyTooSlow)? else { break };
        let frame = frame.map_err(|_| Failure::MalformedBody {
            reason: "the body is incomplete: the connection ended early".to_owned(),
        })?;
        let Ok(data) = frame.into_data() else { continue };
        length = length.saturating_add(data.len());
        if length > DISCARD_BYTES {
            return Err(Failure::BodyTooLarge);
        }
        if !is_large && length <= MAX_BODY_BYTES {
            if length > SMALL_BODY_BYTES && room.is_none() {
                // Without a declared length, a body may be as long as any.
                let bytes = announced.and_then(|bytes| usize::try_from(bytes).ok());
                let bytes = bytes.unwrap_or(MAX_BODY_BYTES).max(length);
                room = Some(large_bodies.take(bytes, from).await);
            }
            match &room {
                // Read and discarded as well, so that the sender sees the reason.
                Some(Err(_)) => continue,
                Some(Ok(room)) => room.arriving.received(data.len()),
                None => {}
            }
            received.extend_from_slice(&data);
        }
    }
    if is_large || length > MAX_BODY_BYTES {
        return Err(Failure::BodyTooLarge);
    }
    let room = room.transpose()?;
    if let Some(room) = &room {
        room.arriving.complete();
    }
    Ok(JsonBody { bytes: received.into(), _room: room })
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
    Failure::UnsupportedMediaType { found }
}
