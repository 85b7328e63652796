//! The beginning and the end of a stream, as the report carries them.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use api_types::execution::RUN_OUTPUT_BYTES;
use api_types::log::{LogData, MAX_TAIL_BYTES, OutputTail, StreamTail};

/// The most bytes of one stream that the tail of a failed run keeps, if the other one printed as
/// much.
const FAIR_SHARE: usize = MAX_TAIL_BYTES / 2;

/// What is kept of a stream while it is read.
#[derive(Debug, Default)]
pub(super) struct Ends {
    /// At most [`RUN_OUTPUT_BYTES`].
    head: Vec<u8>,
    /// The last [`MAX_TAIL_BYTES`], the head included.
    tail: VecDeque<u8>,
    bytes: u64,
}

/// The end of a truncated stream for the record; empty of one that the head holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct RecordTail {
    pub(super) text: String,
    /// Bytes of the whole stream.
    pub(super) of_bytes: u64,
}

// === impl Ends ===

impl Ends {
    /// Of a stream whose first bytes are stored.
    pub(super) fn of_file(path: &Path, bytes: u64) -> io::Result<Self> {
        let mut ends = Self::default();
        if bytes == 0 {
            return Ok(ends);
        }
        let file = File::open(path)?;
        (&file).take(bytes.min(RUN_OUTPUT_BYTES as u64)).read_to_end(&mut ends.head)?;
        let tail_bytes = bytes.min(MAX_TAIL_BYTES as u64);
        (&file).seek(SeekFrom::Start(bytes - tail_bytes))?;
        let mut tail = Vec::new();
        (&file).take(tail_bytes).read_to_end(&mut tail)?;
        (ends.tail, ends.bytes) = (tail.into(), bytes);
        Ok(ends)
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        let room = RUN_OUTPUT_BYTES - self.head.len();
        self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.bytes += bytes.len() as u64;
        let last = &bytes[bytes.len().saturating_sub(MAX_TAIL_BYTES)..];
        let excess = (self.tail.len() + last.len()).saturating_sub(MAX_TAIL_BYTES);
        self.tail.drain(..excess);
        self.tail.extend(last);
    }

    fn is_truncated(&self) -> bool {
        self.bytes > self.head.len() as u64
    }

    /// The length of the head without a character that the limit cut in two.
    fn head_bytes(&self) -> usize {
        if self.is_truncated() { whole_characters(&self.head) } else { self.head.len() }
    }

    /// As text, and whether there was more: bytes that are not UTF-8 are replaced, within the same
    /// limit.
    pub(super) fn head(&self) -> (String, bool) {
        let mut text = String::from_utf8_lossy(&self.head[..self.head_bytes()]).into_owned();
        let is_longer = text.len() > RUN_OUTPUT_BYTES;
        if is_longer {
            text.truncate(text.floor_char_boundary(RUN_OUTPUT_BYTES));
        }
        (text, self.is_truncated() || is_longer)
    }

    /// The last bytes of the stream after its head.
    pub(super) fn record_tail(&self) -> RecordTail {
        if !self.is_truncated() {
            return RecordTail::default();
        }
        let after_head = self.bytes - self.head_bytes() as u64;
        let count = usize::try_from(after_head).unwrap_or(usize::MAX).min(RUN_OUTPUT_BYTES);
        let mut last = self.last(count);
        if (count as u64) < after_head {
            let begin = last.iter().position(|byte| !(0x80..=0xBF).contains(byte));
            last.drain(..begin.unwrap_or(0));
        }
        let mut text = String::from_utf8_lossy(&last).into_owned();
        if text.len() > RUN_OUTPUT_BYTES {
            text.drain(..text.ceil_char_boundary(text.len() - RUN_OUTPUT_BYTES));
        }
        RecordTail { text, of_bytes: self.bytes }
    }

    fn last(&self, count: usize) -> Vec<u8> {
        self.tail.range(self.tail.len().saturating_sub(count)..).copied().collect()
    }

    fn stream_tail(&self, count: usize) -> StreamTail {
        let last = self.last(count);
        StreamTail { offset: self.bytes - last.len() as u64, data: LogData::from(&last[..]) }
    }
}

