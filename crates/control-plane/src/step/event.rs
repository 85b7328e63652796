//! What the step is given, and what it asks for.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use api_types::dependency::{Dependency, Indexes};
use api_types::graph::CreateGraph;
use api_types::job::CreateJob;
use api_types::{JobId, Timestamp};
use scheduler::change::Effect;
use scheduler::input::{Answer, Input, Refusal, Submit, SubmitGraph};
use scheduler::silence::HeartbeatArrival;
use scheduler::time::{Moment, Now};

use super::gate::Release;
use super::schedules::DueTime;
use super::term_state::{TakeError, TermState};
use crate::audit::AuditEntry;
use crate::batch::NumberedCommit;
use crate::pruning::oldest_key;
use crate::records::{RecordKey, RecordRefusal, RecordWrite};
use crate::store::{CommitId, LoadRow, LookupResults, Outcome, RequestKey, Store, StoreError};

/// Everything that can make the step act. `C` is the type of a caller that waits for an answer.
pub enum Event<C> {
    /// Requests, and what the store knows of them: none if it could not be read.
    Inputs { inputs: Vec<Envelope<C>>, known: Option<LookupResults> },
    /// Heartbeats, which bypass the queue, and how long none could be received.
    Heard { gap: Duration, arrivals: Vec<HeartbeatArrival> },
    /// What became of a commit.
    Committed(CommitId, Result<Outcome, StoreError>),
    /// What became of the attempt to begin a term.
    Took(Result<TermState, TakeError>),
    /// Time has passed; see [`super::Step::wake`]. It comes with the time up to which
    /// [`Event::Heard`] has reported arrivals, because leases are checked as of that time.
    Tick,
}

/// A request with where and when it came in. A queue notes the machine's clocks as `T`; the step
/// wants the service's.
#[derive(Debug)]
pub struct Envelope<C, T = Now> {
    pub origin: Origin,
    pub arrived: T,
    pub request: Request,
    /// What the request adds to the audit log if it is carried out.
    pub audit: Option<Box<AuditEntry>>,
    pub caller: C,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    User,
    Node,
}

#[derive(Debug)]
pub enum Request {
    Input(Input),
    Submit(Box<Submission>),
    SubmitGraph(Box<GraphSubmission>),
    /// All of these changes, or none.
    Records(Vec<RecordWrite>),
    /// A sample of the cluster's load.
    Load(Box<LoadRow>),
    /// A due time of a schedule, checked.
    Due(Box<DueRun>),
    /// A job of a schedule, now.
    Trigger(Box<Trigger>),
    /// Something about the scheduler's state that changes nothing; the caller knows what.
    Ask,
    /// Whether this process still leads: a verdict that can stop a task leaves only after a commit
    /// that began later.
    Prove,
}

/// A job to be submitted, with what its answer needs in addition to the scheduler's.
#[derive(Debug)]
pub struct Submission {
    pub submit: Submit,
    /// The ID came with the request, so it may be taken.
    pub id_given: bool,
    pub warnings: Vec<String>,
    pub key: Option<IdempotencyKey>,
}

/// A graph to be submitted, likewise.
#[derive(Debug)]
pub struct GraphSubmission {
    pub submit: SubmitGraph,
    pub warnings: Vec<String>,
    pub key: Option<IdempotencyKey>,
}

/// A due time with what became of its check as a submission: the job, or why there is none.
#[derive(Debug)]
pub struct DueRun {
    pub time: DueTime,
    pub checked: Result<Box<Submission>, String>,
}

/// A run that a caller asks for now.
#[derive(Debug)]
pub struct Trigger {
    /// Of the schedule.
    pub key: String,
    pub due: Timestamp,
    pub submission: Submission,
}

/// The `Idempotency-Key` of a request, and the SHA-256 of its body.
#[derive(Debug)]
pub struct IdempotencyKey {
    pub key: String,
    pub body_hash: [u8; 32],
}

