//! What handling an input produces: records to store, and messages to send after they are stored.
//!
//! Rows are what the store keeps. A batch of inputs shares one [`Changes`]. A record that changes
//! several times within a batch is written once, in its final state; every history event is kept.

mod live;
mod submitted;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use api_types::curve::UsageCurve;
use api_types::execution::{ComputeState, DesiredState, PublishedResult, RunOutput};
use api_types::history::{EventType, NodeStateType};
use api_types::job::{JobStateType, JobType};
use api_types::log::OutputTail;
use api_types::node::{Connection, Eligibility, Membership};
use api_types::protocol::SessionRequest;
use api_types::quantity::Resources;
use api_types::usage::Usage;
use api_types::{EvaluationId, ExecutionId, JobId, NodeId, Timestamp};

use crate::health::Health;
use crate::node_event::History;
use crate::outcomes::Chunk;
use crate::slots::Slots;
use crate::text::Text;
use crate::time::Moment;

pub use self::live::{JobOutcomes, Live, LiveJobRow, LoadedPlan, NamedJob, SlotNode};
pub use self::submitted::{NewGraphRow, NewJobRow};
pub use crate::tries::Tries;

/// The version of a job's first specification.
pub const FIRST_VERSION: u64 = 1;

/// Everything to store for the inputs handled since the last commit.
#[derive(Debug, Default, Clone)]
pub struct Changes {
    pub new_jobs: Vec<NewJobRow>,
    pub jobs: BTreeMap<JobId, JobRow>,
    pub executions: BTreeMap<ExecutionId, ExecutionRow>,
    /// Written once per execution, when it ends.
    pub outputs: Vec<OutputRow>,
    /// `NextExecution` of executions that may no longer be in memory: (execution, next).
    pub successors: Vec<(ExecutionId, ExecutionId)>,
    /// Slots that wait for placement or for the end of a delay; `None` removes one.
    /// The nodes of slots of ops jobs that ended before they were placed.
    pub unplaced: Vec<(JobId, u32, NodeId)>,
    pub pending_slots: BTreeMap<(JobId, u32), Option<PendingSlotRow>>,
    /// Chunks of outcomes in which a slot ended, by their number.
    pub outcomes: BTreeMap<(JobId, u32), Chunk>,
    /// Why the first slot failed of a job that goes on, once per job.
    pub first_failures: Vec<(JobId, Text)>,
    /// When jobs began whose slots wait for those of others one by one.
    pub begun: Vec<(JobId, Moment)>,
    pub new_graphs: Vec<NewGraphRow>,
    /// Jobs with conditions that are no longer live: retention need not keep those that they name.
    pub released: Vec<JobId>,
    pub nodes: BTreeMap<NodeId, Option<NodeRow>>,
    /// In order of `seq`, without a gap.
    pub events: Vec<EventRow>,
}

/// The part of a job that changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRow {
    pub id: JobId,
    pub state: JobStateType,
    pub message: Text,
    /// Of its newest specification.
    pub version: u64,
    pub revision: u64,
    pub modify_time: Timestamp,
    /// No event in the job's history is later than this, except events of live executions.
    pub last_event_time: Timestamp,
    /// Since when slots have waited for room without interruption.
    pub waiting_since: Option<Moment>,
    /// When the job's last live part ended; retention counts from here.
    pub ended_at: Option<Moment>,
    /// When an execution of the job first started; for display only.
    pub start_time: Option<Timestamp>,
    /// Executions whose process has started and that have not ended.
    pub running: u32,
    /// Executions that failed, each retry by itself.
    pub failed: u32,
    /// As many as `Count`, or as nodes that the job covers.
    pub slots: Slots,
    /// Slots at and above this index have never been tried.
    pub fresh: u32,
    /// Slots that are completed.
    pub completed: u32,
    /// Slots that failed and are not tried again.
    pub failed_slots: u32,
    /// The evaluation that places the fresh slots.
    pub evaluation: EvaluationId,
    /// Whether the job has work left: its state is not terminal, or one of its executions is not. A
    /// restart loads exactly these jobs.
    pub live: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionRow {
    pub id: ExecutionId,
    pub job: JobId,
    /// Of the specification that it was offered with.
    pub version: u64,
    pub index: u32,
    pub node: NodeId,
    /// The node's session at the time of the offer.
    pub session: u64,
    pub evaluation: EvaluationId,
    pub resources: Resources,
    pub desired: DesiredState,
    pub desired_message: Text,
    pub compute: ComputeState,
    pub compute_message: Text,
    pub tries: Tries,
    pub previous: Option<ExecutionId>,
    pub followup: Option<EvaluationId>,
    pub revision: u64,
    pub create_time: Timestamp,
    pub modify_time: Timestamp,
    /// When the scheduler offered it to its node.
    pub offered_at: Moment,
    /// When its node accepted it.
    pub accepted_at: Option<Moment>,
    /// When its process started.
    pub started_at: Option<Moment>,
    /// When its process had ended, of one whose results are published after that.
    pub process_ended_at: Option<Moment>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct OutputRow {
    pub id: ExecutionId,
    pub run_output: Option<RunOutput>,
    /// The end of the output of a failed run.
    pub tail: Option<OutputTail>,
    /// Kept with the output of the run.
    pub usage: Option<Usage>,
    /// The same over time.
    pub curve: Option<UsageCurve>,
    pub published_result: Option<PublishedResult>,
}

/// A pending evaluation: a slot to place, either now or when its delay ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingSlotRow {
    pub job: JobId,
    pub index: u32,
    pub evaluation: EvaluationId,
    /// The only node that the slot may run on, for ops and daemon jobs.
    pub pinned: Option<NodeId>,
    pub tries: Tries,
    /// The slot is not placed before this moment; `None` when it is ready.
    pub due: Option<Moment>,
    /// The execution that this slot retries.
    pub previous: Option<ExecutionId>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NodeRow {
    pub id: NodeId,
    pub session: u64,
    pub membership: Membership,
    pub connection: Connection,
    pub eligibility: Eligibility,
    /// Why the node is in this state, in the operator's words.
    pub message: String,
    /// When a drain stops waiting for batch work.
    pub drain_deadline: Option<Moment>,
    /// Wall time, for display only.
    pub last_heartbeat: Timestamp,
    /// When a disconnected node was last heard from.
    pub silent_since: Option<Moment>,
    pub grant: Grant,
    /// When it first joined since it was last forgotten.
    pub joined_at: Moment,
    /// Since when it has had no execution of a job that is no daemon, for display; `None` if it has
    /// one, or if it is unknown.
    pub idle_since: Option<Timestamp>,
    /// An operator forgot it: it is removed once nothing is left on it.
    pub is_forgotten: bool,
    pub health: Health,
    /// How far its history is, and what it says.
    pub history: History,
    pub record: Arc<SessionRequest>,
}

/// The lease of a node, in whole seconds. It is stored because an agent keeps to the lease that it
/// was granted, even if the next orchestrator process is configured with another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Grant {
    /// What the answers to its heartbeats say.
    pub lease: Duration,
    /// What its agent keeps to: the answer before the last one said it.
    pub kept: Duration,
}

