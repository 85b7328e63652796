//! The shared state of the operations.

use std::sync::Arc;

use api_types::Code;
use futures_util::stream::{Stream, StreamExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::failure::Failure;
use super::guard::Guard;
use crate::data::logs::Outputs;
use crate::data::results::publisher::PublishedDir;
use crate::node::mailbox::Mailbox;
use crate::node::outbox::Outbox;
use crate::observer::Observer;
use crate::runtime::registry::Engines;
use crate::session::node_record::NodeRecord;
use crate::session::state::SessionWatch;

/// The shared state of the operations.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) record: Arc<NodeRecord>,
    pub(crate) engines: Arc<Engines>,
    pub(crate) session: Arc<SessionWatch>,
    pub(crate) mailbox: Mailbox,
    pub(crate) outputs: Arc<Outputs>,
    /// Cancelled when the agent stops: followed streams end.
    pub(crate) stopping: CancellationToken,
    pub(crate) published: PublishedDir,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) observer: Arc<Observer>,
    pub(crate) readers: Readers,
    pub(crate) guard: Arc<Guard>,
}

/// Concurrent readers of output and archives, a quarter of all connections: however many follow,
/// the health check is answered. Most readers come through the orchestrator.
const MAX_READERS: usize = 64;

/// Permits of requests that stay open.
#[derive(Clone)]
pub(crate) struct Readers(Arc<Semaphore>);

// === impl Readers ===

impl Readers {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(MAX_READERS)))
    }

    /// A permit, to be held until the response has been sent.
    pub(super) fn take(&self) -> Result<OwnedSemaphorePermit, Failure> {
        Arc::clone(&self.0).try_acquire_owned().map_err(|_| {
            let message = format!(
                "this agent already serves {MAX_READERS} readers of output and archives; try again \
                 later, or read them through the orchestrator"
            );
            Failure::new(Code::TooManyRequests, message)
        })
    }
}

/// The stream, which holds the permit to its end.
pub(super) fn holding<S: Stream + Send>(
    permit: OwnedSemaphorePermit,
    stream: S,
) -> impl Stream<Item = S::Item> + Send
where
    S::Item: Send,
{
    stream.inspect(move |_| {
        let _held = &permit;
    })
}
