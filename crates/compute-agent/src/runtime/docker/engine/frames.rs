//! Streams of the Engine, cut into pieces of bounded size.

use std::marker::PhantomData;

use bollard::container::LogOutput;
use bollard::errors::Error;
use bytes::{Buf, Bytes, BytesMut};
use futures_util::stream::{Stream, TryStreamExt};
use serde::de::DeserializeOwned;
use tokio_util::codec::{Decoder, FramedRead};
use tokio_util::io::StreamReader;

use super::answer::{Answer, MAX_ANSWER_BYTES, malformed, too_long};

/// Bytes of one piece of output. The Engine stores up to 16 KiB in one, and passes on up to 32 KiB
/// of an attached container.
const MAX_OUTPUT_BYTES: usize = 1 << 20;

/// Bytes of one line about the progress of a pull. It may repeat what a registry says.
const MAX_LINE_BYTES: usize = 1 << 20;

/// A kind of piece, as the first byte of its header says, and the header's length.
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const SYSTEM_ERROR: u8 = 3;
const HEADER_BYTES: usize = 8;

/// Output of containers without a terminal: a header with the kind and the length before each piece.
#[derive(Debug, Default)]
pub(super) struct OutputPieces;

/// JSON values, one in each line.
#[derive(Debug)]
pub(super) struct JsonLines<T> {
    /// Bytes without a line end.
    scanned: usize,
    value: PhantomData<fn() -> T>,
}

/// The objects in a JSON array, so that a long list takes no more memory than what is kept of each.
#[derive(Debug)]
pub(super) struct Elements<T> {
    scanned: usize,
    depth: usize,
    begin: usize,
    text: Text,
    has_ended: bool,
    value: PhantomData<fn() -> T>,
}

/// Where in a JSON text a byte is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Text {
    Outside,
    Inside,
    /// After a backslash.
    Escaped,
}

// === impl Answer ===

impl Answer {
    pub(super) fn cut<D>(self, decoder: D) -> impl Stream<Item = Result<D::Item, Error>> + Send
    where
        D: Decoder<Error = Error> + Send + 'static,
        D::Item: Send,
    {
        let pieces = self.pieces().map_err(std::io::Error::other);
        FramedRead::new(StreamReader::new(Box::pin(pieces)), decoder)
    }
}

impl Decoder for OutputPieces {
    type Item = LogOutput;
    type Error = Error;

    fn decode(&mut self, source: &mut BytesMut) -> Result<Option<LogOutput>, Error> {
        let Some(header) = source.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let [kind, _, _, _, length @ ..] = *header;
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > MAX_OUTPUT_BYTES {
            return Err(too_long("a piece of output", MAX_OUTPUT_BYTES));
        }
        if source.len() < HEADER_BYTES + length {
            source.reserve(HEADER_BYTES + length - source.len());
            return Ok(None);
        }
        let mut message = source.split_to(HEADER_BYTES + length).freeze();
        if kind != SYSTEM_ERROR {
            message.advance(HEADER_BYTES);
        }
        Ok(Some(match kind {
            STDIN => LogOutput::StdIn { message },
            STDOUT => LogOutput::StdOut { message },
            STDERR => LogOutput::StdErr { message },
            // With its header.
            SYSTEM_ERROR => LogOutput::Console { message },
            _ => return Err(malformed("a piece of output is of an unknown kind")),
        }))
    }

    /// Less than a piece is left of output that is damaged.
    fn decode_eof(&mut self, source: &mut BytesMut) -> Result<Option<LogOutput>, Error> {
        let piece = self.decode(source)?;
        let rest = || {
            let message: Bytes = source.split().freeze();
            (!message.is_empty()).then_some(LogOutput::Console { message })
        };
        Ok(piece.or_else(rest))
    }
}

// === impl JsonLines ===

impl<T> JsonLines<T> {
    pub(super) fn new() -> Self {
        Self { scanned: 0, value: PhantomData }
    }
}

impl<T: DeserializeOwned> Decoder for JsonLines<T> {
    type Item = T;
    type Error = Error;

    fn decode(&mut self, source: &mut BytesMut) -> Result<Option<T>, Error> {
        while let Some(end) = source[self.scanned..].iter().position(|byte| *byte == b'\n') {
            let line = source.split_to(self.scanned + end + 1);
            self.scanned = 0;
            if !line.trim_ascii().is_empty() {
                return Ok(Some(serde_json::from_slice(&line)?));
            }
        }
        self.scanned = source.len();
        match self.scanned > MAX_LINE_BYTES {
            true => Err(too_long("a line of its progress", MAX_LINE_BYTES)),
            false => Ok(None),
        }
    }

    fn decode_eof(&mut self, source: &mut BytesMut) -> Result<Option<T>, Error> {
        if let Some(value) = self.decode(source)? {
            return Ok(Some(value));
        }
        self.scanned = 0;
        let line = source.split();
        match line.trim_ascii().is_empty() {
            true => Ok(None),
            false => Ok(Some(serde_json::from_slice(&line)?)),
        }
    }
}

// === impl Elements ===

impl<T> Elements<T> {
    pub(super) fn new() -> Self {
        Self {
            scanned: 0,
            depth: 0,
            begin: 0,
            text: Text::Outside,
            has_ended: false,
            value: PhantomData,
        }
    }

    /// Whether an element ends with this byte.
    fn take(&mut self, byte: u8) -> Result<bool, Error> {
        match (self.text, byte) {
            (Text::Inside, b'\\') => self.text = Text::Escaped,
            (Text::Inside, b'"') => self.text = Text::Outside,
            (Text::Escaped, _) => self.text = Text::Inside,
            (Text::Inside, _) => {}
            (Text::Outside, b'"') if self.depth > 1 => self.text = Text::Inside,
            (Text::Outside, b'{' | b'[') => {
                if self.depth == 0 && byte == b'{' {
                    return Err(malformed("its list is no list"));
                }
                if self.depth == 1 {
                    self.begin = self.scanned;
                }
                self.depth += 1;
            }
            (Text::Outside, b'}' | b']') => {
                self.depth =
                    self.depth.checked_sub(1).ok_or_else(|| malformed("a stray bracket"))?;
                self.has_ended = self.depth == 0;
                return Ok(self.depth == 1);
            }
            (Text::Outside, b',' | b' ' | b'\n' | b'\r' | b'\t') => {}
            (Text::Outside, _) if self.depth > 1 => {}
            (Text::Outside, _) => return Err(malformed("its list is no list of objects")),
        }
        Ok(false)
    }
}

impl<T: DeserializeOwned> Decoder for Elements<T> {
    type Item = T;
    type Error = Error;

    fn decode(&mut self, source: &mut BytesMut) -> Result<Option<T>, Error> {
        while !self.has_ended && self.scanned < source.len() {
            let is_end = self.take(source[self.scanned])?;
            self.scanned += 1;
            if is_end {
                let element = source.split_to(self.scanned);
                self.scanned = 0;
                return Ok(Some(serde_json::from_slice(&element[self.begin..])?));
            }
        }
        if self.has_ended {
            source.clear();
            self.scanned = 0;
        } else if self.scanned > MAX_ANSWER_BYTES {
            return Err(too_long("an element of its list", MAX_ANSWER_BYTES));
        }
        Ok(None)
    }

    fn decode_eof(&mut self, source: &mut BytesMut) -> Result<Option<T>, Error> {
        match self.decode(source)? {
            Some(value) => Ok(Some(value)),
            None if self.has_ended => Ok(None),
            None => Err(malformed("its list has no end")),
        }
    }
}