/// What the store has to be asked before the requests of a turn are handled.
#[derive(Debug, Default)]
pub struct Lookups {
    keys: Vec<RequestKey>,
    jobs: Vec<JobId>,
    /// On which submitted jobs depend.
    named: BTreeMap<JobId, Indexes>,
}

/// What the step asks for. Actions are carried out in their order.
pub enum Action<C> {
    /// Begin a term and load the state under it, in this order; answered by [`Event::Took`].
    /// Everything that was derived from an earlier state is void.
    Take(Reason),
    /// Write it; answered by [`Event::Committed`].
    Commit(NumberedCommit),
    Release(Release<C>),
    /// Check the jobs of these due times as submissions, and send each back as [`Request::Due`]. One
    /// that gets lost comes again.
    Due(Vec<DueTime>),
    Refuse {
        callers: Vec<C>,
        why: Refused,
    },
    /// The streams of assignments end; their agents open others.
    CloseStreams,
    /// The process cannot go on.
    StepDown(Failure),
}

/// Why a term begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    Start,
    /// The store can be written to again.
    Writable,
    /// Another process took the store over.
    Fenced,
    /// The outcome of a commit remained unknown; the new term settles it.
    Unknown,
    /// The attempt before this one failed.
    Retry,
}

/// Why a caller gets no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    NotStored,
    /// What the caller asked for may be stored or not.
    OutcomeUnknown,
}

/// Why the step cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error(transparent)]
    Take(#[from] TakeError),
    #[error("commit to the state database")]
    Commit(#[source] StoreError),
    /// Only with [`super::Trust::AfterCommit`].
    #[error("another orchestrator has taken the lead")]
    LeadLost,
}

/// What leaves in the order of the requests.
#[derive(Debug)]
pub enum Delivery<C> {
    Effect(Effect),
    Reply(C, Reply),
}

#[derive(Debug)]
pub enum Reply {
    Answer(Answer),
    Created(Result<CreateJob, NotCreated>),
    GraphCreated(Result<CreateGraph, NotCreated>),
    Recorded(Result<(), RecordRefusal>),
    /// To [`Request::Ask`]: the question may be put to the scheduler, as of this moment.
    Asked(Moment),
    Proved,
}

/// Why a submission made no job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotCreated {
    Refused(Refusal),
    /// The idempotency key came with another body before.
    KeyConflict,
    /// The store could not be read.
    Unreadable,
    /// The schedule is gone.
    NoSchedule(RecordKey),
}

// === impl Envelope ===

impl<C, T> Envelope<C, T> {
    /// The same request, with its arrival by another clock.
    pub fn arrived_at<U>(self, clock: impl FnOnce(T) -> U) -> Envelope<C, U> {
        let Self { origin, arrived, request, audit, caller } = self;
        Envelope { origin, arrived: clock(arrived), request, audit, caller }
    }
}

// === impl Delivery ===

impl<C> Delivery<C> {
    /// Whether an agent may stop a task because of it, or forget what it has not said to the leader.
    pub(super) fn is_acted_upon(&self) -> bool {
        match self {
            Self::Effect(Effect::Assign { .. }) => true,
            // What is missing in a snapshot stops.
            Self::Reply(_, Reply::Answer(Answer::Assignments(_)) | Reply::Proved) => true,
            // A report that is acknowledged is never repeated. It may be of an execution that this
            // process does not know, because another one has placed it.
            Self::Reply(_, Reply::Answer(Answer::Acknowledged(_))) => true,
            Self::Effect(Effect::CloseStream { .. }) | Self::Reply(..) => false,
        }
    }
}

// === impl Reply ===

impl Reply {
    /// Whether the request was carried out.
    pub(super) fn is_done(&self) -> bool {
        match self {
            Self::Answer(Answer::Refused(_)) => false,
            Self::Answer(_) => true,
            Self::Created(created) => created.is_ok(),
            Self::GraphCreated(created) => created.is_ok(),
            Self::Recorded(recorded) => recorded.is_ok(),
            Self::Asked(_) | Self::Proved => false,
        }
    }

