//! Output and usage that a node sends, frame by frame, to a waiting reader.

use std::sync::Arc;
use std::time::Duration;

use api_types::log::{FRAME_KEEP_ALIVE_SECONDS, LogFrame};
use api_types::{Code, routes};
use axum::body::Body;
use axum::extract::State;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use http::HeaderMap;
use tokio::sync::mpsc;

use crate::http::api::{Api, Handled, PathParameters};
use crate::http::edge::body::refuse_encoded;
use crate::http::error::Absent;
use crate::http::lookup;
use crate::http::openapi::{OWN_NODE_ID, examples, params, refusals};
use crate::http::respond::json;

/// After this long without a frame, the node counts as dead, whatever the connection says.
const SILENCE: Duration = Duration::from_secs(3 * FRAME_KEEP_ALIVE_SECONDS);

/// The longest frame: JSON may make its output six times as long.
const MAX_FRAME_BYTES: usize = 512 << 10;

/// Why the orchestrator stops reading from the node.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("the node sent all output")]
    Sent,
    #[error("the reader is gone")]
    Unread,
    #[error("the service is stopping")]
    Stopping,
    #[error("the node sent nothing for {} s", SILENCE.as_secs())]
    Silent,
    #[error("its connection broke")]
    Broken(#[source] axum::Error),
    #[error("the node sent an invalid frame")]
    Senseless(#[source] serde_json::Error),
    #[error("a frame is longer than {MAX_FRAME_BYTES} bytes")]
    TooLong,
}

/// Streams
///
/// Answers a `Stream` or `Usage` line of the assignments: a chunked body of one object a line,
/// consumed as fast as its reader reads.
#[utoipa::path(
    post,
    path = routes::NODE_STREAM,
    operation_id = "deliverOutput",
    tag = "Agent protocol",
    params(params::OwnNodePath, params::StreamPath),
    request_body(content = String, content_type = "application/octet-stream"),
    responses((
        status = 200,
        description = "The orchestrator took all output, or its reader is gone.",
        body = Object,
        example = json!(examples::nothing()),
    )),
    extensions(("x-error-codes" = json!(refusals(&[OWN_NODE_ID, &[Code::StreamNotFound, Code::UnsupportedMediaType]]))), ("x-item-schema" = json!({ "application/octet-stream": "LogFrame" }))),
)]
pub(super) async fn deliver(
    State(api): State<Arc<Api>>,
    PathParameters([node, stream]): PathParameters<2>,
    headers: HeaderMap,
    body: Body,
) -> Handled {
    let node = lookup::full_node(&node)?;
    refuse_encoded(&headers)?;
    let reader = stream.parse().ok().and_then(|id| api.logs.relay.take(node, id));
    let Some(reader) = reader else { return Err(Absent::Stream { stream }.into()) };
    let ended = tokio::select! {
        ended = pass_on(body, &reader) => ended,
        // The response tells the sender to stop.
        () = reader.closed() => Ended::Unread,
        () = api.stopping.cancelled() => Ended::Stopping,
    };
    match ended {
        Ended::Sent | Ended::Unread | Ended::Stopping => {
            tracing::debug!(%node, stream, %ended, "log stream ended");
        }
        Ended::Silent | Ended::Broken(_) | Ended::Senseless(_) | Ended::TooLong => {
            tracing::info!(%node, stream, reason = %ended, "log stream broke off");
        }
    }
    json(&serde_json::json!({}))
}

async fn pass_on(body: Body, reader: &mpsc::Sender<Vec<LogFrame>>) -> Ended {
    let mut body = body.into_data_stream();
    let mut buffer = BytesMut::new();
    let mut frames = Vec::new();
    loop {
        // As long as the reader takes; its own connection cuts off a stalled reader.
        if reader.send(frames).await.is_err() {
            return Ended::Unread;
        }
        let chunk: Bytes = match tokio::time::timeout(SILENCE, body.next()).await {
            Ok(Some(Ok(chunk))) => chunk,
            Ok(Some(Err(error))) => return Ended::Broken(error),
            Ok(None) => return Ended::Sent,
            Err(_) => return Ended::Silent,
        };
        buffer.extend_from_slice(&chunk);
        frames = match whole_frames(&mut buffer) {
            Ok(frames) => frames,
            Err(error) => return Ended::Senseless(error),
        };
        if buffer.len() > MAX_FRAME_BYTES {
            return Ended::TooLong;
        }
    }
}

/// Takes the complete lines out of the buffer.
fn whole_frames(buffer: &mut BytesMut) -> serde_json::Result<Vec<LogFrame>> {
    let Some(end) = buffer.iter().rposition(|byte| *byte == b'\n') else { return Ok(Vec::new()) };
    let lines = buffer.split_to(end + 1);
    lines[..]
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(serde_json::from_slice)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_separated_however_the_bytes_arrive() {
        let text = b"{\"Type\":\"KeepAlive\"}\n{\"Type\":\"End\"}\n";
        for cut in 0..text.len() {
            let mut buffer = BytesMut::from(&text[..cut]);
            let mut frames = whole_frames(&mut buffer).unwrap();
            buffer.extend_from_slice(&text[cut..]);
            frames.extend(whole_frames(&mut buffer).unwrap());
            assert_eq!(frames, [LogFrame::KeepAlive, LogFrame::End], "{cut}");
        }
        assert!(whole_frames(&mut BytesMut::from(&b"what?\n"[..])).is_err());
    }
}
