//! The executions of this node, and what they print.

use std::io;
use std::path::PathBuf;

use api_types::engine::EngineType;
use api_types::id::IdPrefix;
use api_types::protocol::{ListLocalExecutions, LocalExecution};
use api_types::{ApiError, Code, ExecutionId};
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use http::header::CONTENT_TYPE;
use tokio_util::io::ReaderStream;

use super::Shared;
use super::failure::Failure;
use super::render::{Json, Pretty};
use crate::core::Found;
use crate::executor::{Engines, OutputStream};

/// How many candidates an ambiguous id is answered with.
const MAX_CANDIDATES: usize = 5;

pub(super) async fn list(
    State(shared): State<Shared>,
    pretty: Pretty,
) -> Result<Json<ListLocalExecutions>, Failure> {
    Ok(Json(pretty, ListLocalExecutions { executions: shared.mailbox.list().await? }))
}

pub(super) async fn describe(
    State(shared): State<Shared>,
    Path(id): Path<String>,
    pretty: Pretty,
) -> Result<Json<LocalExecution>, Failure> {
    let (local, _) = find(&shared, &id).await?;
    Ok(Json(pretty, local))
}

/// What the task has printed, as it is: one stream with `stream=stdout` or `stderr`, both
/// without; in the order in which it was printed while the task is there, stdout before stderr
/// once its output was taken in.
pub(super) async fn logs(
    State(shared): State<Shared>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let only = wanted_stream(query.as_deref().unwrap_or_default())?;
    let (local, engine) = find(&shared, &id).await?;
    let dir = shared.dirs.of(local.id);
    let mut files = Vec::new();
    if only != Some(OutputStream::Stderr) {
        files.push(dir.stdout());
    }
    if only != Some(OutputStream::Stdout) {
        files.push(dir.stderr());
    }
    let chunks = match local.phase.as_str() {
        "Running" | "Stopping" | "Collecting" => {
            live(shared.engines.clone(), engine, local.id, only)
        }
        _ => kept(files).await.map_err(|error| {
            tracing::error!(%error, execution = %local.id, "kept output cannot be read");
            Failure::new(Code::Internal, "the output of this execution cannot be read")
        })?,
    };
    let content_type = [(CONTENT_TYPE, "text/plain; charset=utf-8")];
    Ok((content_type, Body::from_stream(chunks)).into_response())
}

async fn find(shared: &Shared, id: &str) -> Result<(LocalExecution, EngineType), Failure> {
    let unknown = || {
        ApiError::new(Code::ExecutionNotFound, format!("no execution on this node matches '{id}'"))
            .with_hint("list the node's executions with GET /api/v1/agent/executions")
    };
    let prefix = IdPrefix::parse(id, ExecutionId::LETTER).ok_or_else(unknown)?;
    match shared.mailbox.find(prefix).await? {
        Found::None => Err(unknown().into()),
        Found::One { local, engine } => Ok((*local, engine)),
        Found::Many(ids) => {
            let message = format!("'{id}' matches {} executions of this node", ids.len());
            let candidates = ids.into_iter().take(MAX_CANDIDATES);
            Err(ApiError::new(Code::AmbiguousId, message).with_details(candidates).into())
        }
    }
}

fn wanted_stream(query: &str) -> Result<Option<OutputStream>, Failure> {
    let stream = query.split('&').find_map(|pair| pair.strip_prefix("stream="));
    match stream {
        None | Some("") => Ok(None),
        Some("stdout") => Ok(Some(OutputStream::Stdout)),
        Some("stderr") => Ok(Some(OutputStream::Stderr)),
        Some(other) => Err(Failure::new(
            Code::InvalidQuery,
            format!("stream is stdout or stderr, '{other}' came"),
        )),
    }
}

/// From the engine. An error breaks the body off, which the reader sees.
fn live(
    engines: std::sync::Arc<Engines>,
    engine: EngineType,
    id: ExecutionId,
    only: Option<OutputStream>,
) -> BoxStream<'static, io::Result<Bytes>> {
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    // The engine's stream borrows from the engines, so one future holds both.
    let pump = async move {
        let Some(executor) = engines.get(engine) else { return };
        let mut chunks = executor.logs(id);
        while let Some(chunk) = chunks.next().await {
            let piece = match chunk {
                Ok(chunk) if only.is_none_or(|only| only == chunk.stream) => Ok(chunk.bytes),
                Ok(_) => continue,
                Err(error) => Err(io::Error::other(error.to_string())),
            };
            if sender.send(piece).await.is_err() {
                return;
            }
        }
    };
    let pump = stream::once(pump).filter_map(|()| async { None });
    let pieces = stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|piece| (piece, receiver))
    });
    stream::select(pump, pieces).boxed()
}

/// From the files of a task that has ended; a stream that nothing was printed on has none.
async fn kept(files: Vec<PathBuf>) -> io::Result<BoxStream<'static, io::Result<Bytes>>> {
    let mut streams = Vec::new();
    for path in files {
        match tokio::fs::File::open(&path).await {
            Ok(file) => streams.push(ReaderStream::new(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(stream::iter(streams).flatten().boxed())
}
