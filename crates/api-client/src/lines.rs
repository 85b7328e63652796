//! Splits an open body into lines, and parses one value per line.

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt};
use serde::de::DeserializeOwned;

use crate::call::ErrorContext;
use crate::error::ClientError;

/// The longest line; the stream fails beyond it. One assignment carries a whole task: the service
/// accepts bodies of up to 10 MB, and JSON escapes may enlarge inline inputs.
pub const MAX_LINE_BYTES: usize = 24 << 20;

/// The rest of the body, and the incomplete line so far.
pub(crate) struct Lines<S> {
    body: S,
    buffer: BytesMut,
    /// Length of the buffer's prefix without a line end, so that a long line is searched once.
    searched: usize,
    context: ErrorContext,
}

/// The values of `body`, one per line. The stream ends with the body or after an error.
pub(crate) fn values<T, S>(
    body: S,
    context: ErrorContext,
) -> impl Stream<Item = Result<T, ClientError>> + Send + Unpin
where
    T: DeserializeOwned,
    S: Stream<Item = reqwest::Result<Bytes>> + Send + Unpin,
{
    let lines = Lines::new(body, context);
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
    pub(crate) fn new(body: S, context: ErrorContext) -> Self {
        Self { body, buffer: BytesMut::new(), searched: 0, context }
    }

    pub(crate) fn context(&self) -> &ErrorContext {
        &self.context
    }

    async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, ClientError> {
        while let Some(line) = self.next_line().await? {
            if !line.trim_ascii().is_empty() {
                return self.parse(&line).map(Some);
            }
        }
        Ok(None)
    }

    /// The next line with its line end; `None` after the last.
    pub(crate) async fn next_line(&mut self) -> Result<Option<BytesMut>, ClientError> {
        loop {
            if let Some(line) = self.take_line() {
                return Ok(Some(line));
            }
            if self.buffer.len() > MAX_LINE_BYTES {
                let reason = format!("a line is longer than {MAX_LINE_BYTES} bytes");
                return Err(self.context.protocol(reason));
            }
            match self.body.next().await {
                Some(chunk) => self
                    .buffer
                    .extend_from_slice(&chunk.map_err(|error| self.context.unreachable(&error))?),
                // An incomplete line is unreliable.
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
            .map_err(|error| self.context.protocol(format!("a line: {error}")))
    }
}
