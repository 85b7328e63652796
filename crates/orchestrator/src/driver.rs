//! The one thread that owns the state: takes inputs, commits many at once, releases the answers.
//!
//! [`Handle`] is how everything else reaches it. The driver passes the waiting inputs, at most
//! [`BATCH`], to the scheduler and writes all changes to the store in one transaction; only then
//! does it release answers and messages. Nothing leaves the process before the changes it reports
//! are on disk.
//!
//! When the disk is full, the driver waits for space: it refuses callers with 503, rolls the
//! scheduler back to the last commit, and resumes when the store is writable again. Any other
//! commit failure ends the process; a restart continues from the store.

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

/// The most inputs that share one commit; more would only delay the first of them.
const BATCH: usize = 1024;

/// The most inputs that may wait for the driver; beyond it a caller is refused with 429. At a
/// thousand inputs per commit this is well below a second of waiting.
pub(crate) const WAITING_INPUTS: usize = 8192;

/// Queue slots reserved for inputs from nodes, regardless of the number of users: a node whose
/// messages do not get through is considered lost. Two for each of a thousand agents.
pub(crate) const RESERVED_FOR_NODES: usize = 2048;

/// Changes queued for a slow agent; beyond it the driver closes its stream, and the agent opens
/// another that starts with the complete desired state.
const WAITING_ASSIGNMENTS: usize = 16384;

/// A handle to the driver.
#[derive(Clone)]
pub struct Handle {
    inputs: mpsc::Sender<Message>,
}

/// A job to submit, with what its answer needs besides the scheduler's answer.
pub struct Submission {
    pub submit: Submit,
    /// The client chose the ID, so it may already exist.
    pub id_given: bool,
    pub warnings: Vec<String>,
    pub key: Option<IdempotencyKey>,
}

/// The `Idempotency-Key` of a request, and the SHA-256 of its body.
pub struct IdempotencyKey {
    pub key: String,
    pub body_hash: [u8; 32],
}

/// Why a call failed. Nothing was stored.
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

/// An item of an assignments stream: first a snapshot, then changes.
pub enum StreamItem {
    Snapshot(Vec<AssignmentChange>),
    Change(AssignmentChange),
}

/// A read-only query of the scheduler's state, run at the moment at which the driver receives it.
pub(crate) type Question = Box<dyn FnOnce(&Scheduler, Moment) + Send>;

/// A message to the driver.
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

/// Why the driver cannot start or continue.
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

/// Continues from the store. The driver ends when the last [`Handle`] is dropped.
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
            // Fails only if no caller waits for the end any more.
            drop(end.send(runtime.block_on(work.run(messages, &beaten))));
        })
        .map_err(DriverError::Thread)?;
    Ok((handle, Driver { ended, pulse }))
}

// === impl Driver ===

impl Driver {
    /// Waits for the driver to end: after the last handle is dropped, or when a commit failed
    /// permanently.
    pub async fn ended(&mut self) -> Result<(), DriverError> {
        (&mut self.ended).await.unwrap_or(Err(DriverError::Vanished))
    }

    /// Beats in each turn, and while the driver waits for disk space.
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

    /// Submits an input and waits until its changes are on disk.
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

    /// Opens the assignments stream of a node and ends its previous one.
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

    /// Runs a read-only query against the scheduler.
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Scheduler) -> T + Send + 'static,
    ) -> Result<T, CallError> {
        let (reply, answer) = oneshot::channel();
        self.send(Message::Question(Box::new(move |scheduler, _| {
            // Fails only if the caller is gone and needs no answer.
            drop(reply.send(question(scheduler)));
        })))?;
        answer.await.map_err(|_| CallError::Stopping)
    }

    /// Like `ask`, for monitoring: a scrape matters most when the queue is full, so it may use a
    /// slot reserved for nodes. Each scrape in progress uses one.
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

    /// The number of inputs that wait for the driver.
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
