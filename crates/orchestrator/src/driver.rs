//! The one thread that owns the state: requests in, one commit for many of them, answers out.
//!
//! [`Handle`] is how everything else reaches it. What to do is decided by [`control_plane::step`];
//! the thread carries out what the step asks for: it commits to the store, and when the step
//! releases answers and messages, it sends them. Waiting requests are handed over together, bounded
//! by [`BATCH`].
//!
//! A failure of the store that the step cannot outlast ends the process; a restart continues from
//! the store.

use std::sync::Arc;
use std::thread;

use api_types::NodeId;
use api_types::job::CreateJob;
use control_plane::audit::AuditEntry;
use control_plane::clock::Reading;
use control_plane::records::{RecordRefusal, RecordWrite};
use control_plane::step::{Envelope, Failure, Origin, Request, Submission};
use control_plane::store::{Retention, Store};
use daemon::Pulse;
use scheduler::change::AssignmentChange;
use scheduler::input::{Answer, Input, Refusal};
use scheduler::time::Moment;
use scheduler::{Scheduler, Settings};
use tokio::sync::{mpsc, oneshot};

mod caller;
pub(crate) mod presence;
mod streams;
mod work;

use self::caller::{Caller, Question};
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

/// A handle whose calls are noted in the audit log, if they are carried out.
pub struct Attributed<'a> {
    handle: &'a Handle,
    audit: Option<Box<AuditEntry>>,
}

/// Why a call was not carried out. Nothing was stored, unless the error says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("the idempotency key came with another body before")]
    IdempotencyConflict,
    #[error(transparent)]
    Record(#[from] RecordRefusal),
    #[error("too many requests wait already")]
    QueueFull,
    #[error("the store cannot be written to")]
    StoreUnavailable,
    #[error("whether the request was stored is unknown: the state database did not answer")]
    OutcomeUnknown,
    #[error("the orchestrator is stopping")]
    Stopping,
}

/// An item of an assignments stream: first a snapshot, then changes.
pub enum StreamItem {
    Snapshot(Vec<AssignmentChange>),
    Change(AssignmentChange),
}

type Audit = Option<Box<AuditEntry>>;

/// What waits for the driver.
pub(crate) type Message = Envelope<Caller, Reading>;

/// The driver's thread.
pub struct Driver {
    ended: oneshot::Receiver<Result<(), DriverError>>,
    pulse: Pulse,
}

