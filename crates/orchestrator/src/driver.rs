//! The one thread that owns the state: inputs in, one commit for many of them, answers out.
//!
//! [`Handle`] is how everything else reaches it. Whatever waits is handed to the scheduler, bounded by
//! [`BATCH`], and all changes go to the store in one transaction; only then are answers and
//! messages released. Nothing leaves the process before what it claims is on disk.
//!
//! A disk that is full is waited for: callers are refused with 503, the scheduler goes back to the
//! last commit, and work goes on when the store can be written to again. Any other failure of a
//! commit ends the process; a restart continues from the store.

use std::sync::Arc;
use std::thread;

use api_types::NodeId;
use api_types::job::CreateJob;
use control_plane::store::{Retention, Store, StoreError};
use daemon::Pulse;
use scheduler::change::AssignmentChange;
use scheduler::input::{Answer, Input, Refusal, Submit};
use scheduler::time::Moment;
use scheduler::{RestoreError, Scheduler, Settings};
use tokio::sync::{mpsc, oneshot};

mod batch;
pub(crate) mod presence;
mod streams;
mod work;

use crate::observer::Observer;
use crate::view::View;

/// Inputs that share one commit at most; more would only make the first of them wait.
const BATCH: usize = 1024;

/// Inputs that may wait for the driver; beyond it a caller is told to come again (429). At a
/// thousand inputs per commit this is well below a second of waiting.
pub(crate) const WAITING_INPUTS: usize = 8192;

/// So many of the inputs that may wait are those of nodes alone, however many users ask: a node
/// that is not heard is taken for lost. Two for each of a thousand agents.
pub(crate) const RESERVED_FOR_NODES: usize = 2048;

/// Changes that may wait for a slow agent; beyond it its stream is closed, and it opens another
/// that begins with the whole desired state.
const WAITING_ASSIGNMENTS: usize = 16384;

/// Reaches the driver.
#[derive(Clone)]
pub struct Handle {
    inputs: mpsc::Sender<Message>,
}

/// A job to be submitted, with what its answer needs besides the scheduler's.
pub struct Submission {
    pub submit: Submit,
    /// The ID came with the request, so it may be taken.
    pub id_given: bool,
    pub warnings: Vec<String>,
    pub key: Option<IdempotencyKey>,
}

/// The `Idempotency-Key` of a request, and the SHA-256 of its body.
pub struct IdempotencyKey {
    pub key: String,
    pub body_hash: [u8; 32],
}

/// Why a call was not carried out. Nothing was stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("the idempotency key came with another body before")]
    IdempotencyConflict,
    #[error("too many requests wait already")]
    QueueFull,
    #[error("the store cannot be written to")]
    StoreUnavailable,
    #[error("the orchestrator is stopping")]
    Stopping,
}

/// What an assignments stream carries; the first item is a snapshot, the others are changes.
pub enum StreamItem {
    Snapshot(Vec<AssignmentChange>),
    Change(AssignmentChange),
}

/// Is answered from the scheduler's state, and the moment at which the driver takes it.
pub(crate) type Question = Box<dyn FnOnce(&Scheduler, Moment) + Send>;

/// What waits for the driver.
pub(crate) enum Message {
    Input {
        input: Input,
        reply: oneshot::Sender<Result<Answer, CallError>>,
    },
    Submit {
        submission: Box<Submission>,
        reply: oneshot::Sender<Result<CreateJob, CallError>>,
    },
    OpenAssignments {
        node: NodeId,
        session: u64,
        stream: mpsc::Sender<StreamItem>,
        reply: oneshot::Sender<Result<(), CallError>>,
    },
    Question(Question),
}

/// The driver's thread.
pub struct Driver {
    ended: oneshot::Receiver<Result<(), DriverError>>,
    pulse: Pulse,
}

