//! Lines of a body that stays open: bytes in, one line, or one value per line, out.

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt};
use serde::de::DeserializeOwned;

use crate::client::Place;
use crate::error::ClientError;

/// The longest line; beyond it the stream fails. One assignment carries a whole task, and the
/// service takes bodies of up to 10 MB, whose inline inputs may grow when JSON escapes them.
pub const MAX_LINE_BYTES: usize = 24 << 20;

/// What is left of the body, and what came of the line that is not yet complete.
pub(crate) struct Lines<S> {
    body: S,
    buffer: BytesMut,
    /// So much of the buffer holds no line end; a long line is not searched over and over.
    searched: usize,
    place: Place,
}

/// The lines of `body`. Ends with the body; after an error nothing more comes.
pub(crate) fn values<T, S>(
    body: S,
    place: Place,
) -> impl Stream<Item = Result<T, ClientError>> + Send + Unpin
where
    T: DeserializeOwned,
    S: Stream<Item = reqwest::Result<Bytes>> + Send + Unpin,
{
    let lines = Lines::new(body, place);
    Box::pin(futures_util::stream::unfold(Some(lines), |lines| async move {
        let mut lines = lines?;
        match lines.next().await {
            Ok(Some(value)) => Some((Ok(value), Some(lines))),
            Ok(None) => None,
            Err(error) => Some((Err(error), None)),
        }
    }))
}

impl<S: Stream<Item = reqwest::Result<Bytes>> + Unpin> Lines<S> {
    pub(crate) fn new(body: S, place: Place) -> Self {
        Self { body, buffer: BytesMut::new(), searched: 0, place }
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, ClientError> {
        while let Some(line) = self.next_line().await? {
            if !line.trim_ascii().is_empty() {
                return self.parse(&line).map(Some);
            }
        }
        Ok(None)
    }

    /// The next line with its end; none after the last.
    pub(crate) async fn next_line(&mut self) -> Result<Option<BytesMut>, ClientError> {
        loop {
            if let Some(line) = self.take_line() {
                return Ok(Some(line));
            }
            if self.buffer.len() > MAX_LINE_BYTES {
                let reason = format!("a line is longer than {MAX_LINE_BYTES} bytes");
                return Err(self.place.protocol(reason));
            }
            match self.body.next().await {
                Some(chunk) => self
                    .buffer
                    .extend_from_slice(&chunk.map_err(|error| self.place.unreachable(&error))?),
                // A line that was cut off says nothing that can be relied upon.
                None => return Ok(None),
            }
        }
    }

    fn take_line(&mut self) -> Option<BytesMut> {
        match self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
            Some(offset) => {
                let line = self.buffer.split_to(self.searched + offset + 1);
                self.searched = 0;
                Some(line)
            }
            None => {
                self.searched = self.buffer.len();
                None
            }
        }
    }

    pub(crate) fn parse<T: DeserializeOwned>(&self, line: &[u8]) -> Result<T, ClientError> {
        serde_json::from_slice(line)
            .map_err(|error| self.place.protocol(format!("a line: {error}")))
    }
}
