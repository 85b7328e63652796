//! Streams from a container: what it printed, and what it wrote.

use std::time::Duration;

use agent_core::execution::Failure;
use api_types::Timestamp;
use api_types::log::LogStream;
use bollard::container::LogOutput;
use bollard::query_parameters::{DownloadFromContainerOptions, LogsOptions};
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, Stream, StreamExt};

use super::engine::Engine;
use super::error;
use crate::runtime::{ExecutorError, OutputChunk, OutputRange};

/// The Engine has all chunks ready, unless it follows; one that takes longer will never come.
const SILENCE: Duration = Duration::from_secs(60);

/// Why the stream ends.
enum Broken {
    Engine(bollard::errors::Error),
    Silent,
}

/// What the container printed, from the Engine's log driver: so far, or until its end.
pub(super) fn of_container(
    client: Engine,
    name: String,
    OutputRange { follow, since }: OutputRange,
) -> BoxStream<'static, Result<OutputChunk, ExecutorError>> {
    let options = LogsOptions {
        follow,
        stdout: true,
        stderr: true,
        timestamps: true,
        since: since.map_or(0, whole_seconds),
        tail: "all".to_owned(),
        ..Default::default()
    };
    let output = client.logs(&name, Some(options));
    let output = if follow {
        // A running task may print nothing for any time.
        output.map(|piece| piece.map_err(Broken::Engine)).boxed()
    } else {
        without_silence(output).boxed()
    };
    output
        .filter_map(|output| async {
            let (stream, message) = match output {
                Ok(LogOutput::StdOut { message }) => (LogStream::Stdout, message),
                Ok(LogOutput::StdErr { message }) => (LogStream::Stderr, message),
                Ok(LogOutput::StdIn { .. }) => return None,
                // No container has a terminal: this is what the Engine itself says.
                Ok(LogOutput::Console { message }) => return Some(Err(said(&message))),
                Err(Broken::Engine(error)) => return Some(Err(error::of_container(error))),
                Err(Broken::Silent) => return Some(Err(lost(silence()))),
            };
            Some(stamped(stream, message))
        })
        .flat_map({
            let mut ends = LineEnds::default();
            move |piece| stream::iter(ends.restored(piece).into_iter().flatten())
        })
        .boxed()
}

/// The second that this time is in; the start of everything where the library has no number for it.
fn whole_seconds(time: Timestamp) -> i32 {
    i32::try_from(time.0.div_euclid(1_000_000_000)).unwrap_or(0)
}

/// Restores the line ends that the `local` driver drops from lines longer than 16 KiB, which it
/// stores in parts.
///
/// All parts of a line have the time of the first; another time means another line. The last line
/// is left as it is: the log does not tell whether it had a line end.
#[derive(Debug, Default)]
struct LineEnds {
    /// The times of unfinished lines of stdout and stderr.
    open: [Option<Timestamp>; 2],
}

// === impl LineEnds ===

impl LineEnds {
    fn restored(
        &mut self,
        piece: Result<OutputChunk, ExecutorError>,
    ) -> [Option<Result<OutputChunk, ExecutorError>>; 2] {
        let chunk = match piece {
            Ok(chunk) => chunk,
            error => return [None, Some(error)],
        };
        let stream = chunk.stream;
        let open = &mut self.open[usize::from(stream == LogStream::Stderr)];
        let end = open
            .take()
            .filter(|time| *time != chunk.time)
            .map(|time| Ok(OutputChunk { stream, time, bytes: Bytes::from_static(b"\n") }));
        *open = (chunk.bytes.last() != Some(&b'\n')).then_some(chunk.time);
        [end, (!chunk.bytes.is_empty()).then_some(Ok(chunk))]
    }
}

/// The Engine puts the time and a space before each chunk, including every part of a long line.
fn stamped(stream: LogStream, mut message: Bytes) -> Result<OutputChunk, ExecutorError> {
    let end = message.iter().position(|byte| *byte == b' ');
    let time = end
        .and_then(|end| std::str::from_utf8(&message[..end]).ok())
        .and_then(Timestamp::parse)
        .ok_or_else(|| lost("docker sends a part of it without a time".to_owned()))?;
    let bytes = message.split_off(end.map_or(0, |end| end + 1));
    Ok(OutputChunk { stream, time, bytes })
}

/// The path in the container, as a tar.
pub(super) fn of_path(
    client: &Engine,
    name: &str,
    path: &str,
) -> BoxStream<'static, Result<Bytes, ExecutorError>> {
    let path = path.to_owned();
    let options = DownloadFromContainerOptions { path: path.clone() };
    without_silence(client.download_from_container(name, Some(options)))
        .map(move |piece| {
            piece.map_err(|broken| match broken {
                Broken::Engine(error) => error::of_path(error, &path),
                Broken::Silent => ExecutorError::Failed(Failure::node(silence())),
            })
        })
        .boxed()
}

/// The chunks, or an error at the end when the next one does not come.
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

fn silence() -> String {
    format!("docker sent nothing for {SILENCE:?}")
}

fn lost(reason: String) -> ExecutorError {
    ExecutorError::OutputLost { reason }
}

/// An error of the Engine's in the middle of the output, as for a log that the end of the machine
/// has damaged: a frame of a special kind, of which the library makes text with the frame's
/// header.
fn said(message: &Bytes) -> ExecutorError {
    const HEADER_BYTES: usize = 8;
    let text = message.get(HEADER_BYTES..).unwrap_or(message);
    lost(format!("docker says: {}", String::from_utf8_lossy(text).trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stored_in_parts_gets_its_end_back() {
        let mut ends = LineEnds::default();
        let mut printed = Vec::new();
        for (stream, time, text) in [
            (LogStream::Stdout, 1, "long "),
            (LogStream::Stderr, 2, "short\n"),
            (LogStream::Stdout, 1, "line"),
            (LogStream::Stdout, 3, "as long as a part"),
            (LogStream::Stdout, 3, ""),
            (LogStream::Stdout, 4, "no end"),
        ] {
            let (time, bytes) = (Timestamp(time), Bytes::from_static(text.as_bytes()));
            printed.extend(ends.restored(Ok(OutputChunk { stream, time, bytes })));
        }
        let of_stdout =
            |chunk: OutputChunk| (chunk.stream == LogStream::Stdout).then(|| chunk.bytes.to_vec());
        let stdout: Vec<_> =
            printed.into_iter().flatten().filter_map(|chunk| of_stdout(chunk.unwrap())).collect();
        assert_eq!(stdout.concat(), b"long line\nas long as a part\nno end");
    }

    #[test]
    fn only_the_time_is_removed() {
        let message = Bytes::from_static(b"2026-01-02T03:04:05.000000006Z  two \xff\n");
        let chunk = stamped(LogStream::Stderr, message).unwrap();
        assert_eq!((chunk.stream, &*chunk.bytes), (LogStream::Stderr, &b" two \xff\n"[..]));
        assert_eq!(chunk.time.rfc3339(), "2026-01-02T03:04:05.000000006Z");
        let damaged = stamped(LogStream::Stdout, Bytes::from_static(b"no time")).unwrap_err();
        assert!(matches!(damaged, ExecutorError::OutputLost { .. }), "{damaged}");
    }
}
