//! The output of a job's tasks, live or afterwards, between readers and the nodes that hold it.
//!
//! Output is produced on demand: the chain from the reader to the nodes holds a few pieces per
//! execution, however slow the reader and however long the output.

mod archive;
mod by_time;
mod item;
mod merge;
mod record;
mod relay;
mod render;
mod service;
mod source;
mod usage;

use std::sync::Arc;

pub(crate) use archive::{Archive, NoArchive};
pub(crate) use item::{LogOptions, LogOrder};
use merge::Merge;
pub(crate) use merge::{Resumed, Which};
pub(crate) use relay::Attachment;
use render::Render;
pub(crate) use render::{BrokenOff, Form};
pub(crate) use service::LogService;
pub(crate) use usage::{OfNode, Used};

/// Output that is here already goes out together, up to about this length.
const PIECE_BYTES: usize = 16 << 10;

/// The output for one reader, produced as it is read.
pub(crate) struct Reading {
    merge: Merge,
    render: Render,
}

// === impl LogService ===

impl LogService {
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
        let mut out = Vec::new();
        while out.is_empty() {
            if let Err(broken) = self.render.push(self.merge.next().await?, &mut out) {
                return Some(Err(broken));
            }
            while out.len() < PIECE_BYTES
                && let Some(event) = self.merge.next_ready()
            {
                if let Err(broken) = self.render.push(event, &mut out) {
                    return Some(Err(broken));
                }
            }
        }
        Some(Ok(out))
    }
}
