//! The program's output, on its way to the file that `wasm_run::output` describes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasm_run::output::{HEADER_BYTES, Header, MAX_PIECE_BYTES, Stream};
use wasmtime_wasi::async_trait;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};

use crate::clock;

/// Output beyond this limit is discarded, and the end of its stderr says so. Without a limit one
/// task could fill the node's disk.
const MAX_OUTPUT_BYTES: u64 = 1 << 30;

/// The output of one run, being written.
pub(crate) struct Output {
    limit_bytes: u64,
    written: Mutex<Written>,
}

struct Written {
    file: File,
    /// Of complete records, which is where the next one begins.
    bytes: u64,
    /// Whether a part of a record may lie behind them, since the disk was full.
    has_more: bool,
}

/// One of the program's two streams.
#[derive(Clone)]
pub(crate) struct Printer {
    output: Arc<Output>,
    stream: Stream,
}

// === impl Output ===

impl Output {
    pub(crate) fn create(path: &Path) -> io::Result<Arc<Self>> {
        Self::with_limit(path, MAX_OUTPUT_BYTES)
    }

    fn with_limit(path: &Path, limit_bytes: u64) -> io::Result<Arc<Self>> {
        let written = Mutex::new(Written { file: File::create(path)?, bytes: 0, has_more: false });
        Ok(Arc::new(Self { limit_bytes, written }))
    }

    pub(crate) fn printer(self: &Arc<Self>, stream: Stream) -> Printer {
        Printer { output: Arc::clone(self), stream }
    }

    fn append(&self, stream: Stream, bytes: &[u8]) -> io::Result<()> {
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
            written.append(Stream::Stderr, note.as_bytes())?;
        }
        Ok(())
    }
}

// === impl Written ===

impl Written {
    /// All of it or nothing: a part of a record would be taken for the next one.
    fn append(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        let mut piece = Vec::with_capacity(HEADER_BYTES + bytes.len());
        piece.extend(Header { stream, time: clock::now(), length }.encode());
        piece.extend(bytes);
        if self.has_more {
            self.file.set_len(self.bytes)?;
        }
        self.has_more = true;
        self.file.write_all_at(&piece, self.bytes).inspect_err(|_| {
            // Other programs need the space; where this fails, the next record tries again.
            let _ = self.file.set_len(self.bytes);
        })?;
        self.has_more = false;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(mut bytes: &[u8]) -> Vec<(Stream, String)> {
        let mut pieces = Vec::new();
        while let Some((header, rest)) = bytes.split_first_chunk() {
            let Header { stream, length, .. } = Header::decode(*header);
            let (text, rest) = rest.split_at(length as usize);
            pieces.push((stream, String::from_utf8(text.to_vec()).unwrap()));
            bytes = rest;
        }
        pieces
    }

    #[test]
    fn both_streams_keep_their_order() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("output");
        let output = Output::create(&path).unwrap();
        let (mut stdout, mut stderr) =
            (output.printer(Stream::Stdout), output.printer(Stream::Stderr));
        stdout.write(Bytes::from_static(b"one")).unwrap();
        stderr.write(Bytes::from_static(b"oops")).unwrap();
        stdout.write(Bytes::from(vec![b'x'; MAX_PIECE_BYTES + 1])).unwrap();
        let written = pieces(&std::fs::read(&path).unwrap());
        let long = "x".repeat(MAX_PIECE_BYTES);
        let texts = [
            (Stream::Stdout, "one"),
            (Stream::Stderr, "oops"),
            (Stream::Stdout, &long),
            (Stream::Stdout, "x"),
        ];
        assert_eq!(written, texts.map(|(stream, text)| (stream, text.to_owned())));
    }

    #[test]
    fn a_record_that_a_full_disk_cut_off_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("output");
        let output = Output::create(&path).unwrap();
        output.append(Stream::Stdout, b"one").unwrap();
        {
            // As the kernel does: it writes as much as fits.
            let mut written = output.written.lock().unwrap();
            let part = Header { stream: Stream::Stdout, time: 1, length: 100 }.encode();
            written.file.write_all_at(&[&part[..], &[b'x'; 50]].concat(), written.bytes).unwrap();
            written.has_more = true;
        }
        output.append(Stream::Stderr, b"two").unwrap();
        let written = pieces(&std::fs::read(&path).unwrap());
        let texts = [(Stream::Stdout, "one"), (Stream::Stderr, "two")];
        assert_eq!(written, texts.map(|(stream, text)| (stream, text.to_owned())));
    }

    #[test]
    fn beyond_the_limit_nothing_is_kept_and_stderr_says_so() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("output");
        let output = Output::with_limit(&path, 18).unwrap();
        for _ in 0..3 {
            output.append(Stream::Stdout, b"12345").unwrap();
        }
        let note = "\n[what is printed beyond 18 bytes is not kept]\n".to_owned();
        let kept = [(Stream::Stdout, "12345".to_owned()), (Stream::Stdout, "12345".to_owned())];
        let written = pieces(&std::fs::read(&path).unwrap());
        assert_eq!(written.last(), Some(&(Stream::Stderr, note)));
        assert!(kept.starts_with(&written[..written.len() - 1]), "{written:?}");
    }
}
