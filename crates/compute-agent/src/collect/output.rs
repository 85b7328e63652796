//! The output of a run: whole on disk, its beginning in the report.

use api_types::execution::{RUN_OUTPUT_BYTES, RunOutput};
use api_types::log::LogStream;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;

use super::CollectError;
use crate::data_dir::ExecutionDir;
use crate::executor::{ExecutorError, OutputChunk};
use crate::output::kept;

/// The first [`RUN_OUTPUT_BYTES`] of a stream.
#[derive(Debug, Default)]
struct Head {
    bytes: Vec<u8>,
    truncated: bool,
}

/// Reads both streams to their end. What lay there of an earlier try is replaced.
pub(super) async fn take_in(
    mut chunks: BoxStream<'_, Result<OutputChunk, ExecutorError>>,
    dir: &ExecutionDir,
) -> Result<RunOutput, CollectError> {
    let mut whole = kept::Writer::new(dir);
    let (mut stdout, mut stderr) = (Head::default(), Head::default());
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk?;
        whole.add(&chunk).await?;
        match chunk.stream {
            LogStream::Stdout => stdout.add(&chunk.bytes),
            LogStream::Stderr => stderr.add(&chunk.bytes),
        }
    }
    whole.finish().await?;
    let (stdout, stdout_truncated) = stdout.finish();
    let (stderr, stderr_truncated) = stderr.finish();
    Ok(RunOutput { stdout, stdout_truncated, stderr, stderr_truncated, ..RunOutput::default() })
}

// === impl Head ===

impl Head {
    fn add(&mut self, bytes: &[u8]) {
        let room = RUN_OUTPUT_BYTES - self.bytes.len();
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.truncated |= bytes.len() > room;
    }

    /// As text: a character that the limit cut in two is left out; what is no UTF-8 is replaced,
    /// within the same limit.
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

/// The length without a character at the end that is incomplete.
fn whole_characters(bytes: &[u8]) -> usize {
    /// Of one character in UTF-8.
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
    use bytes::Bytes;
    use futures_util::stream;

    use super::*;
    use crate::data_dir::DataDir;
    use crate::testing;

    fn head(pieces: &[&[u8]]) -> (String, bool) {
        let mut head = Head::default();
        for piece in pieces {
            head.add(piece);
        }
        head.finish()
    }

    #[test]
    fn the_first_bytes_are_kept_and_more_is_flagged() {
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
        // At the very end of the output an incomplete character is the task's own doing.
        assert_eq!(head(&[b"a\xE2\x82"]), ("a\u{FFFD}".to_owned(), false));
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced_within_the_limit() {
        let (text, truncated) = head(&[&vec![0xFF; RUN_OUTPUT_BYTES]]);
        assert!(truncated && text.len() <= RUN_OUTPUT_BYTES, "{}", text.len());
        assert!(text.chars().all(|character| character == '\u{FFFD}'));
    }

    #[tokio::test]
    async fn both_streams_are_whole_on_disk() {
        let root = tempfile::tempdir().unwrap();
        let dir = DataDir::open(root.path()).unwrap().executions().of(testing::execution_id(1));
        let chunk = |stream, text: &'static str| {
            let (time, bytes) = (Timestamp(1), Bytes::from_static(text.as_bytes()));
            Ok(OutputChunk { stream, time, bytes })
        };
        // A second try replaces what the first one left.
        for _ in 0..2 {
            let chunks = stream::iter([
                chunk(LogStream::Stdout, "one "),
                chunk(LogStream::Stderr, "error"),
                chunk(LogStream::Stdout, "two"),
            ]);
            let output = take_in(chunks.boxed(), &dir).await.unwrap();
            assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("one two", "error"));
            assert_eq!(std::fs::read_to_string(dir.stdout()).unwrap(), "one two");
            assert_eq!(std::fs::read_to_string(dir.stderr()).unwrap(), "error");
        }
    }
}
