//! The output of a run: complete on disk, its beginning in the report.

use std::io;

use agent_core::execution::Failure;
use api_types::execution::{RUN_OUTPUT_BYTES, RunOutput};
use api_types::log::LogStream;
use api_types::quantity::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;

use super::intake::{CollectError, Intake};
use crate::data::logs::kept;
use crate::host::data_dir::ExecutionDir;
use crate::host::disk::{self, is_full};
use crate::runtime::{ExecutorError, OutputChunk};

/// The first [`RUN_OUTPUT_BYTES`] of a stream.
#[derive(Debug, Default)]
struct Head {
    bytes: Vec<u8>,
    truncated: bool,
}

/// Reads both streams to their end, and replaces the output of an earlier attempt. Output beyond
/// the task's limit is dropped; output that a full disk refuses is dropped entirely; the report
/// gets the first bytes in either case.
pub(super) async fn take_in(
    mut chunks: BoxStream<'_, Result<OutputChunk, ExecutorError>>,
    dir: &ExecutionDir,
    intake: &mut Intake<'_>,
) -> Result<RunOutput, CollectError> {
    let mut whole = Some(kept::Writer::new(dir));
    let (mut stdout, mut stderr) = (Head::default(), Head::default());
    let mut printed_bytes: u64 = 0;
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk?;
        match chunk.stream {
            LogStream::Stdout => stdout.add(&chunk.bytes),
            LogStream::Stderr => stderr.add(&chunk.bytes),
        }
        let bytes = chunk.bytes.len() as u64;
        printed_bytes += bytes;
        if printed_bytes > intake.left_bytes() {
            continue;
        }
        let Some(writer) = &mut whole else { continue };
        let kept = match intake.disk.take(bytes) {
            Ok(()) => writer.add(&chunk).await,
            Err(error) => Err(error),
        };
        if let Err(error) = kept {
            give_up(&mut whole, dir, &error, intake)?;
        }
    }
    if let Some(writer) = whole.take()
        && let Err(error) = writer.finish().await
    {
        give_up(&mut whole, dir, &error, intake)?;
    }
    if printed_bytes > intake.left_bytes() {
        let size = Bytes(printed_bytes).to_string();
        intake.spoil(intake.limit.beyond("what it printed (stdout and stderr)", &size));
    }
    intake.taken_bytes += printed_bytes.min(intake.left_bytes());
    let (stdout, stdout_truncated) = stdout.finish();
    let (stderr, stderr_truncated) = stderr.finish();
    Ok(RunOutput { stdout, stdout_truncated, stderr, stderr_truncated, ..RunOutput::default() })
}

/// Frees the space taken on a full disk; any other error is returned.
fn give_up(
    whole: &mut Option<kept::Writer<'_>>,
    dir: &ExecutionDir,
    error: &io::Error,
    intake: &mut Intake<'_>,
) -> Result<(), CollectError> {
    *whole = None;
    if !is_full(error) {
        return Err(io::Error::new(error.kind(), error.to_string()).into());
    }
    dir.remove_output()?;
    let failure = disk::failure(error);
    let message = format!("cannot store its output: {}", failure.message);
    intake.spoil(Failure { message, ..failure });
    Ok(())
}

// === impl Head ===

impl Head {
    fn add(&mut self, bytes: &[u8]) {
        let room = RUN_OUTPUT_BYTES - self.bytes.len();
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.truncated |= bytes.len() > room;
    }

    /// As text: a character that the limit cut in two is dropped; bytes that are not UTF-8 are
    /// replaced, within the same limit.
    fn finish(mut self) -> (String, bool) {
        if self.truncated {
            let whole = whole_characters(&self.bytes);
            self.bytes.truncate(whole);
        }
        let mut text = String::from_utf8_lossy(&self.bytes).into_owned();
        if text.len() > RUN_OUTPUT_BYTES {
            text.truncate(text.floor_char_boundary(RUN_OUTPUT_BYTES));
            self.truncated = true;
        }
        (text, self.truncated)
    }
}

