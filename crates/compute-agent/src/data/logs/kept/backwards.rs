//! Walks backwards over stored output, from its end to the start of a reader.
//!
//! What is before the start is not read: the end of a log costs as much as the lines that are
//! wanted, however long the log is. The lengths of the files give the position, since the output
//! counts as stored only when all of them are complete; of output that is still being written, the
//! writer says how much is stored.
//!
//! A table of lines next to the output would find any line as fast, but the output would have to be
//! written with it, and that of older releases has none.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use api_types::log::{LogPosition, LogStream};

use super::record::{RECORD_BYTES, Record, missing};
use super::writer::Stored;

/// Bytes of each read.
const BLOCK_BYTES: u64 = 64 << 10;

/// Records of each read.
const BLOCK_RECORDS: u64 = BLOCK_BYTES / RECORD_BYTES as u64;

/// Where a reader starts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Start {
    /// At the last record before which nothing is wanted that is after this position.
    Before(LogPosition),
    /// At this many lines before the end.
    LastLines(u64),
}

/// The files of stored output.
pub(super) struct Files {
    pub(super) index: File,
    pub(super) stdout: Option<File>,
    pub(super) stderr: Option<File>,
    /// How much of them, where they are still being written.
    pub(super) stored: Option<Stored>,
}

/// A point between two bytes of the output.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    /// The number of the next whole record.
    pub(super) record: u64,
    /// What comes first: the rest of the record before it.
    pub(super) rest: Option<Record>,
    /// Bytes of each stream before it.
    pub(super) position: LogPosition,
}

/// A cursor that moves back.
struct Backwards<'f> {
    index: &'f File,
    stdout: Option<Block<'f>>,
    stderr: Option<Block<'f>>,
    /// Records that were read and not passed yet, the next one last.
    records: Vec<Record>,
    cursor: Cursor,
}

/// A part of a stream.
struct Block<'f> {
    file: &'f File,
    start: u64,
    bytes: Vec<u8>,
}

// === impl Files ===

impl Files {
    /// Of one stream, if only that is wanted.
    pub(super) fn find(&self, start: Start, only: Option<LogStream>) -> io::Result<Cursor> {
        let is_wanted = |stream| only.is_none_or(|only| only == stream);
        let backwards = Backwards::new(self)?;
        match start {
            Start::Before(position) if position == LogPosition::default() => Ok(Cursor::default()),
            Start::Before(position) => backwards.before(position, is_wanted),
            Start::LastLines(count) => backwards.last_lines(count, is_wanted),
        }
    }
}

// === impl Backwards ===

impl<'f> Backwards<'f> {
    /// Begins at the end of the output.
    fn new(Files { index, stdout, stderr, stored }: &'f Files) -> io::Result<Self> {
        let length = |file: &Option<File>| match file {
            Some(file) => Ok::<_, io::Error>(file.metadata()?.len()),
            None => Ok(0),
        };
        let (record, position) = match stored {
            Some(stored) => (stored.records, stored.position),
            None => (
                index.metadata()?.len() / RECORD_BYTES as u64,
                LogPosition { stdout: length(stdout)?, stderr: length(stderr)? },
            ),
        };
        let block = |file| Block { file, start: 0, bytes: Vec::new() };
        Ok(Self {
            index,
            stdout: stdout.as_ref().map(block),
            stderr: stderr.as_ref().map(block),
            records: Vec::new(),
            cursor: Cursor { record, rest: None, position },
        })
    }

    fn before(
        mut self,
        position: LogPosition,
        is_wanted: impl Fn(LogStream) -> bool,
    ) -> io::Result<Cursor> {
        let is_after = |cursor: &Cursor, stream| {
            is_wanted(stream) && cursor.position.offset(stream) > position.offset(stream)
        };
        while is_after(&self.cursor, LogStream::Stdout) || is_after(&self.cursor, LogStream::Stderr)
        {
            if self.previous()?.is_none() {
                break;
            }
        }
        Ok(self.cursor)
    }

    fn last_lines(
        mut self,
        count: u64,
        is_wanted: impl Fn(LogStream) -> bool,
    ) -> io::Result<Cursor> {
        let mut left = count;
        while left > 0
            && let Some(record) = self.previous()?
        {
            let Record { bytes, stream, .. } = record;
            if !is_wanted(stream) {
                continue;
            }
            let begin = self.cursor.position.offset(stream);
            let block = match stream {
                LogStream::Stdout => &mut self.stdout,
                LogStream::Stderr => &mut self.stderr,
            };
            let block = block.as_mut().ok_or_else(missing)?;
            for skipped in (0..bytes).rev() {
                let at = begin + skipped as u64;
                left -= u64::from(block.begins_line(at)?);
                if left > 0 {
                    continue;
                }
                if skipped > 0 {
                    self.cursor.record += 1;
                    self.cursor.rest = Some(Record { bytes: bytes - skipped, ..record });
                }
                *self.cursor.position.offset_mut(stream) = at;
                break;
            }
        }
        Ok(self.cursor)
    }

    /// Moves before the previous record; none at the beginning.
    fn previous(&mut self) -> io::Result<Option<Record>> {
        if self.records.is_empty() {
            let count = BLOCK_RECORDS.min(self.cursor.record);
            let mut bytes = vec![0; usize::try_from(count).unwrap_or(0) * RECORD_BYTES];
            let start = (self.cursor.record - count) * RECORD_BYTES as u64;
            self.index.read_exact_at(&mut bytes, start)?;
            let (records, _) = bytes.as_chunks::<RECORD_BYTES>();
            self.records = records.iter().map(Record::decode).collect::<io::Result<_>>()?;
        }
        let Some(record) = self.records.pop() else { return Ok(None) };
        let position = self.cursor.position.offset_mut(record.stream);
        *position = position.checked_sub(record.bytes as u64).ok_or_else(missing)?;
        self.cursor.record -= 1;
        Ok(Some(record))
    }
}

// === impl Block ===

impl Block<'_> {
    fn begins_line(&mut self, at: u64) -> io::Result<bool> {
        Ok(at == 0 || self.byte(at - 1)? == b'\n')
    }

    /// Bytes are asked for from the last to the first.
    fn byte(&mut self, at: u64) -> io::Result<u8> {
        let of_block = |block: &Self| {
            let at = usize::try_from(at.checked_sub(block.start)?).ok()?;
            block.bytes.get(at).copied()
        };
        if let Some(byte) = of_block(self) {
            return Ok(byte);
        }
        self.start = (at + 1).saturating_sub(BLOCK_BYTES);
        self.bytes.resize(usize::try_from(at + 1 - self.start).unwrap_or(0), 0);
        self.file.read_exact_at(&mut self.bytes, self.start)?;
        of_block(self).ok_or_else(missing)
    }
}
