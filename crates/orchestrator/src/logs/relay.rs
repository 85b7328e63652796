//! Connects readers of output, archives and usage with the nodes that have them.
//!
//! A request goes out on the node's assignments stream, like the scheduler's decisions. The node
//! answers on a separate connection, and its frames go to the waiting reader. Nothing is stored
//! here: a few frames of each answer are in flight, and a slow reader delays only its own node's
//! connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api_types::NodeId;
use api_types::log::LogFrame;
use api_types::protocol::AssignmentLine;
use tokio::sync::{mpsc, watch};
use uuid::Uuid;

use crate::shares::{Owner, Permit, Pool, Refusals, Refused, Shares};

/// Requests queued for a node's stream; beyond it the node counts as disconnected.
const WAITING_REQUESTS: usize = 1024;

/// Streams of output and archives from one node, as many as an agent serves. Beyond it, or beyond the
/// reader's share, the reader is told so and may come again.
const STREAMS_OF_A_NODE: usize = 256;

const POOL: Pool = Pool {
    name: "node_stream",
    what: "streams from the node",
    serves_nodes: false,
    open_has_all: true,
};

/// Batches of frames between a node's connection and its reader; each batch is one read of the
/// connection, some ten kilobytes.
const BATCHES_AHEAD: usize = 2;

pub(crate) struct Relay {
    links: Mutex<Links>,
    /// Counts the opened streams.
    attached: watch::Sender<u64>,
    refusals: Refusals,
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
    streams: Shares,
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
    /// Of the node's streams.
    permit: Option<Permit>,
}

/// Why a node was not asked.
#[derive(Debug)]
pub(super) enum NotAsked {
    Unreachable,
    Refused(Refused),
}

// === impl Relay ===

impl Relay {
    pub(super) fn new(refusals: &Refusals) -> Self {
        let (links, attached) = (Mutex::default(), watch::Sender::new(0));
        refusals.begin(POOL.name);
        Self { links, attached, refusals: refusals.clone() }
    }

    /// Routes requests for the node to this stream from now on.
    pub(crate) fn attach(self: &Arc<Self>, node: NodeId) -> Attachment {
        let (sender, requests) = mpsc::channel(WAITING_REQUESTS);
        let number = {
            let mut links = self.links();
            // Counted under the lock, so that two streams never share a number.
            self.attached.send_modify(|count| *count += 1);
            let number = *self.attached.borrow();
            let streams = Shares::new(POOL, STREAMS_OF_A_NODE, &self.refusals);
            links.nodes.insert(node, Link { number, requests: sender, streams });
            number
        };
        Attachment { relay: Arc::clone(self), node, number, requests }
    }

    /// Changes whenever a node has opened its stream.
    pub(super) fn attached(&self) -> watch::Receiver<u64> {
        self.attached.subscribe()
    }

    /// Sends a node a request that it answers on a connection for as long as its reader likes.
    pub(super) fn read(
        self: &Arc<Self>,
        node: NodeId,
        owner: &Owner,
        request: impl FnOnce(Uuid) -> AssignmentLine,
    ) -> Result<Answer, NotAsked> {
        let streams = self.links().nodes.get(&node).map(|link| link.streams.clone());
        let permit = streams.ok_or(NotAsked::Unreachable)?.take(owner, 1);
        let permit = permit.map_err(NotAsked::Refused)?;
        let mut answer = self.ask(node, request).ok_or(NotAsked::Unreachable)?;
        answer.permit = Some(permit);
        Ok(answer)
    }

    /// Sends a node a request of the service's own; `None` when the node cannot be reached now.
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
        Some(Answer { relay: Arc::clone(self), id, frames, permit: None })
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
        drop(self.permit.take());
    }
}

#[cfg(test)]
mod tests {
    use api_types::usage::UsageRequest;

    use super::*;

    fn request(stream_id: Uuid) -> AssignmentLine {
        AssignmentLine::Usage(UsageRequest { stream_id, job_id: None, node: false })
    }

    async fn requested(attachment: &mut Attachment) -> Uuid {
        match attachment.next().await {
            AssignmentLine::Usage(UsageRequest { stream_id, .. }) => stream_id,
            other => panic!("{other:?} was never requested"),
        }
    }

    #[tokio::test]
    async fn only_the_requested_node_may_answer_and_only_once() {
        let relay = Arc::new(Relay::new(&Refusals::default()));
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
    async fn one_reader_leaves_streams_of_a_node_to_others() {
        let relay = Arc::new(Relay::new(&Refusals::default()));
        let node = NodeId::from_uuid(Uuid::from_u128(1));
        let _attachment = relay.attach(node);
        let [one, other] = ["192.0.2.1", "192.0.2.2"].map(|at| Owner::unknown(at.parse().ok()));
        let mut open = Vec::new();
        let refused = loop {
            match relay.read(node, &one, request) {
                Ok(answer) => open.push(answer),
                Err(refused) => break refused,
            }
        };
        assert!(matches!(refused, NotAsked::Refused(_)) && open.len() < STREAMS_OF_A_NODE / 2);
        assert!(relay.read(node, &other, request).is_ok());
        assert!(relay.ask(node, request).is_some(), "the service itself asks in any case");
        let elsewhere = NodeId::from_uuid(Uuid::from_u128(2));
        let _other = relay.attach(elsewhere);
        assert!(relay.read(elsewhere, &one, request).is_ok());
        drop(open);
        assert!(relay.read(node, &one, request).is_ok());
    }

    #[tokio::test]
    async fn a_newer_stream_of_a_node_takes_over() {
        let relay = Arc::new(Relay::new(&Refusals::default()));
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
