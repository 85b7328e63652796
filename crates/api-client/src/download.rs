//! Bytes that a record names by a URL of their own, such as the archives of the `local` publisher.

use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt, TryStreamExt};
use http::StatusCode;
use http::header::CONTENT_LENGTH;

use crate::client::Client;
use crate::error::ClientError;

/// A body on its way.
pub struct Download {
    /// Where in the whole it begins: 0 when the server does not take up what broke off.
    pub start: u64,
    /// What follows, when the server says so.
    pub rest: Option<u64>,
    pub bytes: BoxStream<'static, Result<Bytes, ClientError>>,
}

impl Client {
    /// `GET` of the base URL itself, from this byte on where the server can do that.
    pub async fn download(&self, start: u64) -> Result<Download, ClientError> {
        let mut call = self.get("").accept("*/*");
        if start > 0 {
            call = call.header("range", &format!("bytes={start}-"));
        }
        let (response, place) = call.open().await?;
        let start = if response.status() == StatusCode::PARTIAL_CONTENT { start } else { 0 };
        let rest = response.headers().get(CONTENT_LENGTH);
        let rest = rest.and_then(|length| length.to_str().ok()?.parse().ok());
        let bytes = response.bytes_stream().map_err(move |error| place.unreachable(&error));
        Ok(Download { start, rest, bytes: bytes.boxed() })
    }
}
