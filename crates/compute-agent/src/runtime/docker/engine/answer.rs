//! Answers of the Engine, each read within a bound.

use std::io;
use std::time::Duration;

use bollard::errors::Error;
use bytes::{Bytes, BytesMut};
use futures_util::stream::{Stream, StreamExt};
use http::{Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Bytes of an answer that is no stream. The description of one container is the largest: it
/// repeats the arguments and variables of its task, two megabytes in all.
pub(super) const MAX_ANSWER_BYTES: usize = 16 << 20;

/// Bytes of what the Engine says about an error; the rest is dropped.
const MAX_MESSAGE_BYTES: usize = 64 << 10;

/// The status that stands for an answer that cannot be read.
const BAD_GATEWAY: u16 = 502;

/// The answer to a request, of which the head is there.
#[derive(Debug)]
pub(super) struct Answer {
    response: Response<Incoming>,
    timeout: Duration,
}

// === impl Answer ===

impl Answer {
    pub(super) fn new(response: Response<Incoming>, timeout: Duration) -> Self {
        Self { response, timeout }
    }

    /// Itself, unless the Engine refuses the request.
    pub(super) async fn or_refusal(self) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct Refusal {
            message: String,
        }
        let status = self.response.status();
        let is_done = status.is_success()
            || matches!(status, StatusCode::NOT_MODIFIED | StatusCode::SWITCHING_PROTOCOLS);
        if is_done {
            return Ok(self);
        }
        let status_code = status.as_u16();
        let bytes = self.first_bytes(MAX_MESSAGE_BYTES).await?;
        let message = match serde_json::from_slice(&bytes) {
            Ok(Refusal { message }) => message,
            Err(_) => String::from_utf8_lossy(&bytes).into_owned(),
        };
        Err(Error::DockerResponseServerError { status_code, message })
    }

    pub(super) async fn value<T: DeserializeOwned>(self) -> Result<T, Error> {
        let timeout = self.timeout;
        let whole = tokio::time::timeout(timeout, self.whole());
        whole.await.unwrap_or(Err(Error::RequestTimeoutError))
    }

    async fn whole<T: DeserializeOwned>(self) -> Result<T, Error> {
        Ok(serde_json::from_slice(&self.bytes().await?)?)
    }

    /// The whole answer, however long it takes to come.
    pub(super) async fn bytes(self) -> Result<BytesMut, Error> {
        let mut pieces = std::pin::pin!(self.pieces());
        let mut bytes = BytesMut::new();
        while let Some(piece) = pieces.next().await {
            let piece = piece?;
            if bytes.len() + piece.len() > MAX_ANSWER_BYTES {
                return Err(too_long("its answer", MAX_ANSWER_BYTES));
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }

    /// The body as it comes.
    pub(super) fn pieces(self) -> impl Stream<Item = Result<Bytes, Error>> + Send + 'static {
        self.response.into_body().into_data_stream().map(|piece| Ok(piece?))
    }

    pub(super) fn into_response(self) -> Response<Incoming> {
        self.response
    }

    /// What comes within the timeout, up to this many bytes.
    async fn first_bytes(self, most: usize) -> Result<Bytes, Error> {
        let timeout = self.timeout;
        let mut bytes = BytesMut::new();
        let reading = tokio::time::timeout(timeout, async {
            let mut pieces = std::pin::pin!(self.pieces());
            while let Some(piece) = pieces.next().await {
                bytes.extend_from_slice(&piece?);
                if bytes.len() >= most {
                    break;
                }
            }
            Ok::<(), Error>(())
        });
        // The status alone says that it failed.
        if let Ok(read) = reading.await {
            read?;
        }
        bytes.truncate(most);
        Ok(bytes.freeze())
    }
}

/// An answer that says more than any answer about one thing can. It says nothing about whether the
/// Engine is there, so it counts as an error of the Engine and not as an outage.
pub(super) fn too_long(what: &str, most: usize) -> Error {
    Error::DockerResponseServerError {
        status_code: BAD_GATEWAY,
        message: format!("{what} is longer than {most} bytes"),
    }
}

/// An answer in another form than the Engine's.
pub(super) fn malformed(reason: &str) -> Error {
    io::Error::new(io::ErrorKind::InvalidData, reason).into()
}
