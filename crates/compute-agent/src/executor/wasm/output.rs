//! What a program prints: one file for both streams, which keeps their order.
//!
//! The file is a row of pieces: the stream (1 byte: 0 for stdout, 1 for stderr), the number of
//! bytes (4, little-endian), the bytes. It is appended to while the program runs and can be read
//! meanwhile; a piece that is not whole yet is not there yet.
//!
//! Rejected: a file per stream, because what was printed first could not be told.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use futures_util::stream::{self, BoxStream, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWrite};
use wasmtime_wasi::async_trait;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream as WasiStream, Pollable, StreamError, StreamResult};

use crate::executor::{ExecutorError, OutputChunk, OutputStream};

/// What a program prints beyond this is not kept, and the end of its stderr says so. Without a
/// bound one task could fill the node's disk.
const MAX_OUTPUT_BYTES: u64 = 1 << 30;

/// The stream and the number of bytes.
const HEADER_BYTES: usize = 5;

/// The most a program prints in one go; more is taken in several.
const MAX_PIECE_BYTES: usize = 64 << 10;

/// Read from the disk at once.
const READ_BYTES: usize = 256 << 10;

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
    stream: OutputStream,
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

    pub(super) fn printer(self: &Arc<Self>, stream: OutputStream) -> Printer {
        Printer { output: Arc::clone(self), stream }
    }

    fn append(&self, stream: OutputStream, bytes: &[u8]) -> io::Result<()> {
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
            written.append(OutputStream::Stderr, note.as_bytes())?;
        }
        Ok(())
    }
}

// === impl Written ===

impl Written {
    fn append(&mut self, stream: OutputStream, bytes: &[u8]) -> io::Result<()> {
        let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        let mut piece = Vec::with_capacity(HEADER_BYTES + bytes.len());
        piece.push(match stream {
            OutputStream::Stdout => 0,
            OutputStream::Stderr => 1,
        });
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

    fn p2_stream(&self) -> Box<dyn WasiStream> {
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

impl WasiStream for Printer {
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

/// What was printed so far; nothing when nothing was ever started.
pub(super) fn read(path: &Path) -> BoxStream<'static, Result<OutputChunk, ExecutorError>> {
    let path = path.to_owned();
    let opened = async move {
        match tokio::fs::File::open(&path).await {
            Ok(file) => stream::try_unfold((file, BytesMut::new()), next).boxed(),
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

/// The pieces of the next part of the file.
async fn next(
    (mut file, mut buffer): (tokio::fs::File, BytesMut),
) -> io::Result<Option<(Vec<OutputChunk>, (tokio::fs::File, BytesMut))>> {
    loop {
        let pieces = take_pieces(&mut buffer);
        if !pieces.is_empty() {
            return Ok(Some((pieces, (file, buffer))));
        }
        buffer.reserve(READ_BYTES);
        if file.read_buf(&mut buffer).await? == 0 {
            return Ok(None);
        }
    }
}

/// Takes what is whole; neighbours of one stream come as one.
fn take_pieces(buffer: &mut BytesMut) -> Vec<OutputChunk> {
    let mut pieces: Vec<(OutputStream, BytesMut)> = Vec::new();
    while let Some((header, rest)) = buffer.split_first_chunk::<HEADER_BYTES>() {
        let [stream, length @ ..] = *header;
        let length = u32::from_le_bytes(length) as usize;
        if rest.len() < length {
            break;
        }
        let stream = if stream == 0 { OutputStream::Stdout } else { OutputStream::Stderr };
        buffer.advance(HEADER_BYTES);
        let bytes = buffer.split_to(length);
        match pieces.last_mut() {
            Some((last, whole)) if *last == stream => whole.extend_from_slice(&bytes),
            _ => pieces.push((stream, bytes)),
        }
    }
    let whole = |(stream, bytes): (_, BytesMut)| OutputChunk { stream, bytes: bytes.freeze() };
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

    async fn read_all(path: &Path) -> Vec<(OutputStream, String)> {
        read(path)
            .map(|chunk| {
                let OutputChunk { stream, bytes } = chunk.unwrap();
                (stream, String::from_utf8(bytes.to_vec()).unwrap())
            })
            .collect()
            .await
    }

    #[tokio::test]
    async fn both_streams_keep_their_order_and_can_be_read_meanwhile() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("output");
        assert_eq!(read_all(&path).await, []);
        let output = Output::create(&path).unwrap();
        let (mut stdout, mut stderr) =
            (output.printer(OutputStream::Stdout), output.printer(OutputStream::Stderr));
        stdout.write(Bytes::from_static(b"one ")).unwrap();
        stdout.write(Bytes::from_static(b"two")).unwrap();
        let one_two = (OutputStream::Stdout, "one two".to_owned());
        assert_eq!(read_all(&path).await, std::slice::from_ref(&one_two));
        stderr.write(Bytes::from_static(b"oops")).unwrap();
        stdout.write(Bytes::from_static(b"three")).unwrap();
        let oops = (OutputStream::Stderr, "oops".to_owned());
        let three = (OutputStream::Stdout, "three".to_owned());
        assert_eq!(read_all(&path).await, [one_two, oops, three]);
    }

    #[tokio::test]
    async fn a_piece_that_is_not_whole_yet_is_left_for_later() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("output");
        std::fs::write(&path, [0, 1, 0, 0, 0, b'x', 1, 9, 0, 0, 0, b'y']).unwrap();
        assert_eq!(read_all(&path).await, [(OutputStream::Stdout, "x".to_owned())]);
    }

    #[tokio::test]
    async fn long_output_comes_whole() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("output");
        let output = Output::create(&path).unwrap();
        let text = "0123456789".repeat(READ_BYTES / 4);
        let mut stdout = output.printer(OutputStream::Stdout);
        stdout.write(text.clone().into()).unwrap();
        let got: String = read_all(&path).await.into_iter().map(|(_, text)| text).collect();
        assert!(got == text, "{} of {} bytes", got.len(), text.len());
    }

    #[tokio::test]
    async fn beyond_the_limit_nothing_is_kept_and_stderr_says_so() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("output");
        let output = Output::with_limit(&path, 10).unwrap();
        for _ in 0..3 {
            output.append(OutputStream::Stdout, b"12345").unwrap();
        }
        let note = "\n[what is printed beyond 10 bytes is not kept]\n".to_owned();
        let kept = [(OutputStream::Stdout, "12345".to_owned()), (OutputStream::Stderr, note)];
        assert_eq!(read_all(&path).await, kept);
    }
}
