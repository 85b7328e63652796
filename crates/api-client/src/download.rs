//! Downloads of results: from the service, and from URLs in records.

use std::fmt::Display;

use api_types::routes;
use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt, TryStreamExt};
use http::StatusCode;
use http::header::CONTENT_LENGTH;

use crate::call::Call;
use crate::client::{Client, segment};
use crate::error::ClientError;

/// An open body.
pub struct Download {
    /// Offset of the first byte: 0 when the server cannot resume.
    pub start: u64,
    /// Number of bytes from `start` to the end, if the server says so.
    pub rest: Option<u64>,
    pub bytes: BoxStream<'static, Result<Bytes, ClientError>>,
}

impl Client {
    /// `GET /executions/:id/results` from byte `start`: the archive that the execution published on
    /// its node. The id may be short.
    pub async fn execution_results(
        &self,
        id: impl Display,
        start: u64,
    ) -> Result<Download, ClientError> {
        let path = routes::fill(routes::EXECUTION_RESULTS, segment(id));
        self.open_download(&path, start).await
    }

    async fn open_download(&self, path: &str, start: u64) -> Result<Download, ClientError> {
        let mut call = self.get(path).accept("*/*");
        if start > 0 {
            call = call.header("range", &format!("bytes={start}-"));
        }
        call.download(start).await
    }
}

// === impl Call ===

impl Call<'_> {
    /// Opens the body, of which the bytes before `start` may be left out.
    pub(crate) async fn download(self, start: u64) -> Result<Download, ClientError> {
        let (response, context) = self.open().await?;
        let start = if response.status() == StatusCode::PARTIAL_CONTENT { start } else { 0 };
        let rest = response.headers().get(CONTENT_LENGTH);
        let rest = rest.and_then(|length| length.to_str().ok()?.parse().ok());
        let bytes = response.bytes_stream().map_err(move |error| context.unreachable(&error));
        Ok(Download { start, rest, bytes: bytes.boxed() })
    }
}
