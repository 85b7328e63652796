//! Every input that can make the orchestrator act, and the answers to them.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use api_types::job::{JobSpec, JobStateType};
use api_types::node::{GivenLabels, Membership, NodeAction};
use api_types::protocol::{Acknowledgement, Heartbeat, Report, SessionRequest};
use api_types::{Code, EvaluationId, ExecutionId, GraphId, JobId, NodeId};

use crate::change::{AssignmentChange, NamedJob};
use crate::queue::quota::Entitlement;
use crate::rerun::{MAX_RANGES, Rerun};
use crate::silence::HeartbeatArrival;

/// One input. IDs that the caller must know are part of it.
#[derive(Debug, Clone)]
pub enum Input {
    Submit(Box<Submit>),
    Stop {
        job: JobId,
        reason: String,
    },
    Join {
        node: NodeId,
        request: Box<SessionRequest>,
    },
    Heartbeat {
        node: NodeId,
        heartbeat: Heartbeat,
    },
    /// Heartbeats, recorded on arrival outside the queue.
    Heard(Vec<HeartbeatArrival>),
    /// The orchestrator could not receive heartbeats for this long.
    MissedHeartbeats(Duration),
    /// The node opened its assignments stream and requests its complete desired state.
    OpenAssignments {
        node: NodeId,
        session: u64,
    },
    Reports {
        node: NodeId,
        session: u64,
        reports: Vec<Report>,
    },
    NodeAction {
        node: NodeId,
        action: NodeAction,
        message: String,
    },
    /// The specification that an execution needs before it starts cannot be read from the store.
    Unreadable {
        execution: ExecutionId,
        reason: String,
    },
    /// People give the node these labels, in place of those that they gave it before.
    LabelNode {
        node: NodeId,
        given: GivenLabels,
    },
    /// Something that jobs of the namespace may wait for exists now.
    Provided {
        namespace: String,
    },
    /// The concurrency group has this limit from now on; `None` removes it.
    Group {
        namespace: String,
        name: String,
        limit: Option<u32>,
    },
    /// The namespace is entitled to this from now on.
    Entitle {
        namespace: String,
        to: Entitlement,
    },
    /// Forget a disconnected node; with `now`, its remaining work is given up first.
    ForgetNode {
        node: NodeId,
        now: bool,
    },
    /// All jobs of a graph, or none.
    SubmitGraph(Box<SubmitGraph>),
    /// Stop those of these jobs that go on, all in one turn.
    StopJobs {
        jobs: Vec<JobId>,
        reason: String,
    },
    /// Time has passed: the scheduler checks leases, retries and timeouts.
    Tick,
}

/// A validated and normalised job.
#[derive(Debug, Clone)]
pub struct Submit {
    pub id: JobId,
    pub spec: Arc<JobSpec>,
    /// `spec` as JSON, in the form that is stored and sent.
    pub spec_json: Arc<str>,
    /// What is stored of the jobs that it depends on.
    pub named: Vec<NamedJob>,
    /// The slots of another job that it runs, instead of as many as it counts.
    pub rerun: Option<Arc<Rerun>>,
}

/// Validated jobs that depend on each other, without a cycle.
#[derive(Debug, Clone)]
pub struct SubmitGraph {
    pub id: GraphId,
    pub name: String,
    pub namespace: String,
    /// By their names within the graph.
    pub jobs: Vec<(String, Submit)>,
}

/// The answer to an input, returned once its changes are on disk.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Submitted {
        job: JobId,
        evaluation: EvaluationId,
    },
    Stopped {
        evaluation: EvaluationId,
    },
    /// How many jobs were stopped.
    StoppedJobs(u32),
    Joined {
        session: u64,
        membership: Membership,
        lease: Duration,
    },
    /// The lease was renewed.
    Renewed {
        lease: Duration,
        /// The number of the probe that the agent is asked for.
        probe: Option<u64>,
    },
    /// Every live execution of the node.
    Assignments(Vec<AssignmentChange>),
    Acknowledged(Vec<Acknowledgement>),
    Done,
    Refused(Refusal),
}

