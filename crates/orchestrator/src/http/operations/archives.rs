//! What an execution published with the `local` publisher, relayed from its node.
//!
//! The bytes come from a job, so a browser must never treat them as a document of this origin: the
//! response is always an attachment of a generic type.

use std::io;
use std::sync::Arc;

use api_types::engine::{Params, PublisherType};
use api_types::execution::PublishedResult;
use api_types::log::{ArchiveHead, ArchiveRequest};
use api_types::{Code, ExecutionId, routes};
use axum::body::Body;
use axum::extract::State;
use axum::response::IntoResponse;
use daemon::collect;
use daemon::http::Operations;
use futures_util::stream;
use http::header::{
    ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG,
    HeaderName, HeaderValue, IF_RANGE, RANGE,
};
use http::{HeaderMap, StatusCode};

use crate::http::api::{Api, Handled, Parameter};
use crate::http::edge::authenticate::Access;
use crate::http::error::{Absent, Busy, Failure};
use crate::http::lookup;
use crate::http::openapi::{EXECUTION, QUERY, READ, params, refusals};
use crate::http::query::{Text, query};
use crate::logs::{Archive, NoArchive};
use crate::shares::Permit;

/// Longest name of a file in an archive: that of a path on Linux.
const MAX_PATH_BYTES: usize = 4096;

/// Longest name that a download suggests.
const MAX_NAME_CHARS: usize = 100;

query! {
    struct ResultQuery {
        path: Option<String> = (
            "path",
            Text,
            "One file of the archive, like `outputs/table.csv`; the whole archive when absent."
        );
    }
}

pub(super) fn router() -> Operations<Arc<Api>> {
    Operations::default().merge(collect!(download))
}

/// Execution Results
///
/// The archive that the execution published with the `local` publisher, or one file of it, relayed
/// from its node: whole, or one range.
#[utoipa::path(
    get,
    path = routes::EXECUTION_RESULTS,
    operation_id = "readExecutionResults",
    tag = "Executions",
    params(params::ExecutionPath, ResultQuery, params::Ranges),
    responses(
        (
            status = 200,
            description = "All of it.",
            body = Vec<u8>,
            content_type = "application/octet-stream",
            headers(("ETag" = String), ("Accept-Ranges" = String), ("Content-Disposition" = String)),
        ),
        (
            status = 206,
            description = "The requested range.",
            body = Vec<u8>,
            content_type = "application/octet-stream",
            headers(("ETag" = String), ("Content-Range" = String)),
        ),
    ),
    extensions(("x-error-codes" = json!(refusals(&[EXECUTION, QUERY, READ, &[Code::ResultNotFound, Code::NodeUnavailable, Code::PathNotFound]])))),
)]
async fn download(
    State(api): State<Arc<Api>>,
    access: Access,
    headers: HeaderMap,
    query: ResultQuery,
    Parameter(text): Parameter,
) -> Handled {
    let place = api.pools.downloads.take(&api.pools.owner(access.caller()), 1)?;
    let execution = api.read(move |reads| lookup::execution(reads, &access, &text)).await?;
    let (id, node) = (execution.row.id, execution.row.node);
    let none = |reason| Failure::from(Absent::Archive { execution: id, reason });
    match execution.published_result.unwrap_or_default().publisher_type {
        PublisherType::Local => {}
        PublisherType::None | PublisherType::Noop => {
            return Err(none("it has published nothing".to_owned()));
        }
        other @ (PublisherType::S3 | PublisherType::Ipfs) => {
            let reason = format!("they were published with {other}; its record says where");
            return Err(none(reason));
        }
    }
    let path = query.path;
    if path.as_ref().is_some_and(|path| path.len() > MAX_PATH_BYTES) {
        return Err(none("no file has so long a name".to_owned()));
    }
    let name = match &path {
        Some(path) => file_name(path),
        None => format!("{id}.tar.gz"),
    };
    let absent = match &path {
        Some(path) => format!("the archive has no file '{path}', or its node no longer has it"),
        None => "its node no longer has the archive".to_owned(),
    };
    let archive = api.logs.archive(node, id, requested(&headers, path)).await;
    let archive = archive.map_err(|missing| match missing {
        NoArchive::Unreachable => Busy::NodeAway(node).into(),
        NoArchive::Absent => none(absent),
        NoArchive::Failed(reason) => none(reason),
        NoArchive::Refused(refused) => refused.into(),
    })?;
    let described = described(&archive.head, &name);
    let is_part = archive.head.length < archive.head.size;
    let status = if is_part { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
    Ok((status, described, body(archive, place)).into_response())
}

/// The bytes of the archive; the permit is held until the last of them.
pub(super) fn body(archive: Archive, place: Permit) -> Body {
    Body::from_stream(stream::unfold(Some((archive, place)), |open| async move {
        let (mut archive, place) = open?;
        match archive.next().await? {
            Ok(bytes) => Some((Ok(bytes), Some((archive, place)))),
            // Breaks the connection, so that a part does not pass for the whole.
            Err(incomplete) => Some((Err(io::Error::other(incomplete)), None)),
        }
    }))
}

/// A result as callers see it: an archive that its node keeps is with this service. What the node
/// itself said of its place is shown to no one, because clients would fetch from there.
pub(super) fn published(
    result: PublishedResult,
    execution: ExecutionId,
    access: &Access,
) -> PublishedResult {
    match result.publisher_type {
        PublisherType::Local => {
            let path = routes::fill(routes::EXECUTION_RESULTS, execution);
            let url = access.url_of(&path).into();
            PublishedResult { params: Params::from_iter([("URL".to_owned(), url)]), ..result }
        }
        PublisherType::None | PublisherType::Noop | PublisherType::S3 | PublisherType::Ipfs => {
            result
        }
    }
}

fn described(head: &ArchiveHead, name: &str) -> HeaderMap {
    let ArchiveHead { size, start, length, tag } = head;
    let mut fields = HeaderMap::new();
    let mut insert = |field: HeaderName, value: String| {
        // What a node sends may be anything.
        if let Ok(value) = HeaderValue::from_str(&value) {
            fields.insert(field, value);
        }
    };
    insert(CONTENT_TYPE, "application/octet-stream".to_owned());
    insert(CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\""));
    insert(ACCEPT_RANGES, "bytes".to_owned());
    insert(ETAG, format!("\"{tag}\""));
    insert(CONTENT_LENGTH, length.to_string());
    if length < size {
        let last = start.saturating_add(*length).saturating_sub(1);
        insert(CONTENT_RANGE, format!("bytes {start}-{last}/{size}"));
    }
    fields
}

