//! Reads a program's output from the file that its runner writes (see `wasm_run::output`).

use std::io::{self, SeekFrom};
use std::path::Path;
use std::time::Duration;

use api_types::Timestamp;
use api_types::log::LogStream;
use bytes::{Buf, BytesMut};
use futures_util::stream::{self, BoxStream, StreamExt};
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use wasm_run::output::{HEADER_BYTES, Header, MAX_PIECE_BYTES, Stream};

use super::process::Ended;
use crate::runtime::{ExecutorError, OutputChunk};

/// Bytes per disk read: more than a record has, so one that is not whole is not written to its end.
const READ_BYTES: usize = 256 << 10;

/// Programs that print one character at a time would otherwise produce as many chunks.
const AT_ONCE: Duration = Duration::from_millis(1);

/// The delay until a following reader sees new output.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The output so far, or nothing if the program never started; when following a run, also
/// everything until its end.
pub(super) fn read(
    path: &Path,
    followed: Option<Ended>,
) -> BoxStream<'static, Result<OutputChunk, ExecutorError>> {
    let path = path.to_owned();
    let opened = async move {
        match tokio::fs::File::open(&path).await {
            Ok(file) => {
                let reader = Reader { file, position: 0, buffer: BytesMut::new(), followed };
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
    /// The end of the records that were read.
    position: u64,
    buffer: BytesMut,
    /// None when the file is complete.
    followed: Option<Ended>,
}

// === impl Reader ===

impl Reader {
    /// The chunks of the next part of the file.
    async fn next(mut self) -> io::Result<Option<(Vec<OutputChunk>, Self)>> {
        loop {
            self.buffer.clear();
            self.buffer.reserve(READ_BYTES);
            let read = self.file.read_buf(&mut self.buffer).await?;
            let pieces = take_pieces(&mut self.buffer)?;
            self.position += (read - self.buffer.len()) as u64;
            if !self.buffer.is_empty() {
                // A record that the disk had no room for gives way to the next one.
                self.file.seek(SeekFrom::Start(self.position)).await?;
            }
            if !pieces.is_empty() {
                return Ok(Some((pieces, self)));
            }
            let Some(ended) = &mut self.followed else { return Ok(None) };
            let ended = ended.wait_for(Option::is_some);
            if tokio::time::timeout(POLL_INTERVAL, ended).await.is_ok() {
                // The program has ended; its last output may not have been read yet.
                self.followed = None;
            }
        }
    }
}

/// Parses complete records; joins output of one stream up to [`AT_ONCE`].
fn take_pieces(buffer: &mut BytesMut) -> io::Result<Vec<OutputChunk>> {
    let mut pieces: Vec<(LogStream, Timestamp, BytesMut)> = Vec::new();
    while let Some((header, rest)) = buffer.split_first_chunk::<HEADER_BYTES>() {
        let Header { stream, time, length } = Header::decode(*header);
        let (time, length) = (Timestamp(time), length as usize);
        let is_a_record = length <= MAX_PIECE_BYTES;
        if !is_a_record && pieces.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it holds what is no record"));
        }
        if !is_a_record || rest.len() < length {
            break;
        }
        let stream = match stream {
            Stream::Stdout => LogStream::Stdout,
            Stream::Stderr => LogStream::Stderr,
        };
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
    Ok(pieces.into_iter().map(whole).collect())
}

fn unreadable(error: &io::Error) -> ExecutorError {
    ExecutorError::OutputLost { reason: format!("the file on the node: {error}") }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use tokio::sync::watch;

    use super::*;

    /// Writes as a runner does.
    fn append(mut file: &File, stream: Stream, time: i64, text: &str) {
        let length = u32::try_from(text.len()).unwrap();
        let header = Header { stream, time, length };
        file.write_all(&[&header.encode(), text.as_bytes()].concat()).unwrap();
    }

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
        let file = File::create(&path).unwrap();
        append(&file, Stream::Stdout, 1, "one ");
        append(&file, Stream::Stdout, 1_000_000_000, "two");
        let one_two = (LogStream::Stdout, "one two".to_owned());
        assert_eq!(read_all(&path).await, std::slice::from_ref(&one_two));
        append(&file, Stream::Stderr, 1_000_000_001, "oops");
        append(&file, Stream::Stdout, 1_000_000_002, "three");
        let oops = (LogStream::Stderr, "oops".to_owned());
        let three = (LogStream::Stdout, "three".to_owned());
        assert_eq!(read_all(&path).await, [one_two, oops, three]);
    }

    #[tokio::test]
    async fn an_incomplete_record_is_left_for_later() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("output");
        let file = File::create(&path).unwrap();
        append(&file, Stream::Stdout, 9, "x");
        let rest = Header { stream: Stream::Stderr, time: 9, length: 9 }.encode();
        (&file).write_all(&[&rest[..], b"y"].concat()).unwrap();
        assert_eq!(read_all(&path).await, [(LogStream::Stdout, "x".to_owned())]);
    }

    #[tokio::test]
    async fn a_record_that_was_not_finished_gives_way_to_the_next_one() {
        use std::os::unix::fs::FileExt;

        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("output");
        let file = File::create(&path).unwrap();
        append(&file, Stream::Stdout, 1, "one");
        let end = file.metadata().unwrap().len();
        append(&file, Stream::Stdout, 2, "cut off by a full disk");
        file.set_len(end + 20).unwrap();
        let (ended, followed) = watch::channel(None);
        let mut chunks = read(&path, Some(followed));
        assert_eq!(&chunks.next().await.unwrap().unwrap().bytes[..], b"one");
        // The reader sees the part before there is more.
        let more = tokio::time::timeout(POLL_INTERVAL * 2, chunks.next()).await;
        assert!(more.is_err(), "{more:?}");
        let next = Header { stream: Stream::Stderr, time: 3, length: 3 }.encode();
        file.write_all_at(&[&next[..], b"two"].concat(), end).unwrap();
        file.set_len(end + 16).unwrap();
        assert_eq!(&chunks.next().await.unwrap().unwrap().bytes[..], b"two");
        ended.send_replace(Some(Ok(agent_core::execution::Exit::default())));
        assert!(chunks.next().await.is_none());
    }

    #[tokio::test]
    async fn damage_ends_the_output_and_is_not_waited_for() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("output");
        let file = File::create(&path).unwrap();
        append(&file, Stream::Stdout, 1, "one");
        (&file).write_all(&[0xFF; 100]).unwrap();
        let mut chunks = read(&path, None);
        assert_eq!(&chunks.next().await.unwrap().unwrap().bytes[..], b"one");
        let damage = chunks.next().await.unwrap().unwrap_err();
        assert!(matches!(damage, ExecutorError::OutputLost { .. }), "{damage}");
    }

    #[tokio::test]
    async fn long_output_is_complete() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("output");
        let file = File::create(&path).unwrap();
        let text = "0123456789".repeat(READ_BYTES / 4);
        for piece in text.as_bytes().chunks(wasm_run::output::MAX_PIECE_BYTES) {
            append(&file, Stream::Stdout, 1, std::str::from_utf8(piece).unwrap());
        }
        let got: String = read_all(&path).await.into_iter().map(|(_, text)| text).collect();
        assert!(got == text, "{} of {} bytes", got.len(), text.len());
    }

    #[tokio::test]
    async fn a_follower_sees_everything_until_the_end() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("output");
        let file = File::create(&path).unwrap();
        let (ended, followed) = watch::channel(None);
        let mut chunks = read(&path, Some(followed));
        for (time, text) in [(7, "one"), (8, "two")] {
            append(&file, Stream::Stdout, time, text);
            let chunk = chunks.next().await.unwrap().unwrap();
            assert_eq!((chunk.stream, &chunk.bytes[..]), (LogStream::Stdout, text.as_bytes()));
            assert_eq!(chunk.time, Timestamp(time));
        }
        append(&file, Stream::Stderr, 9, "last");
        ended.send_replace(Some(Ok(agent_core::execution::Exit::default())));
        assert_eq!(&chunks.next().await.unwrap().unwrap().bytes[..], b"last");
        assert!(chunks.next().await.is_none());
    }
}