/// Why an input was refused; a refused input changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Not among the live jobs; the store knows whether it has ended or never existed.
    #[error("job {0} is not live")]
    JobNotLive(JobId),
    /// The job is being stopped or has ended; its last executions are still stopping.
    #[error("job {job} is {state} already")]
    JobFinished { job: JobId, state: JobStateType },
    #[error("a job with the ID {0} exists already")]
    JobExists(JobId),
    #[error("the concurrency group '{0}' does not exist in the job's namespace")]
    NoSuchGroup(String),
    /// A job that replaces others would have to stop several.
    #[error(
        "OnConflict Replace needs a concurrency group with Limit 1, and '{name}' has Limit {limit}"
    )]
    GroupShared { name: String, limit: u32 },
    #[error("the concurrency group '{name}' is in use; live jobs that name it: {jobs}")]
    GroupInUse { name: String, jobs: usize },
    /// One that a job depends on was removed, or never existed.
    #[error("job '{name}' ({job}), on which the job depends, is no longer there")]
    DependencyMissing { job: JobId, name: String },
    /// An ops job was to run a slot again, and its node cannot.
    #[error("index {index} runs on node '{node}' only, which {why}; leave it out with Indexes")]
    SlotWithoutNode { index: u32, node: String, why: &'static str },
    #[error(
        "the live jobs of namespace '{namespace}' run scattered indexes in {ranges} ranges, and \
         this one would add {more} to the {MAX_RANGES} allowed; wait until one of them has ended, \
         or name fewer Indexes"
    )]
    TooScattered { namespace: String, ranges: u64, more: u64 },
    #[error(
        "{} would be queued, and the quota of namespace '{namespace}' allows {most}; {queued} wait \
         now",
        executions(*.slots)
    )]
    QuotaExceeded { namespace: String, slots: u64, queued: u64, most: u64 },
    /// However few wait.
    #[error(
        "{} would be queued, and the quota of namespace '{namespace}' allows {most}",
        executions(*.slots)
    )]
    TooManySlots { namespace: String, slots: u64, most: u64 },
    #[error("no node has the ID {}", .0.short())]
    NoSuchNode(NodeId),
    #[error("session {came} of node {} was replaced by session {current}", .node.short())]
    StaleSession { node: NodeId, came: u64, current: u64 },
    /// The scheduler considers the node lost; it has to join again.
    #[error("the lease of node {} ran out", .0.short())]
    LeaseExpired(NodeId),
    #[error(
        "another agent with the identity of this node is connected and runs on '{machine}': this one \
         has a copy of its data directory"
    )]
    SecondAgent { node: NodeId, machine: String },
    /// The agent has taken over from one that may still be alive.
    #[error("reports wait until it is certain that no other agent has the identity of this node")]
    AgentOnTrial(NodeId),
    #[error("node {} was rejected by an operator", .0.short())]
    NodeRejected(NodeId),
    #[error("node {} is connected; only a disconnected node can be forgotten", .0.short())]
    NodeConnected(NodeId),
    /// Its executions may still run.
    #[error("node {} is silent and has {executions} executions that may still run", .node.short())]
    NodeBusy { node: NodeId, executions: usize },
}

// === impl Submit ===

impl Submit {
    /// A job that depends on no other, with slots from 0 on.
    pub fn new(id: JobId, spec: Arc<JobSpec>, spec_json: Arc<str>) -> Self {
        Self { id, spec, spec_json, named: Vec::new(), rerun: None }
    }
}

// === impl Refusal ===

impl Refusal {
    /// By which a caller tells refusals apart.
    pub fn code(&self) -> Code {
        match self {
            Self::JobNotLive(_) => Code::JobNotFound,
            Self::JobFinished { .. } => Code::JobFinished,
            Self::JobExists(_) => Code::JobExists,
            Self::NoSuchGroup(_) | Self::GroupShared { .. } => Code::InvalidJob,
            Self::QuotaExceeded { .. } => Code::QuotaExceeded,
            Self::TooManySlots { .. } => Code::InvalidJob,
            Self::GroupInUse { .. } => Code::Conflict,
            Self::DependencyMissing { .. } => Code::InvalidJob,
            Self::NoSuchNode(_) => Code::NodeNotFound,
            Self::StaleSession { .. } | Self::LeaseExpired(_) => Code::StaleSession,
            Self::NodeRejected(_) => Code::Forbidden,
            Self::AgentOnTrial(_) | Self::TooScattered { .. } => Code::TooManyRequests,
            Self::NodeConnected(_)
            | Self::NodeBusy { .. }
            | Self::SecondAgent { .. }
            | Self::SlotWithoutNode { .. } => Code::NodeConflict,
        }
    }
}

fn executions(slots: u64) -> String {
    let noun = if slots == 1 { "execution" } else { "executions" };
    format!("{slots} {noun}")
}

/// Acknowledges a report. This includes reports about executions unknown to the scheduler: such an
/// execution ended long ago, and the agent should forget it.
pub fn acknowledge(report: &Report) -> Acknowledgement {
    Acknowledgement { execution_id: report.execution_id, sequence: report.sequence }
}

/// The execution that a report is about, for logs.
pub fn subject(report: &Report) -> ExecutionId {
    report.execution_id
}
