//! The archives that the `local` publisher has published.

use std::io::{self, SeekFrom};

use api_types::{ApiError, Code, routes};
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{
    ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG,
    IF_RANGE, RANGE,
};
use http::{HeaderMap, StatusCode};
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio_util::io::ReaderStream;

use super::failure::Failure;
use super::openapi::refusals;
use super::parameter::Parameter;
use super::shared::{Shared, holding};

/// A published archive
///
/// Returns the archive, whole or from where an interrupted download stopped.
#[utoipa::path(
    get,
    path = routes::AGENT_RESULT,
    operation_id = "downloadResult",
    tag = "Executions",
    params(
        ("archive" = String, Path, description = "The name, as in the published result's URL."),
        ("Range" = Option<String>, Header, description = "`bytes=N-`; other ranges return the whole archive."),
        ("If-Range" = Option<String>, Header, description = "The `ETag` of the interrupted download."),
    ),
    responses(
        (
            status = 200,
            description = "The whole archive.",
            body = Vec<u8>,
            content_type = "application/octet-stream",
            headers(
                ("ETag" = String),
                ("Accept-Ranges" = String),
                ("Content-Disposition" = String),
            ),
        ),
        (
            status = 206,
            description = "The rest of the archive.",
            body = Vec<u8>,
            content_type = "application/octet-stream",
            headers(("ETag" = String), ("Content-Range" = String)),
        ),
    ),
    extensions(("x-error-codes" = json!(refusals(&[Code::ExecutionNotFound, Code::InvalidRequest, Code::TooManyRequests])))),
)]
pub(super) async fn archive(
    State(shared): State<Shared>,
    Parameter(name): Parameter,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let absent = || {
        let message = format!("this node has no archive '{name}'");
        ApiError::new(Code::ExecutionNotFound, message)
            .with_hint("the node's settings (results) limit the age and total size of archives; the oldest are removed first")
    };
    let unreadable = |error: io::Error| {
        tracing::error!(%error, name, "cannot read a published archive");
        Failure::new(Code::Internal, "cannot read the archive")
    };
    let path = shared.published.named(&name).ok_or_else(absent)?;
    let permit = shared.readers.take()?;
    let mut file = match tokio::fs::File::open(&path).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(absent().into()),
        opened => opened.map_err(unreadable)?,
    };
    let metadata = file.metadata().await.map_err(unreadable)?;
    let size_bytes = metadata.len();
    let modified = std::os::unix::fs::MetadataExt::mtime_nsec(&metadata);
    let etag = format!("\"{size_bytes:x}-{modified:x}\"");
    let start = start_of_range(&headers, &etag, size_bytes);
    let mut response = Response::builder()
        .header(CONTENT_TYPE, "application/octet-stream")
        .header(CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\""))
        .header(ACCEPT_RANGES, "bytes")
        .header(ETAG, etag)
        .header(CONTENT_LENGTH, size_bytes - start);
    if start > 0 {
        file.seek(SeekFrom::Start(start)).await.map_err(unreadable)?;
        let range = format!("bytes {start}-{}/{size_bytes}", size_bytes - 1);
        response = response.status(StatusCode::PARTIAL_CONTENT).header(CONTENT_RANGE, range);
    }
    // Limited to the announced length, which must hold.
    let content = ReaderStream::new(file.take(size_bytes - start));
    let body = Body::from_stream(holding(permit, content));
    Ok(response.body(body).map_or_else(
        |error| {
            tracing::error!(%error, "cannot build a response");
            Failure::new(Code::Internal, "cannot build the response").into_response()
        },
        IntoResponse::into_response,
    ))
}

/// The start offset: the client's, if it requests a single open range within the archive, or else
/// 0, as RFC 9110 allows.
fn start_of_range(headers: &HeaderMap, etag: &str, size_bytes: u64) -> u64 {
    let text = |name| headers.get(name).and_then(|value: &http::HeaderValue| value.to_str().ok());
    let outdated = text(IF_RANGE).is_some_and(|known| known != etag);
    text(RANGE)
        .filter(|_| !outdated)
        .and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok())
        .filter(|start| *start < size_bytes)
        .unwrap_or(0)
}
