//! What leaves a process.

use control_plane::batch::NumberedCommit;

use crate::network::{Answer, Caller, StreamLine};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Stream {
    pub(crate) agent: usize,
    pub(crate) process: u64,
    pub(crate) connection: u64,
}

/// What leaves the process.
#[derive(Debug)]
pub(crate) enum Outgoing {
    Answer(Caller, Answer),
    Line(Stream, StreamLine),
    /// A commit without an answer, which reaches the disk later.
    Late(NumberedCommit),
}

// === impl Outgoing ===

impl Outgoing {
    /// The caller gets no answer.
    pub(super) fn lost(caller: Caller) -> Self {
        Self::Answer(caller, Answer::Lost)
    }
}