    /// The ID that the request made.
    pub(super) fn made(&self) -> Option<String> {
        match self {
            Self::Created(Ok(created)) => Some(created.job_id.to_string()),
            Self::GraphCreated(Ok(created)) => Some(created.graph_id.to_string()),
            Self::Created(Err(_))
            | Self::GraphCreated(Err(_))
            | Self::Answer(_)
            | Self::Recorded(_)
            | Self::Asked(_)
            | Self::Proved => None,
        }
    }
}

// === impl NotCreated ===

impl NotCreated {
    /// For the run of a schedule, which has no key that could be known.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Refused(_) => "it was refused",
            Self::KeyConflict => "its key was used before",
            Self::Unreadable => "the store could not be read",
            Self::NoSchedule(_) => "the schedule is gone",
        }
    }
}

// === impl Submission ===

impl Submission {
    pub(super) fn request_key(&self) -> Option<RequestKey> {
        let namespace = self.submit.spec.namespace.clone();
        self.key
            .as_ref()
            .map(|IdempotencyKey { key, .. }| RequestKey { namespace, key: key.clone() })
    }
}

// === impl GraphSubmission ===

impl GraphSubmission {
    pub(super) fn request_key(&self) -> Option<RequestKey> {
        let namespace = self.submit.namespace.clone();
        self.key.as_ref().map(|key| RequestKey { namespace, key: key.key.clone() })
    }

    /// The jobs outside the graph on which some of its jobs depend.
    fn outside(&self) -> impl Iterator<Item = &Dependency> {
        let jobs = &self.submit.jobs;
        let members: HashSet<JobId> = jobs.iter().map(|(_, job)| job.id).collect();
        let all = jobs.iter().flat_map(|(_, job)| named(job));
        all.filter(move |dependency| !members.contains(&dependency.job_id))
    }
}

// === impl Lookups ===

impl Lookups {
    pub fn for_inputs<C, T>(inputs: &[Envelope<C, T>]) -> Self {
        let mut lookups = Self::default();
        for envelope in inputs {
            match &envelope.request {
                Request::Submit(submission) => {
                    lookups.keys.extend(submission.request_key());
                    lookups.jobs.extend(submission.id_given.then_some(submission.submit.id));
                    lookups.name(named(&submission.submit));
                }
                Request::Trigger(trigger) => lookups.keys.extend(trigger.submission.request_key()),
                Request::SubmitGraph(graph) => {
                    lookups.keys.extend(graph.request_key());
                    lookups.name(graph.outside());
                }
                Request::Input(_)
                | Request::Records(_)
                | Request::Load(_)
                | Request::Due(_)
                | Request::Ask
                | Request::Prove => {}
            }
        }
        lookups
    }

    fn name<'a>(&mut self, dependencies: impl Iterator<Item = &'a Dependency>) {
        for Dependency { job_id, indexes, .. } in dependencies {
            let known = self.named.entry(*job_id).or_insert(*indexes);
            *known = (*known).max(*indexes);
        }
    }

    /// Asks the store once for all of them.
    pub fn ask(&self, store: &mut dyn Store, now: Moment) -> Result<LookupResults, StoreError> {
        let mut found = LookupResults::default();
        if !self.keys.is_empty() || !self.jobs.is_empty() {
            found = store.lookup(&self.keys, oldest_key(now), &self.jobs)?;
        }
        if !self.named.is_empty() {
            let named = store.named(&self.named)?.into_iter();
            found.named = named.map(|named| (named.id, named)).collect();
        }
        Ok(found)
    }
}

/// The jobs on which a submitted one depends.
pub(super) fn named(submit: &Submit) -> impl Iterator<Item = &Dependency> {
    submit.spec.depends_on.iter()
}
