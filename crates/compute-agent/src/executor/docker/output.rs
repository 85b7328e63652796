//! What comes out of a container in pieces: what it printed, and what it wrote.

use std::time::Duration;

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::query_parameters::{DownloadFromContainerOptions, LogsOptions};
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, Stream, StreamExt};

use super::error;
use crate::executor::{ExecutorError, OutputChunk, OutputStream};

/// The Engine has all pieces at hand; one that does not come for this long never will.
const SILENCE: Duration = Duration::from_secs(60);

/// Why no more pieces come.
enum Broken {
    Engine(bollard::errors::Error),
    Silent,
}

/// All that the container printed so far, as the Engine's log driver kept it.
pub(super) fn of_container(
    client: Docker,
    name: String,
) -> BoxStream<'static, Result<OutputChunk, ExecutorError>> {
    let options =
        LogsOptions { stdout: true, stderr: true, tail: "all".to_owned(), ..Default::default() };
    let output = client.logs(&name, Some(options));
    without_silence(output)
        .filter_map(|output| async {
            let (stream, bytes) = match output {
                Ok(LogOutput::StdOut { message } | LogOutput::Console { message }) => {
                    (OutputStream::Stdout, message)
                }
                Ok(LogOutput::StdErr { message }) => (OutputStream::Stderr, message),
                Ok(LogOutput::StdIn { .. }) => return None,
                Err(Broken::Engine(error)) => return Some(Err(error::of_container(error))),
                Err(Broken::Silent) => return Some(Err(silent())),
            };
            Some(Ok(OutputChunk { stream, bytes }))
        })
        .boxed()
}

/// The path in the container, as a tar.
pub(super) fn of_path(
    client: &Docker,
    name: &str,
    path: &str,
) -> BoxStream<'static, Result<Bytes, ExecutorError>> {
    let path = path.to_owned();
    let options = DownloadFromContainerOptions { path: path.clone() };
    without_silence(client.download_from_container(name, Some(options)))
        .map(move |piece| {
            piece.map_err(|broken| match broken {
                Broken::Engine(error) => error::of_path(error, &path),
                Broken::Silent => silent(),
            })
        })
        .boxed()
}

/// The pieces, or an end with an error when the next one does not come.
fn without_silence<T: Send + 'static>(
    pieces: impl Stream<Item = Result<T, bollard::errors::Error>> + Send + 'static,
) -> impl Stream<Item = Result<T, Broken>> + Send {
    stream::unfold(Some(pieces.boxed()), |pieces| async {
        let mut pieces = pieces?;
        match tokio::time::timeout(SILENCE, pieces.next()).await {
            Ok(Some(Ok(piece))) => Some((Ok(piece), Some(pieces))),
            Ok(Some(Err(error))) => Some((Err(Broken::Engine(error)), None)),
            Ok(None) => None,
            Err(_) => Some((Err(Broken::Silent), None)),
        }
    })
}

fn silent() -> ExecutorError {
    error::unreachable(format!("it sent nothing for {SILENCE:?}"))
}
