//! The shared state of the operations.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

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
}
