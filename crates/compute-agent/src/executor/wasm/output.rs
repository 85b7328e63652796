//! What a program prints: one file for both streams, which keeps their order.
//!
//! The file is a row of pieces: the stream (1 byte: 0 for stdout, 1 for stderr), the time
//! (nanoseconds since 1970, 8 bytes), the number of bytes (4, both little-endian), the bytes. It is appended to while the program runs and can be read
//! meanwhile; a piece that is not whole yet is not there yet.
//!
//! Rejected: a file per stream, because what was printed first could not be told.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use api_types::Timestamp;
use api_types::log::LogStream;
use bytes::{Buf, Bytes, BytesMut};
use futures_util::stream::{self, BoxStream, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::sync::watch;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};

use crate::clock;
use crate::execution::Exit;
use crate::executor::{ExecutorError, OutputChunk};

/// What a program prints beyond this is not kept, and the end of its stderr says so. Without a
/// bound one task could fill the node's disk.
const MAX_OUTPUT_BYTES: u64 = 1 << 30;

/// The stream, the time and the number of bytes.
const HEADER_BYTES: usize = 13;

/// The most a program prints in one go; more is taken in several.
const MAX_PIECE_BYTES: usize = 64 << 10;

/// Read from the disk at once.
const READ_BYTES: usize = 256 << 10;

/// Programs that print a character at a time would otherwise make as many pieces.
const AT_ONCE: Duration = Duration::from_millis(1);

/// How soon what a running program prints is seen by whoever follows it.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The output of one run, being written.
pub(super) struct Output {
    limit_bytes: u64,
    written: Mutex<Written>,
}

struct Written {
    file: File,
    bytes: u64,
}

/// One of the program's two streams.
#[derive(Clone)]
pub(super) struct Printer {
    output: Arc<Output>,
    stream: LogStream,
}

// === impl Output ===

impl Output {
    pub(super) fn create(path: &Path) -> io::Result<Arc<Self>> {
        Self::with_limit(path, MAX_OUTPUT_BYTES)
    }

    fn with_limit(path: &Path, limit_bytes: u64) -> io::Result<Arc<Self>> {
        let written = Mutex::new(Written { file: File::create(path)?, bytes: 0 });
        Ok(Arc::new(Self { limit_bytes, written }))
    }

    pub(super) fn printer(self: &Arc<Self>, stream: LogStream) -> Printer {
        Printer { output: Arc::clone(self), stream }
    }

    fn append(&self, stream: LogStream, bytes: &[u8]) -> io::Result<()> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.bytes >= self.limit_bytes {
            return Ok(());
        }
        for piece in bytes.chunks(MAX_PIECE_BYTES) {
            written.append(stream, piece)?;
        }
        if written.bytes >= self.limit_bytes {
            let limit_bytes = self.limit_bytes;
            let note = format!("\n[what is printed beyond {limit_bytes} bytes is not kept]\n");
            written.append(LogStream::Stderr, note.as_bytes())?;
        }
        Ok(())
    }
}

// === impl Written ===

impl Written {
    fn append(&mut self, stream: LogStream, bytes: &[u8]) -> io::Result<()> {
        let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        let mut piece = Vec::with_capacity(HEADER_BYTES + bytes.len());
        piece.push(match stream {
            LogStream::Stdout => 0,
            LogStream::Stderr => 1,
        });
        piece.extend(clock::now().0.to_le_bytes());
        piece.extend(length.to_le_bytes());
        piece.extend(bytes);
        self.file.write_all(&piece)?;
        self.bytes += piece.len() as u64;
        Ok(())
    }
}

// === impl Printer ===

impl StdoutStream for Printer {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

impl IsTerminal for Printer {
    fn is_terminal(&self) -> bool {
        false
    }
}

#[async_trait]
impl Pollable for Printer {
    async fn ready(&mut self) {}
}

impl OutputStream for Printer {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.output
            .append(self.stream, &bytes)
            .map_err(|error| StreamError::LastOperationFailed(error.into()))
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(MAX_PIECE_BYTES)
    }
}