/// The length without an incomplete character at the end.
fn whole_characters(bytes: &[u8]) -> usize {
    /// The longest encoding of a character in UTF-8.
    const MOST_BYTES: usize = 4;
    for back in 1..=bytes.len().min(MOST_BYTES - 1) {
        let at = bytes.len() - back;
        let needs = match bytes[at] {
            0xC0..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF7 => 4,
            0x80..=0xBF => continue,
            _ => 1,
        };
        return if needs > back { at } else { bytes.len() };
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use api_types::Timestamp;
    use bytes::Bytes as Piece;
    use futures_util::stream;

    use super::*;
    use crate::host::data_dir::DataDir;
    use crate::host::disk::{Disk, OutputLimit};
    use crate::testing::{self, any_disk};

    fn head(pieces: &[&[u8]]) -> (String, bool) {
        let mut head = Head::default();
        for piece in pieces {
            head.add(piece);
        }
        head.finish()
    }

    #[test]
    fn output_beyond_the_first_bytes_is_flagged() {
        let full = vec![b'x'; RUN_OUTPUT_BYTES];
        assert_eq!(head(&[&full]), ("x".repeat(RUN_OUTPUT_BYTES), false));
        assert_eq!(head(&[&full, b"y"]), ("x".repeat(RUN_OUTPUT_BYTES), true));
        assert_eq!(head(&[]), (String::new(), false));
    }

    #[test]
    fn a_character_is_not_cut_in_two() {
        let before = "x".repeat(RUN_OUTPUT_BYTES - 1);
        for character in ["é", "€", "😀"] {
            let text = format!("{before}{character}");
            assert_eq!(head(&[text.as_bytes()]), (before.clone(), true), "{character}");
        }
        // At the real end of the output an incomplete character is the task's own.
        assert_eq!(head(&[b"a\xE2\x82"]), ("a\u{FFFD}".to_owned(), false));
    }

    #[test]
    fn invalid_utf8_is_replaced_within_the_limit() {
        let (text, truncated) = head(&[&vec![0xFF; RUN_OUTPUT_BYTES]]);
        assert!(truncated && text.len() <= RUN_OUTPUT_BYTES, "{}", text.len());
        assert!(text.chars().all(|character| character == '\u{FFFD}'));
    }

    #[tokio::test]
    async fn both_streams_are_whole_on_disk() {
        let root = tempfile::tempdir().unwrap();
        let dir = DataDir::open(root.path()).unwrap().executions().of(testing::execution_id(1));
        let chunk = |stream, text: &'static str| {
            let (time, bytes) = (Timestamp(1), Piece::from_static(text.as_bytes()));
            Ok(OutputChunk { stream, time, bytes })
        };
        // A second attempt replaces the output of the first one.
        for _ in 0..2 {
            let chunks = stream::iter([
                chunk(LogStream::Stdout, "one "),
                chunk(LogStream::Stderr, "error"),
                chunk(LogStream::Stdout, "two"),
            ]);
            let disk = any_disk();
            let mut intake = Intake::new(&disk, OutputLimit::new(0, 0, 11 + 5));
            let output = take_in(chunks.boxed(), &dir, &mut intake).await.unwrap();
            assert_eq!(intake.spoilt, None);
            assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("one two", "error"));
            assert_eq!(std::fs::read_to_string(dir.stdout()).unwrap(), "one two");
            assert_eq!(std::fs::read_to_string(dir.stderr()).unwrap(), "error");
        }
    }

    fn printing(pieces: usize) -> BoxStream<'static, Result<OutputChunk, ExecutorError>> {
        let chunk = || OutputChunk {
            stream: LogStream::Stdout,
            time: Timestamp(1),
            bytes: Piece::from_static(b"0123456789"),
        };
        stream::iter((0..pieces).map(move |_| Ok(chunk()))).boxed()
    }

    #[tokio::test]
    async fn output_beyond_the_limit_is_dropped_and_reported() {
        let root = tempfile::tempdir().unwrap();
        let dir = DataDir::open(root.path()).unwrap().executions().of(testing::execution_id(1));
        let disk = any_disk();
        let mut intake = Intake::new(&disk, OutputLimit::new(25, 0, 0));
        let output = take_in(printing(4), &dir, &mut intake).await.unwrap();
        assert_eq!(output.stdout.len(), 40);
        assert_eq!(std::fs::read(dir.stdout()).unwrap().len(), 20);
        let told = intake.spoilt.clone().unwrap();
        let words = "what it printed (stdout and stderr) has 40 B, more than the 25 B of the \
                     task's Resources.Disk; ask for more";
        assert_eq!(told, Failure::task(words));
    }

    #[tokio::test]
    async fn a_full_disk_keeps_only_the_first_bytes_of_the_output() {
        let root = tempfile::tempdir().unwrap();
        let dir = DataDir::open(root.path()).unwrap().executions().of(testing::execution_id(1));
        std::fs::create_dir_all(dir.stdout().parent().unwrap()).unwrap();
        std::fs::write(dir.stdout(), "of an earlier try").unwrap();
        let disk = Disk::with_free_bytes(5);
        let mut intake = Intake::new(&disk, OutputLimit::new(0, 0, 1000));
        let output = take_in(printing(4), &dir, &mut intake).await.unwrap();
        assert_eq!(output.stdout.len(), 40);
        assert!(!dir.stdout().exists() && intake.is_the_disk_full());
        let told = intake.spoilt.unwrap().message;
        let words = "cannot store its output: no space left on the node's disk (5 B are free";
        assert!(told.starts_with(words), "{told}");
    }
}
