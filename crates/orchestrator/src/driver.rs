//! The one thread that owns the state: requests in, one commit for many of them, answers out.
//!
//! [`Handle`] is how everything else reaches it. What to do is decided by [`control_plane::step`];
//! the thread carries out what the step asks for: it commits to the store, and when the step
//! releases answers and messages, it sends them. Waiting requests are handed over together, bounded
//! by [`BATCH`](work::BATCH).
//!
//! A failure of the store that the step cannot outlast ends the process; a restart continues from
//! the store.

use std::sync::Arc;
use std::thread;

use api_types::NodeId;
use api_types::graph::CreateGraph;
use api_types::job::CreateJob;
use control_plane::audit::AuditEntry;
use control_plane::clock::Reading;
use control_plane::records::RecordWrite;
use control_plane::step::{
    DueRun, Envelope, GraphSubmission, Origin, Request, Submission, Trigger,
};
use control_plane::store::{LoadRow, Retention};
use scheduler::input::{Answer, Input};
use scheduler::time::Moment;
use scheduler::{Scheduler, Settings};
use tokio::sync::{mpsc, oneshot};

mod audit_log;
mod caller;
mod error;
mod lead;
mod load_watch;
pub(crate) mod presence;
mod streams;
mod vitals;
mod work;
mod writer;

use self::caller::{Caller, Message, Question, Queued};
pub use self::error::{CallError, DriverError};
pub(crate) use self::lead::Lead;
pub use self::streams::StreamItem;
pub use self::vitals::{Driver, Vitals};
pub use self::writer::Writer;
use crate::observer::Observer;
use crate::repeats::{Record, Repeats};
use crate::shares::{Owner, Pool, Refusals, Shares};
use crate::view::View;

/// The most inputs that may wait for the driver; beyond it a caller is refused with 429. At a
/// thousand inputs per commit this is well below a second of waiting.
pub(crate) const WAITING_INPUTS: usize = 8192;

/// Queue slots reserved for inputs from nodes, regardless of the number of users: a node whose
/// messages do not get through is considered lost. Two for each of a thousand agents.
pub(crate) const RESERVED_FOR_NODES: usize = 2048;

/// The rest of the queue, of which each group of callers has a share. What has been taken from the
/// queue counts no longer.
const POOL: Pool = Pool {
    name: "scheduler_queue",
    what: "requests that wait for the scheduler",
    serves_nodes: false,
    open_has_all: true,
};

/// Changes queued for a slow agent; beyond it the driver closes its stream, and the agent opens
/// another that starts with the complete desired state.
const WAITING_ASSIGNMENTS: usize = 16384;

/// A handle to the driver.
#[derive(Clone)]
pub struct Handle {
    inputs: mpsc::Sender<Queued>,
    lead: Arc<Lead>,
    /// For inputs from users.
    places: Shares,
    /// What is one record of the audit log a minute.
    repeats: Arc<Repeats>,
}

/// A handle whose calls are noted in the audit log, if they are carried out.
pub struct Attributed<'a> {
    handle: &'a Handle,
    audit: Option<Box<AuditEntry>>,
}

type Audit = Option<Box<AuditEntry>>;

/// Continues from the store, which is loaded when this returns. The driver ends when the last
/// [`Handle`] is dropped.
pub fn start(
    writer: Writer,
    view: Arc<View>,
    settings: Settings,
    retention: Retention,
    observer: Observer,
    vitals: Vitals,
) -> Result<Handle, DriverError> {
    let lead = Arc::new(Lead::new(writer.trust()));
    let (handle, messages) = Handle::new(Arc::clone(&lead), &observer.metrics.refusals);
    let work = work::Work::open(writer, lead, view, (settings, retention), observer, &vitals)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(DriverError::Thread)?;
    thread::Builder::new()
        .name("driver".to_owned())
        .spawn(move || vitals.end(runtime.block_on(work.run(messages, vitals.pulse()))))
        .map_err(DriverError::Thread)?;
    Ok(handle)
}

// === impl Handle ===

impl Handle {
    fn new(lead: Arc<Lead>, refusals: &Refusals) -> (Self, mpsc::Receiver<Queued>) {
        let (inputs, messages) = mpsc::channel(WAITING_INPUTS);
        let places = Shares::new(POOL, WAITING_INPUTS - RESERVED_FOR_NODES, refusals);
        (Self { inputs, lead, places, repeats: Arc::default() }, messages)
    }

    /// Whether this process leads.
    pub(crate) fn lead(&self) -> &Arc<Lead> {
        &self.lead
    }

