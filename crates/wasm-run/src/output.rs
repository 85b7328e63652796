//! The file format of a program's output: one file for both streams, which keeps their order.
//!
//! The file is a sequence of records: the stream (1 byte: 0 for stdout, 1 for stderr), the time
//! (nanoseconds since 1970, 8 bytes), the number of bytes (4, both little-endian), the bytes. It
//! grows while the program runs and can be read at the same time; readers ignore an incomplete
//! record.
//!
//! Rejected: a file per stream, because it would lose the order between the streams.

/// The file's name in the run directory.
pub const FILE: &str = "output";

/// The stream, the time and the number of bytes.
pub const HEADER_BYTES: usize = 13;

/// The maximum payload of one record.
pub const MAX_PIECE_BYTES: usize = 64 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

/// What precedes the bytes of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub stream: Stream,
    /// Nanoseconds since 1970.
    pub time: i64,
    pub length: u32,
}

// === impl Header ===

impl Header {
    pub fn encode(self) -> [u8; HEADER_BYTES] {
        let stream = match self.stream {
            Stream::Stdout => 0,
            Stream::Stderr => 1,
        };
        let [t0, t1, t2, t3, t4, t5, t6, t7] = self.time.to_le_bytes();
        let [l0, l1, l2, l3] = self.length.to_le_bytes();
        [stream, t0, t1, t2, t3, t4, t5, t6, t7, l0, l1, l2, l3]
    }

    pub fn decode(bytes: [u8; HEADER_BYTES]) -> Self {
        let [stream, time @ .., l0, l1, l2, l3] = bytes;
        let stream = if stream == 0 { Stream::Stdout } else { Stream::Stderr };
        let length = u32::from_le_bytes([l0, l1, l2, l3]);
        Self { stream, time: i64::from_le_bytes(time), length }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let header = Header { stream: Stream::Stderr, time: -7, length: 70_000 };
        assert_eq!(Header::decode(header.encode()), header);
        let nine = [0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];
        assert_eq!(Header { stream: Stream::Stdout, time: 9, length: 1 }.encode(), nine);
    }
}
