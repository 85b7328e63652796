//! Bodies of requests: JSON by content type, of bounded size, in bounded time.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;

use super::error::Failure;
use crate::json::{self, Unreadable};

/// The largest body that is read; beyond it the answer is 413.
pub(super) const MAX_BODY_BYTES: usize = 10_000_000;

/// How long a body may take to arrive: 10 MB at 170 kB a second. A slower sender is told so and
/// its connection is closed, so that it does not hold one for ever.
pub(super) const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// What of a body that is too large is read and thrown away, so that a client that sends before
/// it listens sees the 413. A client that sends still more has its connection closed.
const DISCARD_BYTES: usize = 4 * MAX_BODY_BYTES;

/// The body of a request that must have one.
pub(super) struct JsonBody(pub(super) Bytes);

/// The body of a request that may have one.
pub(super) struct OptionalBody(pub(super) Option<Bytes>);

impl<S: Send + Sync> FromRequest<S> for OptionalBody {
    type Rejection = Failure;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Failure> {
        let (parts, body) = request.into_parts();
        let bytes = tokio::time::timeout(BODY_TIMEOUT, receive(&parts.headers, body))
            .await
            .map_err(|_| Failure::BodyTooSlow)??;
        if bytes.is_empty() {
            return Ok(Self(None));
        }
        check_content_type(&parts.headers)?;
        Ok(Self(Some(bytes)))
    }
}

impl<S: Send + Sync> FromRequest<S> for JsonBody {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        match OptionalBody::from_request(request, state).await?.0 {
            Some(bytes) => Ok(Self(bytes)),
            None => Err(Failure::MalformedBody { reason: "the body is empty".to_owned() }),
        }
    }
}

impl JsonBody {
    /// Reads a body in which nothing may be wrong.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        read(&self.0)
    }
}

pub(super) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Failure> {
    json::read_strictly(bytes).map_err(|unreadable| match unreadable {
        Unreadable::Malformed(reason) => Failure::MalformedBody { reason },
        Unreadable::Shape(problems) => Failure::InvalidBody(problems),
    })
}

async fn receive(headers: &HeaderMap, mut body: Body) -> Result<Bytes, Failure> {
    let announced = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok())
        .and_then(|length| length.parse::<u64>().ok());
    let is_large = announced.is_some_and(|length| length > MAX_BODY_BYTES as u64);
    if is_large && headers.contains_key(header::EXPECT) {
        // The client waits for a word before it sends, and this is the word.
        return Err(Failure::BodyTooLarge);
    }
    let mut received = Vec::new();
    let mut length = 0_usize;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Failure::MalformedBody {
            reason: "the body ended before all of it had arrived".to_owned(),
        })?;
        let Ok(data) = frame.into_data() else { continue };
        length = length.saturating_add(data.len());
        if length > DISCARD_BYTES {
            return Err(Failure::BodyTooLarge);
        }
        if !is_large && length <= MAX_BODY_BYTES {
            received.extend_from_slice(&data);
        }
    }
    if is_large || length > MAX_BODY_BYTES {
        return Err(Failure::BodyTooLarge);
    }
    Ok(received.into())
}

fn check_content_type(headers: &HeaderMap) -> Result<(), Failure> {
    let Some(value) = headers.get(header::CONTENT_TYPE) else {
        return Err(Failure::UnsupportedMediaType { came: None });
    };
    let text = String::from_utf8_lossy(value.as_bytes());
    let essence = text.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(Failure::UnsupportedMediaType { came: Some(text.into_owned()) })
}