/// One event of the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRow {
    /// Global and consecutive, starting at 1.
    pub seq: u64,
    pub time: Timestamp,
    pub revision: u64,
    pub comment: Text,
    pub subject: EventSubject,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventSubject {
    Job {
        job: JobId,
        previous: JobStateType,
        new: JobStateType,
    },
    Execution {
        job: JobId,
        id: ExecutionId,
        node: NodeId,
        previous: ComputeState,
        new: ComputeState,
    },
    /// Belongs to no job, and to no namespace.
    Node {
        node: NodeId,
        previous: NodeStateType,
        new: NodeStateType,
    },
}

/// Messages that are sent once the changes are on disk.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Notify the node of a change in its desired state.
    Assign { node: NodeId, change: AssignmentChange },
    /// Close the node's assignments stream because its session ended.
    CloseStream { node: NodeId },
}

/// Events for metrics and traces that are not stored; no decision depends on them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// A slot was placed on a node.
    Placed {
        execution: ExecutionId,
        job: JobId,
        index: u32,
        at: Timestamp,
        /// When the job was submitted.
        submitted: Timestamp,
        /// The slot existed from the start and was never tried before.
        is_first: bool,
    },
    /// The process of an execution started.
    Started { at: Timestamp, submitted: Timestamp, placed: Timestamp, is_first: bool },
    /// A node was silent for a whole lease.
    LeaseEnded,
    /// A node takes no work for a while, after failures of the node or a failed probe.
    BackedOff,
    /// A slot failed and is not tried again.
    SlotFailed,
    /// A job reached a terminal state.
    JobEnded {
        job: JobId,
        job_type: JobType,
        state: JobStateType,
        at: Timestamp,
        submitted: Timestamp,
    },
}

/// The desired state of one execution.
#[derive(Debug, Clone, PartialEq)]
pub struct AssignmentChange {
    pub execution: ExecutionId,
    pub desired: DesiredState,
    /// What the node last reported.
    pub compute: ComputeState,
    pub message: Text,
    /// What the node needs to run it; the job's specification is read from the store.
    pub work: Option<WorkOrder>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkOrder {
    pub job: JobId,
    /// Of the specification.
    pub version: u64,
    pub index: u32,
    pub count: u32,
    pub resources: Resources,
}

// === impl JobRow ===

impl JobRow {
    /// Counts an execution that goes from one state to another at this time; returns whether that
    /// changes the row.
    pub(crate) fn count(&mut self, from: ComputeState, to: ComputeState, time: Timestamp) -> bool {
        let runs = |state| state == ComputeState::BidAccepted;
        let (was_running, is_running) = (runs(from), runs(to));
        let fails = from != to && to == ComputeState::Failed;
        if is_running && self.start_time.is_none() {
            self.start_time = Some(time);
        }
        self.running += u32::from(is_running);
        self.running -= u32::from(was_running);
        self.failed += u32::from(fails);
        was_running != is_running || fails
    }
}

// === impl EventRow ===

impl EventRow {
    /// The job whose history has the event; none for an event of a node.
    pub fn job(&self) -> Option<JobId> {
        match self.subject {
            EventSubject::Job { job, .. } | EventSubject::Execution { job, .. } => Some(job),
            EventSubject::Node { .. } => None,
        }
    }

    pub fn event_type(&self) -> EventType {
        match self.subject {
            EventSubject::Job { .. } => EventType::JobLevel,
            EventSubject::Execution { .. } => EventType::ExecutionLevel,
            EventSubject::Node { .. } => EventType::NodeLevel,
        }
    }
}

// === impl Changes ===

impl Changes {
    pub fn is_empty(&self) -> bool {
        let Self {
            new_jobs,
            jobs,
            executions,
            outputs,
            successors,
            unplaced,
            pending_slots,
            outcomes,
            first_failures,
            begun,
            new_graphs,
            released,
            nodes,
            events,
        } = self;
        new_jobs.is_empty()
            && jobs.is_empty()
            && executions.is_empty()
            && outputs.is_empty()
            && successors.is_empty()
            && unplaced.is_empty()
            && pending_slots.is_empty()
            && outcomes.is_empty()
            && first_failures.is_empty()
            && begun.is_empty()
            && new_graphs.is_empty()
            && released.is_empty()
            && nodes.is_empty()
            && events.is_empty()
    }
}
