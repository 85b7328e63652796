//! The open assignments streams, at most one per node.

use std::collections::HashMap;

use api_types::NodeId;
use failpoint::Fault;
use scheduler::change::{AssignmentChange, Effect};
use tokio::sync::mpsc;

/// An item of an assignments stream: first a snapshot, then changes.
pub enum StreamItem {
    Snapshot(Vec<AssignmentChange>),
    Change(AssignmentChange),
}

#[derive(Default)]
pub(super) struct Streams {
    open: HashMap<NodeId, mpsc::Sender<StreamItem>>,
}

// === impl Streams ===

impl Streams {
    /// Opens a node's stream with its complete desired state, and ends its previous stream.
    pub(super) fn open(
        &mut self,
        node: NodeId,
        stream: mpsc::Sender<StreamItem>,
        snapshot: Vec<AssignmentChange>,
    ) {
        // The channel is new and empty, so this fails only if the agent has already disconnected.
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
                // Nothing is lost without a stream: the next one opens with the complete state.
                let Some(stream) = self.open.get(&node) else { return };
                match failpoint::reach_blocking("assign") {
                    None => {}
                    Some(Fault::Error) => return drop(self.open.remove(&node)),
                    // A failure of the first send shows again with the second one.
                    Some(Fault::Twice) => drop(stream.try_send(StreamItem::Change(change.clone()))),
                }
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

#[cfg(test)]
mod tests {
    use api_types::ExecutionId;
    use api_types::execution::{ComputeState, DesiredState};
    use uuid::Uuid;

    use super::super::WAITING_ASSIGNMENTS;
    use super::*;

    fn node(number: u128) -> NodeId {
        NodeId::from_uuid(Uuid::from_u128(number))
    }

    fn change() -> AssignmentChange {
        AssignmentChange {
            execution: ExecutionId::from_uuid(Uuid::nil()),
            desired: DesiredState::Running,
            compute: ComputeState::AskForBid,
            message: "runs".into(),
            work: None,
        }
    }

    /// The slow agent reopens its stream, which starts with the complete state; the others are
    /// unaffected.
    #[tokio::test]
    async fn an_agent_that_reads_too_slowly_has_its_stream_closed_and_no_other() {
        let mut streams = Streams::default();
        let (slow, mut slow_items) = mpsc::channel(WAITING_ASSIGNMENTS);
        let (prompt, mut prompt_items) = mpsc::channel(WAITING_ASSIGNMENTS);
        streams.open(node(1), slow, Vec::new());
        streams.open(node(2), prompt, Vec::new());
        assert!(matches!(prompt_items.recv().await, Some(StreamItem::Snapshot(_))));
        for _ in 0..WAITING_ASSIGNMENTS + 10 {
            for node in [node(1), node(2)] {
                streams.send(Effect::Assign { node, change: change() });
            }
            assert!(matches!(prompt_items.recv().await, Some(StreamItem::Change(_))));
        }
        let mut waited = 0;
        while slow_items.recv().await.is_some() {
            waited += 1;
        }
        assert_eq!(waited, WAITING_ASSIGNMENTS, "then it ends");
        assert_eq!(streams.open.len(), 1);

        let (again, mut items) = mpsc::channel(WAITING_ASSIGNMENTS);
        streams.open(node(1), again, vec![change()]);
        let Some(StreamItem::Snapshot(snapshot)) = items.recv().await else { panic!("a snapshot") };
        assert_eq!(snapshot, [change()]);
    }
}
