//! What a reader requests of a log, and what it gets.

use api_types::log::LogStream;
use api_types::{ExecutionId, Timestamp};

/// What the reader requests.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LogOptions {
    pub(crate) order: LogOrder,
    pub(crate) follow: bool,
    pub(crate) tail: Option<u64>,
    pub(crate) stream: Option<LogStream>,
}

/// In which order the output of several executions comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum LogOrder {
    /// Past output one execution after the other, further output as it arrives.
    #[default]
    Arrival,
    /// By the times that the nodes gave it.
    Time,
}

/// A piece of output, of any length.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) stream: LogStream,
    pub(super) time: Timestamp,
    /// Bytes of the stream before it.
    pub(super) offset: u64,
    pub(super) bytes: Vec<u8>,
}

/// A message to the reader.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Item {
    Output(Vec<Piece>),
    /// A remark about the output, in words for the user.
    Remark(String),
    /// Output is missing between what came before and what follows.
    Gap(String),
    /// The output is incomplete, and why.
    Missing(String),
}

/// An execution, and the slot that it fills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Label {
    pub(super) id: ExecutionId,
    pub(super) index: u32,
}

/// A message to the reader, and the execution it concerns.
pub(super) enum Event {
    Item(Label, Item),
    /// The execution's output is complete.
    Ended(ExecutionId),
    /// The execution's output broke off.
    Interrupted(&'static str),
}