impl AsyncWrite for Printer {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(self.output.append(self.stream, bytes).map(|()| bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// What was printed so far, nothing when nothing was ever started; of a run that is followed,
/// what it prints until it has ended.
pub(super) fn read(
    path: &Path,
    followed: Option<watch::Receiver<Option<Exit>>>,
) -> BoxStream<'static, Result<OutputChunk, ExecutorError>> {
    let path = path.to_owned();
    let opened = async move {
        match tokio::fs::File::open(&path).await {
            Ok(file) => {
                let reader = Reader { file, buffer: BytesMut::new(), followed };
                stream::try_unfold(reader, Reader::next).boxed()
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => stream::empty().boxed(),
            Err(error) => stream::once(async { Err(error) }).boxed(),
        }
    };
    stream::once(opened)
        .flatten()
        .flat_map(|pieces| match pieces {
            Ok(pieces) => stream::iter(pieces.into_iter().map(Ok).collect::<Vec<_>>()),
            Err(error) => stream::iter(vec![Err(unreadable(&error))]),
        })
        .boxed()
}

struct Reader {
    file: tokio::fs::File,
    buffer: BytesMut,
    /// None when what is in the file is all there will be.
    followed: Option<watch::Receiver<Option<Exit>>>,
}

// === impl Reader ===

impl Reader {
    /// The pieces of the next part of the file.
    async fn next(mut self) -> io::Result<Option<(Vec<OutputChunk>, Self)>> {
        loop {
            let pieces = take_pieces(&mut self.buffer);
            if !pieces.is_empty() {
                return Ok(Some((pieces, self)));
            }
            self.buffer.reserve(READ_BYTES);
            if self.file.read_buf(&mut self.buffer).await? > 0 {
                continue;
            }
            let Some(exit) = &mut self.followed else { return Ok(None) };
            let ended = exit.wait_for(Option::is_some);
            if tokio::time::timeout(LOOK_AGAIN, ended).await.is_ok() {
                // It prints no more; what it printed last may not have been read yet.
                self.followed = None;
            }
        }
    }
}

/// Takes what is whole; what was printed to one stream [`AT_ONCE`] comes as one.
fn take_pieces(buffer: &mut BytesMut) -> Vec<OutputChunk> {
    let mut pieces: Vec<(LogStream, Timestamp, BytesMut)> = Vec::new();
    while let Some((header, rest)) = buffer.split_first_chunk::<HEADER_BYTES>() {
        let [stream, time @ .., l0, l1, l2, l3] = *header;
        let time = Timestamp(i64::from_le_bytes(time));
        let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        if rest.len() < length {
            break;
        }
        let stream = if stream == 0 { LogStream::Stdout } else { LogStream::Stderr };
        buffer.advance(HEADER_BYTES);
        let bytes = buffer.split_to(length);
        match pieces.last_mut() {
            Some((last, since, whole)) if *last == stream && time.since(*since) < AT_ONCE => {
                whole.extend_from_slice(&bytes);
            }
            _ => pieces.push((stream, time, bytes)),
        }
    }
    let whole = |(stream, time, bytes): (_, _, BytesMut)| {
        let bytes = bytes.freeze();
        OutputChunk { stream, time, bytes }
    };
    pieces.into_iter().map(whole).collect()
}

fn unreadable(error: &io::Error) -> ExecutorError {
    ExecutorError::Failed(crate::execution::Failure::node(format!(
        "the output of this execution cannot be read on the node: {error}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_all(path: &Path) -> Vec<(LogStream, String)> {
        let mut all: Vec<(LogStream, String)> = Vec::new();
        let mut chunks = read(path, None);
        while let Some(chunk) = chunks.next().await {
            let OutputChunk { stream, bytes, .. } = chunk.unwrap();
            let text = String::from_utf8(bytes.to_vec()).unwrap();
            match all.last_mut() {
                Some((last, whole)) if *last == stream => whole.push_str(&text),
                _ => all.push((stream, text)),
            }
        }
        all
    }

    #[tokio::test]
    async fn both_streams_keep_their_order_and_can_be_read_meanwhile() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("output");
        assert_eq!(read_all(&path).await, []);
        let output = Output::create(&path).unwrap();
        let (mut stdout, mut stderr) =
            (output.printer(LogStream::Stdout), output.printer(LogStream::Stderr));
        stdout.write(Bytes::from_static(b"one ")).unwrap();
        stdout.write(Bytes::from_static(b"two")).unwrap();
        let one_two = (LogStream::Stdout, "one two".to_owned());
        assert_eq!(read_all(&path).await, std::slice::from_ref(&one_two));
        stderr.write(Bytes::from_static(b"oops")).unwrap();
        stdout.write(Bytes::from_static(b"three")).unwrap();
        let oops = (LogStream::Stderr, "oops".to_owned());
        let three = (LogStream::Stdout, "three".to_owned());
        assert_eq!(read_all(&path).await, [one_two, oops, three]);
    }

    #[tokio::test]
    async fn a_piece_that_is_not_whole_yet_is_left_for_later() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("output");
        std::fs::write(
            &path,
            [
                [0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, b'x'],
                [1, 9, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, b'y'],
            ]
            .concat(),
        )
        .unwrap();
        assert_eq!(read_all(&path).await, [(LogStream::Stdout, "x".to_owned())]);
    }

    #[tokio::test]
    async fn long_output_comes_whole() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("output");
        let output = Output::create(&path).unwrap();
        let text = "0123456789".repeat(READ_BYTES / 4);
        let mut stdout = output.printer(LogStream::Stdout);
        stdout.write(text.clone().into()).unwrap();
        let got: String = read_all(&path).await.into_iter().map(|(_, text)| text).collect();
        assert!(got == text, "{} of {} bytes", got.len(), text.len());
    }

    #[tokio::test]
    async fn beyond_the_limit_nothing_is_kept_and_stderr_says_so() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("output");
        let output = Output::with_limit(&path, 18).unwrap();
        for _ in 0..3 {
            output.append(LogStream::Stdout, b"12345").unwrap();
        }
        let note = "\n[what is printed beyond 18 bytes is not kept]\n".to_owned();
        let kept = [(LogStream::Stdout, "12345".to_owned()), (LogStream::Stderr, note)];
        assert_eq!(read_all(&path).await, kept);
    }

    #[tokio::test]
    async fn whoever_follows_sees_all_until_the_end() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("output");
        let output = Output::create(&path).unwrap();
        let (ended, exit) = watch::channel(None);
        let mut chunks = read(&path, Some(exit));
        for text in ["one", "two"] {
            let before = clock::now();
            output.append(LogStream::Stdout, text.as_bytes()).unwrap();
            let chunk = chunks.next().await.unwrap().unwrap();
            assert_eq!((chunk.stream, &chunk.bytes[..]), (LogStream::Stdout, text.as_bytes()));
            assert!(chunk.time >= before && chunk.time <= clock::now(), "{:?}", chunk.time);
        }
        output.append(LogStream::Stderr, b"last").unwrap();
        ended.send_replace(Some(Exit::default()));
        assert_eq!(&chunks.next().await.unwrap().unwrap().bytes[..], b"last");
        assert!(chunks.next().await.is_none());
    }
}