/// The end of both streams; none when their heads hold everything.
pub(super) fn tail_of(stdout: &Ends, stderr: &Ends) -> Option<OutputTail> {
    if !stdout.is_truncated() && !stderr.is_truncated() {
        return None;
    }
    // What one does not need goes to the other, the errors first.
    let of_stderr = stderr.tail.len().min(MAX_TAIL_BYTES - stdout.tail.len().min(FAIR_SHARE));
    let of_stdout = stdout.tail.len().min(MAX_TAIL_BYTES - of_stderr);
    Some(OutputTail {
        stdout: stdout.stream_tail(of_stdout),
        stderr: stderr.stream_tail(of_stderr),
    })
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
    use super::*;

    fn ends(pieces: &[&[u8]]) -> Ends {
        let mut ends = Ends::default();
        pieces.iter().for_each(|piece| ends.add(piece));
        ends
    }

    fn head(pieces: &[&[u8]]) -> (String, bool) {
        ends(pieces).head()
    }

    #[test]
    fn a_stream_whose_beginning_is_stored_has_the_same_ends() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("stdout");
        let whole: Vec<u8> = (0..300_000_u32).map(|number| number.to_le_bytes()[1]).collect();
        for stored in [0, 1, 2047, 2048, 2049, 70_000, 299_999] {
            std::fs::write(&path, &whole).unwrap();
            let mut continued = Ends::of_file(&path, stored as u64).unwrap();
            continued.add(&whole[stored..]);
            let read = ends(&[&whole]);
            assert_eq!(continued.head(), read.head(), "{stored}");
            assert_eq!(continued.record_tail(), read.record_tail(), "{stored}");
            let tail = |ends| tail_of(&ends, &Ends::default()).unwrap().stdout;
            assert_eq!(tail(continued), tail(read), "{stored}");
        }
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

    #[test]
    fn the_record_has_the_end_of_what_its_beginning_does_not_hold() {
        let text = |bytes: usize| "0123456789".repeat(bytes / 10 + 1)[..bytes].to_owned();
        for (bytes, tail_bytes) in [(2048, 0), (2049, 1), (4000, 1952), (4096, 2048), (9000, 2048)]
        {
            let whole = text(bytes);
            let tail = ends(&[whole.as_bytes()]).record_tail();
            let of_bytes = if tail_bytes == 0 { 0 } else { bytes as u64 };
            let expected = RecordTail { text: whole[bytes - tail_bytes..].to_owned(), of_bytes };
            assert_eq!(tail, expected, "{bytes}");
        }
        // No character is cut in two, and none is lost where nothing is missing.
        let euros = "€".repeat(1000);
        let read = ends(&[euros.as_bytes()]);
        assert_eq!(read.head().0 + &read.record_tail().text, euros);
        let many = ends(&["€".repeat(5000).as_bytes()]).record_tail();
        assert_eq!(many.text, "€".repeat(RUN_OUTPUT_BYTES / 3));
    }

    #[test]
    fn the_tail_of_both_streams_is_bounded_and_fair() {
        let bytes = |tail: StreamTail| (tail.offset, tail.data.into_bytes().unwrap().len());
        let of = |stdout: usize, stderr: usize| {
            let piece = vec![b'x'; 1000];
            let fill = |bytes: usize| {
                let mut ends = Ends::default();
                (0..bytes / 1000).for_each(|_| ends.add(&piece));
                ends.add(&piece[..bytes % 1000]);
                ends
            };
            let OutputTail { stdout, stderr } = tail_of(&fill(stdout), &fill(stderr))?;
            Some((bytes(stdout), bytes(stderr)))
        };
        let (all, half) = (MAX_TAIL_BYTES, FAIR_SHARE);
        assert_eq!(of(100, 100), None);
        assert_eq!(of(3000, 100), Some(((0, 3000), (0, 100))));
        let last = |bytes: usize, kept: usize| ((bytes - kept) as u64, kept);
        assert_eq!(of(200_000, 200_000), Some((last(200_000, half), last(200_000, half))));
        assert_eq!(of(200_000, 1000), Some((last(200_000, all - 1000), (0, 1000))));
        assert_eq!(of(1000, 200_000), Some(((0, 1000), last(200_000, all - 1000))));
    }
}
