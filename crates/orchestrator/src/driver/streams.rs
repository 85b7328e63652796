//! The open assignments streams, one per node at most.

use std::collections::HashMap;

use api_types::NodeId;
use tokio::sync::mpsc;

use super::StreamItem;
use crate::engine::change::{AssignmentChange, Effect};

#[derive(Default)]
pub(super) struct Streams {
    open: HashMap<NodeId, mpsc::Sender<StreamItem>>,
}

// === impl Streams ===

impl Streams {
    /// Opens the stream of a node with its whole desired state; one that was open ends.
    pub(super) fn open(
        &mut self,
        node: NodeId,
        stream: mpsc::Sender<StreamItem>,
        snapshot: Vec<AssignmentChange>,
    ) {
        // The channel is new and empty, so this fails only when the agent has hung up already.
        if stream.try_send(StreamItem::Snapshot(snapshot)).is_ok() {
            self.open.insert(node, stream);
        }
    }

    pub(super) fn send(&mut self, effect: Effect) {
        match effect {
            Effect::CloseStream { node } => {
                self.open.remove(&node);
            }
            Effect::Assign { node, change } => {
                // Without a stream nothing is lost: the next one opens with the whole state.
                let Some(stream) = self.open.get(&node) else { return };
                if let Err(error) = stream.try_send(StreamItem::Change(change)) {
                    if matches!(error, mpsc::error::TrySendError::Full(_)) {
                        tracing::warn!(%node, "the agent reads too slowly; its stream is closed");
                    }
                    self.open.remove(&node);
                }
            }
        }
    }

    pub(super) fn close_all(&mut self) {
        self.open.clear();
    }
}
