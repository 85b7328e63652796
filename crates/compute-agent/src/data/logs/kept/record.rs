//! A record of the index: one chunk of output.

use std::fs::File;
use std::io;
use std::path::Path;

use api_types::Timestamp;
use api_types::log::LogStream;

/// The time (8 bytes), the length (4), the stream (1); little-endian.
pub(super) const RECORD_BYTES: usize = 13;

pub(super) const STDOUT: u8 = 1;
pub(super) const STDERR: u8 = 2;

#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    pub(super) time: Timestamp,
    pub(super) bytes: usize,
    pub(super) stream: LogStream,
}

// === impl Record ===

impl Record {
    pub(super) fn decode(record: &[u8; RECORD_BYTES]) -> io::Result<Self> {
        let [time @ .., a, b, c, d, stream] = *record;
        let bytes = u32::from_le_bytes([a, b, c, d]) as usize;
        let stream = match stream {
            STDOUT => LogStream::Stdout,
            STDERR => LogStream::Stderr,
            other => {
                let reason = format!("the index of kept output names stream {other}");
                return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
            }
        };
        Ok(Self { time: Timestamp(i64::from_le_bytes(time)), bytes, stream })
    }
}

pub(super) fn missing() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "a stream of kept output")
}

pub(super) fn existing(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
