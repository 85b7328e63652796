//! The output of a job's tasks, live or afterwards, between readers and the nodes that hold it.
//!
//! Output is produced on demand: the chain from the reader to the nodes holds a few pieces per
//! execution, however slow the reader and however long the output.

mod archive;
mod merge;
mod record;
mod relay;
mod render;
mod source;
mod usage;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::reads::Reader;
use crate::view::View;
pub(crate) use archive::{Archive, NoArchive};
use merge::Merge;
pub(crate) use merge::{Resumed, Which};
pub(crate) use relay::{Attachment, Relay};
use render::Render;
pub(crate) use render::{BrokenOff, Form};
pub(crate) use source::LogOptions;
pub(crate) use usage::OfNode;

/// What reading output requires.
pub(crate) struct Access {
    reader: Reader,
    view: Arc<View>,
    pub(crate) relay: Arc<Relay>,
    usage: usage::Answers,
    /// Cancelled when the service stops: reading breaks off.
    stopping: CancellationToken,
}

/// The output for one reader, produced as it is read.
pub(crate) struct Reading {
    merge: Merge,
    render: Render,
}

// === impl Access ===

impl Access {
    pub(crate) fn new(reader: Reader, view: Arc<View>, stopping: CancellationToken) -> Self {
        let (relay, usage) = (Arc::default(), usage::Answers::default());
        Self { reader, view, relay, usage, stopping }
    }

    pub(crate) fn read(
        self: &Arc<Self>,
        which: Which,
        options: LogOptions,
        resumed: Resumed,
        form: Form,
    ) -> Reading {
        let merge = Merge::new(self, which, options, resumed);
        Reading { merge, render: Render::new(form) }
    }
}

// === impl Reading ===

impl Reading {
    /// The next piece, or `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Result<Vec<u8>, BrokenOff>> {
        loop {
            match self.render.push(self.merge.next().await?) {
                Ok(bytes) if bytes.is_empty() => {}
                bytes => return Some(bytes),
            }
        }
    }
}
