//! What remains of an execution's output once its node no longer has it: the beginning and the end
//! of each stream in its record, and a longer end of failed ones.

use std::ops::Range;

use api_types::execution::RunOutput;
use api_types::log::{LogPosition, LogStream, OutputTail, StreamTail};
use api_types::quantity::Bytes;
use control_plane::store::StoredExecution;

use super::item::{Item, LogOptions, Piece};

/// Bytes of a stream that are kept, in order.
struct StoredStream {
    stream: LogStream,
    /// The beginning.
    head: Vec<u8>,
    /// The end, and where it begins.
    tail: Option<(u64, Vec<u8>)>,
}

/// What the store holds, after what the reader already got from the node; `why` the node has no
/// more.
pub(super) fn left_behind(
    stored: &StoredExecution,
    tail: Option<OutputTail>,
    options: LogOptions,
    position: Option<LogPosition>,
    why: &str,
) -> Vec<Item> {
    let Some(output) = &stored.run_output else {
        if stored.row.started_at.is_none() {
            return Vec::new();
        }
        return vec![Item::Remark(format!("its output is not available: {why}"))];
    };
    let mut parts = Vec::new();
    for kept in kept(output, tail) {
        if options.stream.is_some_and(|wanted| wanted != kept.stream) {
            continue;
        }
        let got = position.map_or(0, |position| position.offset(kept.stream));
        let (before, gap, after) = kept.after(got);
        parts.extend(before.map(Part::Bytes));
        parts.extend(gap.map(|missing| Part::Gap(kept.stream, missing, kept.tail_bytes())));
        parts.extend(after.map(Part::Bytes));
    }
    if let (Some(count), None) = (options.tail, position) {
        keep_last_lines(&mut parts, count);
    }
    let time = stored.row.modify_time;
    let item = |part| match part {
        Part::Bytes((stream, offset, bytes)) => {
            Item::Output(vec![Piece { stream, time, offset, bytes }])
        }
        Part::Gap(stream, missing, tail) => Item::Gap(gap_text(stream, &missing, tail, why)),
    };
    parts.into_iter().map(item).collect()
}

/// Bytes of a stream, and where they begin.
type StreamBytes = (LogStream, u64, Vec<u8>);

enum Part {
    Bytes(StreamBytes),
    /// Bytes of the stream that are lost, and how many are kept after them.
    Gap(LogStream, Range<u64>, u64),
}

fn gap_text(stream: LogStream, missing: &Range<u64>, tail: u64, why: &str) -> String {
    let word = match stream {
        LogStream::Stdout => "stdout",
        LogStream::Stderr => "stderr",
    };
    let head = missing.start;
    match (tail, missing.end) {
        (0, _) => format!("only the first {head} bytes of {word} are in its record: {why}"),
        (tail, end) => {
            let missing = Bytes(end - missing.start);
            format!(
                "{missing} of {word} are missing here; what follows are its last {tail} bytes: {why}"
            )
        }
    }
}

/// Both streams, as far as they are kept.
fn kept(output: &RunOutput, tail: Option<OutputTail>) -> [StoredStream; 2] {
    let (stdout, stderr) = tail.map_or((None, None), |tail| (Some(tail.stdout), Some(tail.stderr)));
    let RunOutput { stdout_truncated, stdout_bytes, stderr_truncated, stderr_bytes, .. } = *output;
    let ends_of = |text: &str, bytes: u64, longer: Option<StreamTail>| {
        let longer = longer.and_then(|tail| Some((tail.offset, tail.data.into_bytes()?)));
        let begin = bytes.saturating_sub(text.len() as u64);
        let short = (!text.is_empty()).then(|| (begin, text.as_bytes().to_vec()));
        longer.filter(|(_, bytes)| !bytes.is_empty()).or(short)
    };
    // A record of an earlier release says only that there was more.
    let unknown = |is_truncated: bool| is_truncated.then(|| (u64::MAX, Vec::new()));
    let stdout_tail = ends_of(&output.stdout_tail, stdout_bytes, stdout);
    let stderr_tail = ends_of(&output.stderr_tail, stderr_bytes, stderr);
    [
        StoredStream {
            stream: LogStream::Stdout,
            head: output.stdout.as_bytes().to_vec(),
            tail: stdout_tail.or_else(|| unknown(stdout_truncated)),
        },
        StoredStream {
            stream: LogStream::Stderr,
            head: output.stderr.as_bytes().to_vec(),
            tail: stderr_tail.or_else(|| unknown(stderr_truncated)),
        },
    ]
}

// === impl StoredStream ===

