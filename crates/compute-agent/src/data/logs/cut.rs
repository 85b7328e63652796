//! The start position of a reader: after a number of bytes, or at one of the last lines.

use api_types::log::{LogPosition, LogStream};
use bytes::Bytes;

use crate::runtime::OutputChunk;

/// Counts the lines of both streams together, by their first bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Lines {
    pub(super) begun: u64,
    /// Whether the last byte of each stream was inside a line.
    stdout_open: bool,
    stderr_open: bool,
}

/// Passes on the output after the start position.
#[derive(Debug)]
pub(super) enum Cut {
    /// Bytes of each stream still to skip.
    Bytes(LogPosition),
    /// Lines still to skip, and the bytes skipped so far.
    Lines {
        left: u64,
        seen: Lines,
        position: LogPosition,
    },
    Passed,
}

// === impl Lines ===

impl Lines {
    pub(super) fn count(&mut self, chunk: &OutputChunk) {
        self.count_until(chunk, u64::MAX);
    }

    /// Counts up to the start of one line beyond `limit`; returns the number of bytes before it.
    pub(super) fn count_until(&mut self, chunk: &OutputChunk, limit: u64) -> usize {
        let open = match chunk.stream {
            LogStream::Stdout => &mut self.stdout_open,
            LogStream::Stderr => &mut self.stderr_open,
        };
        for (at, byte) in chunk.bytes.iter().enumerate() {
            if !*open {
                if self.begun == limit {
                    return at;
                }
                self.begun += 1;
            }
            *open = *byte != b'\n';
        }
        chunk.bytes.len()
    }
}

// === impl Cut ===

impl Cut {
    pub(super) fn after_bytes(position: LogPosition) -> Self {
        if position == LogPosition::default() { Self::Passed } else { Self::Bytes(position) }
    }

    /// For output that begins at one position, of which a reader wants what is after another.
    pub(super) fn between(first: LogPosition, position: LogPosition) -> Self {
        Self::after_bytes(LogPosition {
            stdout: position.stdout.saturating_sub(first.stdout),
            stderr: position.stderr.saturating_sub(first.stderr),
        })
    }

    pub(super) fn after_lines(lines: u64) -> Self {
        Self::Lines { left: lines, seen: Lines::default(), position: LogPosition::default() }
    }

    /// Passes on everything from here; returns the position.
    pub(super) fn open(&mut self) -> LogPosition {
        match std::mem::replace(self, Self::Passed) {
            Self::Lines { position, .. } => position,
            Self::Bytes(_) | Self::Passed => LogPosition::default(),
        }
    }

    /// Whether everything to skip was skipped, up to the end of its last line.
    pub(super) fn is_reached(&self) -> bool {
        match self {
            Self::Lines { left, seen, .. } => {
                seen.begun >= *left && !seen.stdout_open && !seen.stderr_open
            }
            Self::Bytes(left) => *left == LogPosition::default(),
            Self::Passed => true,
        }
    }

    /// The part of the chunk after the start position.
    pub(super) fn pass(&mut self, chunk: OutputChunk) -> Option<OutputChunk> {
        let skip = match self {
            Self::Passed => 0,
            Self::Bytes(left) => {
                let left = left.offset_mut(chunk.stream);
                let skip = usize::try_from(*left).unwrap_or(usize::MAX).min(chunk.bytes.len());
                *left -= skip as u64;
                skip
            }
            Self::Lines { left, seen, position } => {
                let skip = seen.count_until(&chunk, *left);
                *position.offset_mut(chunk.stream) += skip as u64;
                skip
            }
        };
        let OutputChunk { stream, time, mut bytes } = chunk;
        let bytes: Bytes = bytes.split_off(skip);
        (!bytes.is_empty()).then_some(OutputChunk { stream, time, bytes })
    }
}

/// What a reader gets that counts all lines, and then skips those that it does not want.
#[cfg(test)]
pub(super) fn tail(printed: &[OutputChunk], count: u64) -> (Vec<OutputChunk>, LogPosition) {
    let mut lines = Lines::default();
    printed.iter().for_each(|chunk| lines.count(chunk));
    let mut cut = Cut::after_lines(lines.begun.saturating_sub(count));
    let mut rest = Vec::new();
    let mut begin = cut.is_reached().then(|| cut.open());
    for chunk in printed {
        let passed = cut.pass(chunk.clone());
        if begin.is_none() && (passed.is_some() || cut.is_reached()) {
            begin = Some(cut.open());
        }
        rest.extend(passed);
    }
    (rest, begin.unwrap_or_else(|| cut.open()))
}

#[cfg(test)]
mod tests {
    use api_types::Timestamp;

    use super::*;

    fn chunk(stream: LogStream, text: &'static str) -> OutputChunk {
        OutputChunk { stream, time: Timestamp(1), bytes: Bytes::from_static(text.as_bytes()) }
    }

    const OUT: LogStream = LogStream::Stdout;
    const ERR: LogStream = LogStream::Stderr;

    fn texts((rest, position): (Vec<OutputChunk>, LogPosition)) -> (String, LogPosition) {
        let bytes: Vec<u8> = rest.into_iter().flat_map(|chunk| chunk.bytes).collect();
        (String::from_utf8(bytes).unwrap(), position)
    }

    #[test]
    fn the_last_lines_are_those_of_both_streams_together() {
        let printed = [chunk(OUT, "a\n"), chunk(ERR, "b\n"), chunk(OUT, "c\nd\n"), chunk(OUT, "e")];
        assert_eq!(
            texts(tail(&printed, 1)),
            ("e".to_owned(), LogPosition { stdout: 6, stderr: 2 })
        );
        assert_eq!(
            texts(tail(&printed, 2)),
            ("d\ne".to_owned(), LogPosition { stdout: 4, stderr: 2 })
        );
        assert_eq!(texts(tail(&printed, 4)).0, "b\nc\nd\ne");
        assert_eq!(texts(tail(&printed, 9)).0, "a\nb\nc\nd\ne");
        assert_eq!(texts(tail(&printed, 0)).0, "");
        assert_eq!(texts(tail(&[], 3)), (String::new(), LogPosition::default()));
    }

    #[test]
    fn a_line_in_several_pieces_is_one_line() {
        let printed = [chunk(OUT, "a"), chunk(OUT, "b"), chunk(OUT, "c\n"), chunk(OUT, "d\n")];
        assert_eq!(texts(tail(&printed, 2)).0, "abc\nd\n");
        assert_eq!(texts(tail(&printed, 1)).0, "d\n");
    }

    #[test]
    fn bytes_are_skipped_per_stream() {
        let mut cut = Cut::after_bytes(LogPosition { stdout: 3, stderr: 1 });
        let mut passed = Vec::new();
        for chunk in [chunk(OUT, "ab"), chunk(ERR, "x"), chunk(OUT, "cd"), chunk(ERR, "y")] {
            passed.extend(cut.pass(chunk).map(|chunk| chunk.bytes));
        }
        assert_eq!(passed, ["d", "y"]);
    }
}