/// A single range with a beginning; for any other the whole is sent, as RFC 9110 allows.
fn requested(headers: &HeaderMap, path: Option<String>) -> ArchiveRequest {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let range = text(RANGE).and_then(|range| {
        let (start, end) = range.strip_prefix("bytes=")?.split_once('-')?;
        let start: u64 = start.trim().parse().ok()?;
        match end.trim() {
            "" => Some((start, None)),
            end => Some((start, Some(end.parse().ok().filter(|end| *end >= start)?))),
        }
    });
    let (start, end) = range.unwrap_or_default();
    let tag = text(IF_RANGE).filter(|_| range.is_some());
    let tag = tag.map(|tag| tag.trim_matches('"').to_owned());
    ArchiveRequest { path, start, end, tag }
}

/// The last part of a path, with what could end the header or mislead a shell replaced.
fn file_name(path: &str) -> String {
    let last = path.rsplit('/').next().unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let name: String =
        last.chars().map(|c| if plain(c) { c } else { '_' }).take(MAX_NAME_CHARS).collect();
    if name.trim_matches('.').is_empty() { "result".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(range: &'static str) -> (u64, Option<u64>) {
        let headers = HeaderMap::from_iter([(RANGE, HeaderValue::from_static(range))]);
        let ArchiveRequest { start, end, .. } = requested(&headers, None);
        (start, end)
    }

    #[test]
    fn one_range_is_honoured_and_any_other_is_the_whole() {
        for (range, expected) in [
            ("bytes=5-", (5, None)),
            ("bytes=5-9", (5, Some(9))),
            ("bytes=0-0", (0, Some(0))),
            ("bytes=9-5", (0, None)),
            ("bytes=-5", (0, None)),
            ("bytes=1-2,4-5", (0, None)),
            ("lines=1-2", (0, None)),
            ("bytes=x-", (0, None)),
        ] {
            assert_eq!(request(range), expected, "{range}");
        }
    }

    #[test]
    fn a_suggested_name_is_plain() {
        for (path, name) in [
            ("outputs/table.csv", "table.csv"),
            ("a b\"\r\n.html", "a_b___.html"),
            ("outputs/", "result"),
            ("..", "result"),
            ("ü.txt", "_.txt"),
        ] {
            assert_eq!(file_name(path), name);
        }
        assert_eq!(file_name(&"x".repeat(1000)).len(), MAX_NAME_CHARS);
    }
}