impl StoredStream {
    /// The parts after a position: of the beginning, what is missing then, and of the end.
    fn after(&self, got: u64) -> (Option<StreamBytes>, Option<Range<u64>>, Option<StreamBytes>) {
        let head_end = self.head.len() as u64;
        let part = |begin: u64, bytes: &[u8], from: u64| {
            let skip = usize::try_from(from.saturating_sub(begin)).unwrap_or(usize::MAX);
            let rest = bytes.get(skip..).filter(|rest| !rest.is_empty())?;
            Some((self.stream, begin.max(from), rest.to_vec()))
        };
        // Where bytes were replaced, positions differ from those of the stream.
        let is_exact = got == 0 || !String::from_utf8_lossy(&self.head).contains('\u{FFFD}');
        let before = if is_exact { part(0, &self.head, got) } else { None };
        let Some((tail_begin, tail)) = &self.tail else { return (before, None, None) };
        let from = got.max(head_end);
        let missing = (from < *tail_begin).then_some(from..*tail_begin);
        (before, missing, part(*tail_begin, tail, from))
    }

    fn tail_bytes(&self) -> u64 {
        self.tail.as_ref().map_or(0, |(_, bytes)| bytes.len() as u64)
    }
}

/// Counts lines over all parts together, each of which begins a line.
fn keep_last_lines(parts: &mut Vec<Part>, count: u64) {
    let mut left = usize::try_from(count).unwrap_or(usize::MAX);
    for part in parts.iter_mut().rev() {
        let Part::Bytes((_, offset, bytes)) = part else { continue };
        let begins: Vec<usize> = std::iter::once(0)
            .chain(
                bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1),
            )
            .filter(|begin| *begin < bytes.len())
            .collect();
        let kept = begins.len().min(left);
        left -= kept;
        let cut = begins.get(begins.len() - kept).copied().unwrap_or(bytes.len());
        bytes.drain(..cut);
        *offset += cut as u64;
    }
    parts.retain(|part| !matches!(part, Part::Bytes((_, _, bytes)) if bytes.is_empty()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(stdout: &str, stderr: &str, count: u64) -> Vec<String> {
        let part = |stream, text: &str| Part::Bytes((stream, 0, text.as_bytes().to_vec()));
        let mut parts = vec![part(LogStream::Stdout, stdout), part(LogStream::Stderr, stderr)];
        keep_last_lines(&mut parts, count);
        let text = |part| match part {
            Part::Bytes((_, _, bytes)) => String::from_utf8(bytes).unwrap(),
            Part::Gap(..) => "gap".to_owned(),
        };
        parts.into_iter().map(text).collect()
    }

    #[test]
    fn the_last_lines_are_those_at_the_end_of_both_streams() {
        assert_eq!(last("a\nb\n", "c\nd", 3), ["b\n", "c\nd"]);
        assert_eq!(last("a\nb\n", "c\nd", 1), ["d"]);
        assert_eq!(last("a\nb\n", "", 9), ["a\nb\n"]);
        assert_eq!(last("a\nb\n", "c\n", 0), Vec::<String>::new());
    }

    fn after(tail: Option<(u64, &str)>, got: u64) -> (String, Option<Range<u64>>, String) {
        let tail = tail.map(|(begin, text)| (begin, text.as_bytes().to_vec()));
        let kept = StoredStream { stream: LogStream::Stdout, head: b"0123".to_vec(), tail };
        let (before, gap, after) = kept.after(got);
        let text = |found: Option<StreamBytes>| {
            found.map_or_else(String::new, |(_, at, bytes)| {
                format!("{at}:{}", String::from_utf8(bytes).unwrap())
            })
        };
        (text(before), gap, text(after))
    }

    #[test]
    fn what_is_missing_is_between_the_beginning_and_the_end() {
        let (none, some) = (String::new, str::to_owned);
        assert_eq!(after(None, 0), (some("0:0123"), None, none()));
        assert_eq!(after(None, 2), (some("2:23"), None, none()));
        assert_eq!(after(Some((8, "89")), 0), (some("0:0123"), Some(4..8), some("8:89")));
        assert_eq!(after(Some((8, "89")), 6), (none(), Some(6..8), some("8:89")));
        assert_eq!(after(Some((8, "89")), 9), (none(), None, some("9:9")));
        assert_eq!(after(Some((8, "89")), 10), (none(), None, none()));
        // The end begins within the beginning, or right after it.
        assert_eq!(after(Some((2, "2345")), 0), (some("0:0123"), None, some("4:45")));
        assert_eq!(after(Some((4, "45")), 0), (some("0:0123"), None, some("4:45")));
    }
}