    /// Waits for a commit that begins now: what can stop a task leaves only after it. Nodes wait for
    /// it, so it may use a slot reserved for them.
    pub(crate) async fn prove(&self) -> Result<(), CallError> {
        if !self.lead.can_be_lost() {
            return Ok(());
        }
        let (reply, answer) = oneshot::channel();
        self.send(envelope(Origin::Node, Request::Prove, None, Caller::Records(reply)))?;
        answer.await.map_err(|_| CallError::Stopping)?
    }

    /// The same for a caller whose changes are noted in the audit log.
    pub fn on_behalf(&self, audit: Option<AuditEntry>) -> Attributed<'_> {
        Attributed { handle: self, audit: audit.map(Box::new) }
    }

    /// What is one record of the audit log a minute.
    pub(crate) fn repeats(&self) -> &Repeats {
        &self.repeats
    }

    /// Writes an entry to the audit log that belongs to no other change.
    pub(crate) async fn audit(&self, entry: AuditEntry) -> Result<(), CallError> {
        self.change_records_as(Vec::new(), Some(Box::new(entry))).await
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

    async fn submit_graph_as(
        &self,
        graph: GraphSubmission,
        audit: Audit,
    ) -> Result<CreateGraph, CallError> {
        let (reply, answer) = oneshot::channel();
        let request = Request::SubmitGraph(Box::new(graph));
        self.send(envelope(Origin::User, request, audit, Caller::SubmitGraph(reply)))?;
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

    /// Sends the checked run of a schedule back, and waits until what became of it is on disk.
    pub(crate) async fn run_due(&self, run: DueRun) -> Result<(), CallError> {
        let (reply, answer) = oneshot::channel();
        let request = Request::Due(Box::new(run));
        self.send(envelope(Origin::User, request, None, Caller::Records(reply)))?;
        answer.await.map_err(|_| CallError::Stopping)?
    }

    /// Stores a sample of the cluster's load.
    pub(crate) async fn store_load(&self, row: LoadRow) -> Result<(), CallError> {
        let (reply, answer) = oneshot::channel();
        let request = Request::Load(Box::new(row));
        self.send(envelope(Origin::User, request, None, Caller::Records(reply)))?;
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
        let queued = Queued { message, place: None };
        self.inputs.try_send(queued).map_err(|_| CallError::QueueFull)?;
        answer.await.map_err(|_| CallError::Stopping)?
    }

    /// The number of inputs that wait for the driver.
    pub(crate) fn waiting_inputs(&self) -> usize {
        self.inputs.max_capacity() - self.inputs.capacity()
    }

    /// The places in the queue that users share.
    pub(crate) fn places(&self) -> &Shares {
        &self.places
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
        let owner = if is_of_a_user { Owner::of_request() } else { None };
        let place = owner.map(|owner| self.places.take(&owner, 1)).transpose();
        let place = place.map_err(|refused| CallError::QueueShare {
            reason: refused.to_string(),
            hint: refused.hint(),
        })?;
        let queued = Queued { message, place };
        self.inputs.try_send(queued).map_err(|error| match error {
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

    /// Starts a job of a schedule now.
    pub(crate) async fn trigger(self, trigger: Trigger) -> Result<CreateJob, CallError> {
        let (reply, answer) = oneshot::channel();
        let request = Request::Trigger(Box::new(trigger));
        self.handle.send(envelope(Origin::User, request, self.audit, Caller::Submit(reply)))?;
        answer.await.map_err(|_| CallError::Stopping)?
    }

    pub async fn submit_graph(self, graph: GraphSubmission) -> Result<CreateGraph, CallError> {
        self.handle.submit_graph_as(graph, self.audit).await
    }

    pub async fn change_records(self, writes: Vec<RecordWrite>) -> Result<(), CallError> {
        let (handle, repeats) = (self.handle, &self.handle.repeats);
        match self.audit.map(|entry| repeats.record(*entry)) {
            None => handle.change_records_as(writes, None).await,
            Some(Record::Now(entry)) => {
                handle.change_records_as(writes, Some(Box::new(entry))).await
            }
            Some(Record::First(entry)) => {
                let audit = Some(Box::new(entry.clone()));
                handle.change_records_as(writes, audit).await?;
                repeats.began(&entry);
                Ok(())
            }
            Some(Record::Counted(entry)) => {
                if !writes.is_empty() {
                    handle.change_records_as(writes, None).await?;
                }
                repeats.note(entry);
                Ok(())
            }
        }
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
        | Input::SubmitGraph(_)
        | Input::Stop { .. }
        | Input::StopJobs { .. }
        | Input::NodeAction { .. }
        | Input::LabelNode { .. }
        | Input::Provided { .. }
        | Input::Group { .. }
        | Input::Entitle { .. }
        | Input::ForgetNode { .. }
        | Input::Heard(_)
        | Input::MissedHeartbeats(_)
        | Input::Tick => Origin::User,
    }
}

#[cfg(test)]
mod tests;
