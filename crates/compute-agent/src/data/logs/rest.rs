//! What an engine's output has after the part that is stored, when it is read again.
//!
//! The chunks of an engine whose times stay what they were are read from the time of the last one
//! that is stored: the engine may have dropped older ones, and need not send them again. Otherwise
//! bytes are counted from the start, also where the clock was set back while the task ran.

use api_types::Timestamp;
use api_types::log::LogStream;

use super::cut::Cut;
use super::kept::{Last, Stored};
use crate::runtime::OutputChunk;

/// Passes on what is not stored yet.
#[derive(Debug)]
pub(crate) struct Rest(Way);

#[derive(Debug)]
enum Way {
    Bytes(Cut),
    /// For stdout and stderr.
    Times([Behind; 2]),
}

/// Where a stream is, relative to what is stored of it.
#[derive(Debug, Clone, Copy)]
enum Behind {
    /// Before the last stored chunk, or in it: bytes of it that were seen.
    Within {
        last: Last,
        seen_bytes: u64,
    },
    Past,
}

// === impl Rest ===

impl Rest {
    /// `has_stable_times` tells whether a chunk has the same time whenever it is read.
    pub(crate) fn after(stored: &Stored, has_stable_times: bool) -> Self {
        if !has_stable_times || !stored.is_in_order || stored.records == 0 {
            return Self(Way::Bytes(Cut::after_bytes(stored.position)));
        }
        let behind = |last: Option<Last>| match last {
            Some(last) => Behind::Within { last, seen_bytes: 0 },
            None => Behind::Past,
        };
        Self(Way::Times(stored.last.map(behind)))
    }

    /// The earliest time that must be read again.
    pub(crate) fn since(&self) -> Option<Timestamp> {
        let Way::Times(streams) = &self.0 else { return None };
        let time = |behind: &Behind| match behind {
            Behind::Within { last, .. } => Some(last.time),
            Behind::Past => None,
        };
        streams.iter().filter_map(time).min()
    }

    /// The part of the chunk that is not stored, and whether output before it is missing.
    pub(crate) fn pass(&mut self, chunk: OutputChunk) -> (Option<OutputChunk>, bool) {
        match &mut self.0 {
            Way::Bytes(cut) => (cut.pass(chunk), false),
            Way::Times(streams) => {
                streams[usize::from(chunk.stream == LogStream::Stderr)].pass(chunk)
            }
        }
    }
}

// === impl Behind ===

impl Behind {
    fn pass(&mut self, mut chunk: OutputChunk) -> (Option<OutputChunk>, bool) {
        let Self::Within { last, seen_bytes } = self else { return (Some(chunk), false) };
        if chunk.time < last.time {
            return (None, false);
        }
        if chunk.time > last.time {
            let is_missing = *seen_bytes == 0;
            *self = Self::Past;
            return (Some(chunk), is_missing);
        }
        let left = last.bytes.saturating_sub(*seen_bytes);
        let skip = usize::try_from(left).unwrap_or(usize::MAX).min(chunk.bytes.len());
        *seen_bytes += chunk.bytes.len() as u64;
        let bytes = chunk.bytes.split_off(skip);
        ((!bytes.is_empty()).then_some(OutputChunk { bytes, ..chunk }), false)
    }
}

#[cfg(test)]
mod tests {
    use api_types::log::LogPosition;
    use bytes::Bytes;

    use super::*;

    fn chunk(stream: LogStream, time: i64, text: &'static str) -> OutputChunk {
        OutputChunk { stream, time: Timestamp(time), bytes: Bytes::from_static(text.as_bytes()) }
    }

    /// What is passed on of the printed chunks, and whether something is missing.
    fn rest(rest: &mut Rest, printed: &[OutputChunk]) -> (String, bool) {
        let (mut text, mut is_missing) = (String::new(), false);
        for chunk in printed {
            let (passed, missing) = rest.pass(chunk.clone());
            is_missing |= missing;
            text.extend(passed.map(|chunk| String::from_utf8(chunk.bytes.to_vec()).unwrap()));
        }
        (text, is_missing)
    }

    fn last(time: i64, bytes: u64) -> Option<Last> {
        Some(Last { time: Timestamp(time), bytes })
    }

    #[test]
    fn bytes_are_counted_where_times_tell_nothing() {
        let stored = Stored {
            records: 2,
            position: LogPosition { stdout: 3, stderr: 1 },
            last: [last(9, 3), last(3, 1)],
            is_in_order: true,
        };
        let set_back = Stored { is_in_order: false, ..stored };
        for (stored, has_stable_times) in [(stored, false), (set_back, true)] {
            let mut after = Rest::after(&stored, has_stable_times);
            assert_eq!(after.since(), None);
            let printed = [
                chunk(LogStream::Stdout, 9, "abc"),
                chunk(LogStream::Stderr, 8, "xy"),
                chunk(LogStream::Stdout, 5, "def"),
            ];
            assert_eq!(rest(&mut after, &printed), ("ydef".to_owned(), false));
        }
        assert_eq!(Rest::after(&Stored::default(), true).since(), None);
    }

    #[test]
    fn times_tell_what_is_stored() {
        let position = LogPosition { stdout: 90, stderr: 5 };
        let last = [last(7, 4), last(6, 1)];
        let stored = Stored { records: 9, position, last, is_in_order: true };
        let mut after = Rest::after(&stored, true);
        assert_eq!(after.since(), Some(Timestamp(6)));
        let printed = [
            chunk(LogStream::Stdout, 6, "old"),
            chunk(LogStream::Stderr, 6, "e"),
            chunk(LogStream::Stdout, 7, "abc"),
            chunk(LogStream::Stdout, 7, "def"),
            chunk(LogStream::Stderr, 7, "!"),
            chunk(LogStream::Stdout, 8, "ghi"),
        ];
        assert_eq!(rest(&mut after, &printed), ("ef!ghi".to_owned(), false));
    }

    #[test]
    fn output_that_the_engine_dropped_before_it_was_copied_is_missed() {
        let position = LogPosition { stdout: 100, stderr: 0 };
        let stored = Stored { records: 9, position, last: [last(7, 4), None], is_in_order: true };
        let mut after = Rest::after(&stored, true);
        let printed = [chunk(LogStream::Stdout, 9, "later"), chunk(LogStream::Stdout, 10, "!")];
        assert_eq!(rest(&mut after, &printed), ("later!".to_owned(), true));
    }
}