/// Why the driver cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    #[error("read the state database")]
    Load(#[source] StoreError),
    #[error("continue from the state database")]
    Restore(#[from] RestoreError),
    #[error("commit to the state database")]
    Commit(#[source] StoreError),
    #[error("start the driver's thread")]
    Thread(#[source] std::io::Error),
    #[error("the driver's thread ended without a word")]
    Vanished,
}

/// Continues from what the store holds. The driver ends when the last [`Handle`] is dropped.
pub fn start(
    mut store: Box<dyn Store>,
    view: Arc<View>,
    settings: Settings,
    retention: Retention,
    observer: Observer,
) -> Result<(Handle, Driver), DriverError> {
    let (handle, messages) = Handle::new();
    let restored = work::resume(store.as_mut(), settings)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(DriverError::Thread)?;
    let (end, ended) = oneshot::channel();
    let pulse = Pulse::default();
    let beaten = pulse.clone();
    thread::Builder::new()
        .name("driver".to_owned())
        .spawn(move || {
            let work = work::Work::new(store, view, settings, restored, retention, observer);
            // Nobody may wait for the end any more.
            drop(end.send(runtime.block_on(work.run(messages, &beaten))));
        })
        .map_err(DriverError::Thread)?;
    Ok((handle, Driver { ended, pulse }))
}

// === impl Driver ===

impl Driver {
    /// Waits for the end: after the last handle is gone, or when a commit failed for good.
    pub async fn ended(&mut self) -> Result<(), DriverError> {
        (&mut self.ended).await.unwrap_or(Err(DriverError::Vanished))
    }

    /// Beats in each turn, and while a full disk is waited for.
    pub fn pulse(&self) -> Pulse {
        self.pulse.clone()
    }
}

// === impl Handle ===

impl Handle {
    pub(crate) fn new() -> (Self, mpsc::Receiver<Message>) {
        let (inputs, messages) = mpsc::channel(WAITING_INPUTS);
        (Self { inputs }, messages)
    }

    /// Has an input handled; answers when its changes are on disk.
    pub async fn call(&self, input: Input) -> Result<Answer, CallError> {
        let (reply, answer) = oneshot::channel();
        self.send(Message::Input { input, reply })?;
        match answer.await.map_err(|_| CallError::Stopping)?? {
            Answer::Refused(refusal) => Err(refusal.into()),
            answer => Ok(answer),
        }
    }

    pub async fn submit(&self, submission: Submission) -> Result<CreateJob, CallError> {
        let (reply, answer) = oneshot::channel();
        self.send(Message::Submit { submission: Box::new(submission), reply })?;
        answer.await.map_err(|_| CallError::Stopping)?
    }

    /// Opens the assignments stream of a node; one that was open before ends.
    pub async fn open_assignments(
        &self,
        node: NodeId,
        session: u64,
    ) -> Result<mpsc::Receiver<StreamItem>, CallError> {
        let (stream, items) = mpsc::channel(WAITING_ASSIGNMENTS);
        let (reply, answer) = oneshot::channel();
        self.send(Message::OpenAssignments { node, session, stream, reply })?;
        answer.await.map_err(|_| CallError::Stopping)??;
        Ok(items)
    }

    /// Asks the scheduler something that changes nothing.
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Scheduler) -> T + Send + 'static,
    ) -> Result<T, CallError> {
        let (reply, answer) = oneshot::channel();
        self.send(Message::Question(Box::new(move |scheduler, _| {
            // Whoever asked may be gone; then nobody misses the answer.
            drop(reply.send(question(scheduler)));
        })))?;
        answer.await.map_err(|_| CallError::Stopping)
    }

    /// The same for whoever watches the service: it is asked just when the queue is full, so it
    /// may take a place that is kept for nodes. There is one for each scrape under way.
    pub(crate) async fn inspect<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Scheduler, Moment) -> T + Send + 'static,
    ) -> Result<T, CallError> {
        let (reply, answer) = oneshot::channel();
        let question = Message::Question(Box::new(move |scheduler, now| {
            drop(reply.send(question(scheduler, now)));
        }));
        self.inputs.try_send(question).map_err(|_| CallError::QueueFull)?;
        answer.await.map_err(|_| CallError::Stopping)
    }

    /// How many inputs wait for the driver.
    pub(crate) fn waiting_inputs(&self) -> usize {
        self.inputs.max_capacity() - self.inputs.capacity()
    }

    fn send(&self, message: Message) -> Result<(), CallError> {
        if !message.is_of_a_node() && self.inputs.capacity() <= RESERVED_FOR_NODES {
            return Err(if self.inputs.is_closed() {
                CallError::Stopping
            } else {
                CallError::QueueFull
            });
        }
        self.inputs.try_send(message).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => CallError::QueueFull,
            mpsc::error::TrySendError::Closed(_) => CallError::Stopping,
        })
    }
}

// === impl Message ===

impl Message {
    fn is_of_a_node(&self) -> bool {
        match self {
            Self::OpenAssignments { .. } => true,
            Self::Submit { .. } | Self::Question(_) => false,
            Self::Input { input, .. } => match input {
                Input::Join { .. }
                | Input::Heartbeat { .. }
                | Input::OpenAssignments { .. }
                | Input::Reports { .. } => true,
                Input::Submit(_)
                | Input::Stop { .. }
                | Input::NodeAction { .. }
                | Input::ForgetNode { .. }
                | Input::Heard(_)
                | Input::WasDeaf(_)
                | Input::Tick => false,
            },
        }
    }
}
