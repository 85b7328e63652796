//! Connects readers of output, archives and usage with the nodes that have them.
//!
//! A request goes out on the node's assignments stream, beside the scheduler's decisions. The node
//! answers on a connection of its own, and its frames go to the waiting reader. Nothing is stored
//! here: a few frames of each answer are in flight, and a slow reader delays only its own node's
//! connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api_types::NodeId;
use api_types::log::LogFrame;
use api_types::protocol::AssignmentLine;
use tokio::sync::{mpsc, watch};
use uuid::Uuid;

/// Requests queued for a node's stream; beyond it the node counts as disconnected.
const WAITING_REQUESTS: usize = 1024;

/// Batches of frames between a node's connection and its reader; each batch is one read of the
/// connection, some ten kilobytes.
const BATCHES_AHEAD: usize = 2;

pub(crate) struct Relay {
    links: Mutex<Links>,
    /// Counts the opened streams.
    attached: watch::Sender<u64>,
}

#[derive(Default)]
struct Links {
    /// The nodes whose assignments stream is open.
    nodes: HashMap<NodeId, Link>,
    /// Answers that have not begun.
    awaited: HashMap<Uuid, Awaited>,
}

struct Link {
    /// The stream's number: a newer stream of the node replaces the older one.
    number: u64,
    requests: mpsc::Sender<AssignmentLine>,
}

struct Awaited {
    node: NodeId,
    frames: mpsc::Sender<Vec<LogFrame>>,
}

/// The end of a link that an assignments stream holds.
pub(crate) struct Attachment {
    relay: Arc<Relay>,
    node: NodeId,
    number: u64,
    requests: mpsc::Receiver<AssignmentLine>,
}

/// Frames from a node as they arrive; dropping it makes the node stop.
pub(super) struct Answer {
    relay: Arc<Relay>,
    id: Uuid,
    frames: mpsc::Receiver<Vec<LogFrame>>,
}

// === impl Relay ===

impl Default for Relay {
    fn default() -> Self {
        Self { links: Mutex::default(), attached: watch::Sender::new(0) }
    }
}

impl Relay {
    /// Routes requests for the node to this stream from now on.
    pub(crate) fn attach(self: &Arc<Self>, node: NodeId) -> Attachment {
        let (sender, requests) = mpsc::channel(WAITING_REQUESTS);
        let number = {
            let mut links = self.links();
            // Counted under the lock, so that two streams never share a number.
            self.attached.send_modify(|count| *count += 1);
            let number = *self.attached.borrow();
            links.nodes.insert(node, Link { number, requests: sender });
            number
        };
        Attachment { relay: Arc::clone(self), node, number, requests }
    }

    /// Changes whenever a node has opened its stream.
    pub(super) fn attached(&self) -> watch::Receiver<u64> {
        self.attached.subscribe()
    }

    /// Sends a node a request that it answers on a connection; `None` when the node cannot be reached now.
    pub(super) fn ask(
        self: &Arc<Self>,
        node: NodeId,
        request: impl FnOnce(Uuid) -> AssignmentLine,
    ) -> Option<Answer> {
        let id = mint();
        let (sender, frames) = mpsc::channel(BATCHES_AHEAD);
        let mut links = self.links();
        let link = links.nodes.get(&node)?;
        link.requests.try_send(request(id)).ok()?;
        links.awaited.insert(id, Awaited { node, frames: sender });
        drop(links);
        Some(Answer { relay: Arc::clone(self), id, frames })
    }

    /// The reader that waits for this answer of the node. Each id is answered once.
    pub(crate) fn take(&self, node: NodeId, id: Uuid) -> Option<mpsc::Sender<Vec<LogFrame>>> {
        let mut links = self.links();
        if links.awaited.get(&id)?.node != node {
            return None;
        }
        links.awaited.remove(&id).map(|awaited| awaited.frames)
    }

    fn links(&self) -> MutexGuard<'_, Links> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An unguessable id: knowing it authorizes the answer.
fn mint() -> Uuid {
    #[expect(clippy::disallowed_methods, reason = "stream ids are minted here and nowhere else")]
    Uuid::new_v4()
}

// === impl Attachment ===

impl Attachment {
    /// The next request; pending forever once another stream of the node took over.
    pub(crate) async fn next(&mut self) -> AssignmentLine {
        match self.requests.recv().await {
            Some(request) => request,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        let mut links = self.relay.links();
        if links.nodes.get(&self.node).is_some_and(|link| link.number == self.number) {
            links.nodes.remove(&self.node);
        }
    }
}

// === impl Answer ===

impl Answer {
    /// The next batch; `None` when the connection is over. The first batch is empty and shows that
    /// the node answers.
    pub(super) async fn next(&mut self) -> Option<Vec<LogFrame>> {
        self.frames.recv().await
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.relay.links().awaited.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use api_types::usage::UsageRequest;

    use super::*;

    fn request(stream_id: Uuid) -> AssignmentLine {
        AssignmentLine::Usage(UsageRequest { stream_id })
    }

    async fn requested(attachment: &mut Attachment) -> Uuid {
        match attachment.next().await {
            AssignmentLine::Usage(UsageRequest { stream_id }) => stream_id,
            other => panic!("{other:?} was never requested"),
        }
    }

    #[tokio::test]
    async fn only_the_requested_node_may_answer_and_only_once() {
        let relay = Arc::new(Relay::default());
        let (node, other) =
            (NodeId::from_uuid(Uuid::from_u128(1)), NodeId::from_uuid(Uuid::from_u128(2)));
        assert!(relay.ask(node, request).is_none(), "it has no stream");
        let mut attachment = relay.attach(node);
        let answer = relay.ask(node, request).unwrap();
        let id = requested(&mut attachment).await;
        assert!(relay.take(other, id).is_none());
        assert!(relay.take(node, id).is_some());
        assert!(relay.take(node, id).is_none());
        drop(answer);

        let forgotten = relay.ask(node, request).unwrap();
        let id = requested(&mut attachment).await;
        drop(forgotten);
        assert!(relay.take(node, id).is_none(), "no reader waits any more");
    }

    #[tokio::test]
    async fn a_newer_stream_of_a_node_takes_over() {
        let relay = Arc::new(Relay::default());
        let node = NodeId::from_uuid(Uuid::from_u128(1));
        let older = relay.attach(node);
        let mut newer = relay.attach(node);
        drop(older);
        let _answer = relay.ask(node, request).unwrap();
        newer.next().await;
        drop(newer);
        assert!(relay.ask(node, request).is_none());
    }
}
