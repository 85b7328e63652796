//! The supervisor's mailbox.

use agent_core::execution::Event;
use agent_core::node_state::{Input, Matches, Usage};
use api_types::ExecutionId;
use api_types::id::IdPrefix;
use api_types::protocol::LocalExecution;
use futures_util::future::{BoxFuture, FutureExt};
use tokio::sync::{mpsc, oneshot};

use crate::data::progress::ProgressSink;

/// Queued messages; a sender blocks beyond this.
const CAPACITY: usize = 4096;

pub(crate) enum Message {
    Input(Input),
    /// Time has passed.
    Tick,
    Usage(oneshot::Sender<Usage>),
    List(oneshot::Sender<Vec<LocalExecution>>),
    Find(IdPrefix, oneshot::Sender<Matches>),
    /// Which of these executions does the node no longer need?
    Leftovers(Vec<ExecutionId>, oneshot::Sender<Vec<ExecutionId>>),
    /// Finish the turn, then stop.
    Stop,
    /// End as if the process were killed.
    Kill,
}

/// The supervisor has stopped: the agent is stopping.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the agent is stopping")]
pub(crate) struct Stopping;

#[derive(Debug, Clone)]
pub(crate) struct Mailbox(mpsc::Sender<Message>);

/// The supervisor's reference to its own mailbox, to hand out: it does not keep the supervisor
/// running when every other sender is gone.
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

    /// Messages after the supervisor's end are lost, which is fine: the ledger holds everything
    /// that matters.
    pub(crate) async fn send(&self, message: Message) {
        drop(self.0.send(message).await);
    }

    pub(crate) async fn event(&self, id: ExecutionId, event: Event) {
        self.send(Message::Input(Input::Event(id, event))).await;
    }

    pub(crate) async fn usage(&self) -> Result<Usage, Stopping> {
        self.ask(Message::Usage).await
    }

    pub(crate) async fn list(&self) -> Result<Vec<LocalExecution>, Stopping> {
        self.ask(Message::List).await
    }

    pub(crate) async fn find(&self, prefix: IdPrefix) -> Result<Matches, Stopping> {
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

impl ProgressSink for Mailbox {
    fn progress(&self, id: ExecutionId, message: String) -> BoxFuture<'_, ()> {
        self.event(id, Event::Progress { message }).boxed()
    }
}

// === impl WeakMailbox ===

impl WeakMailbox {
    /// None when every sender is gone, and with them everything that could run a step.
    pub(super) fn upgrade(&self) -> Option<Mailbox> {
        self.0.upgrade().map(Mailbox)
    }
}