/// Why the driver cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    #[error(transparent)]
    Step(#[from] Failure),
    #[error("start the driver's thread")]
    Thread(#[source] std::io::Error),
    #[error("the driver's thread ended without reporting an error")]
    Vanished,
}

/// Continues from the store. The driver ends when the last [`Handle`] is dropped.
pub fn start(
    store: Box<dyn Store>,
    view: Arc<View>,
    settings: Settings,
    retention: Retention,
    observer: Observer,
) -> Result<(Handle, Driver), DriverError> {
    let (handle, messages) = Handle::new();
    let work = work::Work::start(store, view, settings, retention, observer)?;
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
            // Nobody may wait for the end any more.
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

    /// The same for a caller whose changes are noted in the audit log.
    pub fn on_behalf(&self, audit: Option<AuditEntry>) -> Attributed<'_> {
        Attributed { handle: self, audit: audit.map(Box::new) }
    }

    /// Submits an input and waits until its changes are on disk.
    pub async fn call(&self, input: Input) -> Result<Answer, CallError> {
        self.on_behalf(None).call(input).await
    }

    async fn call_as(&self, input: Input, audit: Audit) -> Result<Answer, CallError> {
        let (reply, answer) = oneshot::channel();
        let origin = origin_of(&input);
        self.send(envelope(origin, Request::Input(input), audit, Caller::Input(reply)))?;
        match answer.await.map_err(|_| CallError::Stopping)?? {
            Answer::Refused(refusal) => Err(refusal.into()),
            answer => Ok(answer),
        }
    }

    async fn submit_as(
        &self,
        submission: Submission,
        audit: Audit,
    ) -> Result<CreateJob, CallError> {
        let (reply, answer) = oneshot::channel();
        let request = Request::Submit(Box::new(submission));
        self.send(envelope(Origin::User, request, audit, Caller::Submit(reply)))?;
        answer.await.map_err(|_| CallError::Stopping)?
    }

    /// Changes records, all of them or none, and waits until they are on disk and published.
    pub async fn change_records(&self, writes: Vec<RecordWrite>) -> Result<(), CallError> {
        self.change_records_as(writes, None).await
    }

    async fn change_records_as(
        &self,
        writes: Vec<RecordWrite>,
        audit: Audit,
    ) -> Result<(), CallError> {
        let (reply, answer) = oneshot::channel();
        let request = Request::Records(writes);
        self.send(envelope(Origin::User, request, audit, Caller::Records(reply)))?;
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
        let request = Request::Input(Input::OpenAssignments { node, session });
        self.send(envelope(Origin::Node, request, None, Caller::Stream { node, stream, reply }))?;
        answer.await.map_err(|_| CallError::Stopping)??;
        Ok(items)
    }

    /// Runs a read-only query against the scheduler.
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Scheduler) -> T + Send + 'static,
    ) -> Result<T, CallError> {
        let (question, answer) = asked(|scheduler, _| question(scheduler));
        self.send(envelope(Origin::User, Request::Ask, None, question))?;
        answer.await.map_err(|_| CallError::Stopping)?
    }

    /// Like `ask`, for monitoring: a scrape matters most when the queue is full, so it may use a
    /// slot reserved for nodes. Each scrape in progress uses one.
    pub(crate) async fn inspect<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Scheduler, Moment) -> T + Send + 'static,
    ) -> Result<T, CallError> {
        let (question, answer) = asked(question);
        let message = envelope(Origin::User, Request::Ask, None, question);
        self.inputs.try_send(message).map_err(|_| CallError::QueueFull)?;
        answer.await.map_err(|_| CallError::Stopping)?
    }

    /// The number of inputs that wait for the driver.
    pub(crate) fn waiting_inputs(&self) -> usize {
        self.inputs.max_capacity() - self.inputs.capacity()
    }

    fn send(&self, message: Message) -> Result<(), CallError> {
        let is_of_a_user = message.origin == Origin::User;
        if is_of_a_user && self.inputs.capacity() <= RESERVED_FOR_NODES {
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

// === impl Attributed ===

impl Attributed<'_> {
    pub async fn call(self, input: Input) -> Result<Answer, CallError> {
        self.handle.call_as(input, self.audit).await
    }

    pub async fn submit(self, submission: Submission) -> Result<CreateJob, CallError> {
        self.handle.submit_as(submission, self.audit).await
    }

    pub async fn change_records(self, writes: Vec<RecordWrite>) -> Result<(), CallError> {
        self.handle.change_records_as(writes, self.audit).await
    }
}

fn envelope(origin: Origin, request: Request, audit: Audit, caller: Caller) -> Message {
    Envelope { origin, arrived: Reading::now(), request, audit, caller }
}

fn asked<T: Send + 'static>(
    question: impl FnOnce(&Scheduler, Moment) -> T + Send + 'static,
) -> (Caller, oneshot::Receiver<Result<T, CallError>>) {
    let (reply, answer) = oneshot::channel();
    let question: Question = Box::new(move |asked| {
        // Fails only if the caller is gone and needs no answer.
        drop(reply.send(asked.map(|(scheduler, now)| question(scheduler, now))));
    });
    (Caller::Question(question), answer)
}

fn origin_of(input: &Input) -> Origin {
    match input {
        Input::Join { .. }
        | Input::Heartbeat { .. }
        | Input::OpenAssignments { .. }
        | Input::Reports { .. }
        | Input::Unreadable { .. } => Origin::Node,
        Input::Submit(_)
        | Input::Stop { .. }
        | Input::NodeAction { .. }
        | Input::LabelNode { .. }
        | Input::Provided { .. }
        | Input::ForgetNode { .. }
        | Input::Heard(_)
        | Input::WasDeaf(_)
        | Input::Tick => Origin::User,
    }
}

#[cfg(test)]
mod tests;
