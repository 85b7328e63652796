//! How everybody else speaks to the supervisor.

use api_types::ExecutionId;
use api_types::id::IdPrefix;
use api_types::protocol::LocalExecution;
use tokio::sync::{mpsc, oneshot};

use crate::core::{Found, Input, Usage};
use crate::execution::Event;

/// Messages on their way; who sends more waits.
const CAPACITY: usize = 4096;

pub(crate) enum Message {
    Core(Input),
    /// Time has passed.
    Tick,
    Usage(oneshot::Sender<Usage>),
    List(oneshot::Sender<Vec<LocalExecution>>),
    Find(IdPrefix, oneshot::Sender<Found>),
    /// Which of these does nobody need any more?
    Leftovers(Vec<ExecutionId>, oneshot::Sender<Vec<ExecutionId>>),
    /// Finish the turn, and end.
    Stop,
}

/// The supervisor is gone: the agent is stopping.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the agent is stopping")]
pub(crate) struct Stopping;

#[derive(Debug, Clone)]
pub(crate) struct Mailbox(mpsc::Sender<Message>);

/// The supervisor's own way to its mailbox, to hand on: it does not keep the supervisor alive
/// when everybody else is gone.
#[derive(Debug)]
pub(super) struct WeakMailbox(mpsc::WeakSender<Message>);

// === impl Mailbox ===

impl Mailbox {
    pub(crate) fn new() -> (Self, mpsc::Receiver<Message>) {
        let (sender, receiver) = mpsc::channel(CAPACITY);
        (Self(sender), receiver)
    }

    pub(super) fn downgrade(&self) -> WeakMailbox {
        WeakMailbox(self.0.downgrade())
    }

    /// After the supervisor's end nobody listens, which is fine: the ledger has what counts.
    pub(crate) async fn send(&self, message: Message) {
        drop(self.0.send(message).await);
    }

    pub(crate) async fn event(&self, id: ExecutionId, event: Event) {
        self.send(Message::Core(Input::Event(id, event))).await;
    }

    pub(crate) async fn usage(&self) -> Result<Usage, Stopping> {
        self.ask(Message::Usage).await
    }

    pub(crate) async fn list(&self) -> Result<Vec<LocalExecution>, Stopping> {
        self.ask(Message::List).await
    }

    pub(crate) async fn find(&self, prefix: IdPrefix) -> Result<Found, Stopping> {
        self.ask(|answer| Message::Find(prefix, answer)).await
    }

    pub(crate) async fn leftovers(
        &self,
        found: Vec<ExecutionId>,
    ) -> Result<Vec<ExecutionId>, Stopping> {
        self.ask(|answer| Message::Leftovers(found, answer)).await
    }

    async fn ask<T>(
        &self,
        question: impl FnOnce(oneshot::Sender<T>) -> Message,
    ) -> Result<T, Stopping> {
        let (sender, receiver) = oneshot::channel();
        self.send(question(sender)).await;
        receiver.await.map_err(|_| Stopping)
    }
}

// === impl WeakMailbox ===

impl WeakMailbox {
    /// None when everybody is gone, and with them whoever could carry a step out.
    pub(super) fn upgrade(&self) -> Option<Mailbox> {
        self.0.upgrade().map(Mailbox)
    }
}
