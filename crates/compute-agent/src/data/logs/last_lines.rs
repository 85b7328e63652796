//! Finds the last lines of output that can only be read from its start.
//!
//! An engine has no position but the start: the lines before the last ones have to be read to know
//! where these begin. So they are kept as they pass, rather than read a second time.

use std::collections::VecDeque;

use api_types::log::LogPosition;

use super::cut::{Cut, Lines};
use crate::runtime::OutputChunk;

/// The most memory for one reader; longer output is read twice.
const MAX_BYTES: usize = 4 << 20;

pub(super) struct LastLines {
    count: u64,
    kept: VecDeque<BufferedChunk>,
    kept_bytes: usize,
    /// Lines that begin in what is kept.
    kept_lines: u64,
    /// Where the first that is kept begins.
    position: LogPosition,
    /// Of everything that has passed.
    lines: Lines,
    is_too_long: bool,
}

struct BufferedChunk {
    chunk: OutputChunk,
    /// Lines that begin in it.
    lines: u64,
    /// What came before it.
    before: Lines,
}

// === impl LastLines ===

impl LastLines {
    pub(super) fn new(count: u64) -> Self {
        Self {
            count,
            kept: VecDeque::new(),
            kept_bytes: 0,
            kept_lines: 0,
            position: LogPosition::default(),
            lines: Lines::default(),
            is_too_long: false,
        }
    }

    pub(super) fn pass(&mut self, chunk: OutputChunk) {
        let before = self.lines;
        self.lines.count(&chunk);
        if self.is_too_long {
            return;
        }
        let lines = self.lines.begun - before.begun;
        self.kept_lines += lines;
        self.kept_bytes += bytes(&chunk);
        self.kept.push_back(BufferedChunk { chunk, lines, before });
        while let Some(first) = self.kept.front()
            && self.kept_lines - first.lines >= self.count
            && let Some(BufferedChunk { chunk, lines, .. }) = self.kept.pop_front()
        {
            self.kept_lines -= lines;
            self.kept_bytes -= bytes(&chunk);
            *self.position.offset_mut(chunk.stream) += chunk.bytes.len() as u64;
        }
        if self.kept_bytes > MAX_BYTES {
            self.is_too_long = true;
            self.kept.clear();
        }
    }

    /// The position and the lines, or what skips the output before them when it is read again.
    pub(super) fn end(mut self) -> Result<(LogPosition, Vec<OutputChunk>), Cut> {
        let skipped = self.lines.begun.saturating_sub(self.count);
        if self.is_too_long {
            return Err(Cut::after_lines(skipped));
        }
        let Some(BufferedChunk { mut chunk, mut before, .. }) = self.kept.pop_front() else {
            return Ok((self.position, Vec::new()));
        };
        let rest = chunk.bytes.split_off(before.count_until(&chunk, skipped));
        *self.position.offset_mut(chunk.stream) += chunk.bytes.len() as u64;
        let first = OutputChunk { bytes: rest, ..chunk };
        let others = self.kept.into_iter().map(|kept| kept.chunk);
        Ok((self.position, std::iter::once(first).chain(others).collect()))
    }
}

fn bytes(chunk: &OutputChunk) -> usize {
    chunk.bytes.len() + size_of::<BufferedChunk>()
}

#[cfg(test)]
mod tests {
    use api_types::Timestamp;
    use api_types::log::LogStream;
    use bytes::Bytes;

    use super::super::cut::tail;
    use super::*;

    fn chunk(stream: LogStream, text: impl Into<Bytes>) -> OutputChunk {
        OutputChunk { stream, time: Timestamp(1), bytes: text.into() }
    }

    fn last(printed: &[OutputChunk], count: u64) -> Result<(LogPosition, Vec<OutputChunk>), Cut> {
        let mut last = LastLines::new(count);
        printed.iter().for_each(|chunk| last.pass(chunk.clone()));
        last.end()
    }

    #[test]
    fn the_last_lines_are_those_that_skipping_the_others_leaves() {
        let (out, err) = (LogStream::Stdout, LogStream::Stderr);
        let printed = [
            chunk(out, "a\nbb"),
            chunk(err, "x"),
            chunk(out, "b\n\n"),
            chunk(err, "y\nz"),
            chunk(out, "c\nd\ne\n"),
            chunk(out, "f"),
        ];
        for count in 0..=10 {
            let (position, lines) = last(&printed, count).unwrap();
            assert_eq!((lines, position), tail(&printed, count), "the last {count}");
        }
        assert_eq!(last(&[], 3).unwrap(), (LogPosition::default(), Vec::new()));
    }

    #[test]
    fn lines_that_are_too_long_to_keep_are_read_again() {
        let line = [vec![b'x'; MAX_BYTES / 3], vec![b'\n']].concat();
        let printed: Vec<_> = (0..5).map(|_| chunk(LogStream::Stdout, line.clone())).collect();
        assert_eq!(last(&printed, 2).unwrap().1, printed[3..]);
        let mut cut = last(&printed, 4).unwrap_err();
        let left: Vec<_> = printed.into_iter().filter_map(|chunk| cut.pass(chunk)).collect();
        assert_eq!(left.len(), 4);
    }
}
