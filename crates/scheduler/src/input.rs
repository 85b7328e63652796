//! Everything that can make the orchestrator act, and what a caller is answered.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use core::time::Duration;

use api_types::job::{JobSpec, JobStateType};
use api_types::node::{Membership, NodeAction};
use api_types::protocol::{Acknowledgement, Heartbeat, Report, SessionRequest};
use api_types::{EvaluationId, ExecutionId, JobId, NodeId};

use crate::change::AssignmentChange;
use crate::silence::Heard;

/// One reason to act. Ids that the caller must know come in with it.
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
    /// Heartbeats, as their arrivals were noted beside the queue.
    Heard(Vec<Heard>),
    /// Nobody could be heard for this long.
    WasDeaf(Duration),
    /// The node opened its assignments stream and wants the whole desired state.
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
    /// Forget a disconnected node; with `now`, what it still has is given up first.
    ForgetNode {
        node: NodeId,
        now: bool,
    },
    /// Time has passed: leases, retries and timeouts are looked at.
    Tick,
}

/// A checked and normalised job.
#[derive(Debug, Clone)]
pub struct Submit {
    pub id: JobId,
    pub spec: Arc<JobSpec>,
    /// `spec` as JSON, as it is stored and sent.
    pub spec_json: Arc<str>,
}

/// What the caller of an input is told once its changes are on disk.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Submitted {
        job: JobId,
        evaluation: EvaluationId,
    },
    Stopped {
        evaluation: EvaluationId,
    },
    Joined {
        session: u64,
        membership: Membership,
        lease: Duration,
    },
    /// The lease runs anew.
    Renewed {
        lease: Duration,
    },
    /// Every live execution of the node.
    Assignments(Vec<AssignmentChange>),
    Acknowledged(Vec<Acknowledgement>),
    Done,
    Refused(Refusal),
}

/// Why an input was not carried out; nothing was changed by it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Not among the live jobs; the store knows whether it ended or never was.
    #[error("job {0} is not live")]
    JobNotLive(JobId),
    /// The job is being stopped or has ended; its last executions are still going down.
    #[error("job {job} is {state} already")]
    JobFinished { job: JobId, state: JobStateType },
    #[error("a job with the ID {0} exists already")]
    JobExists(JobId),
    #[error("no node has the ID {0}")]
    NoSuchNode(NodeId),
    #[error("session {came} of node {node} was replaced by session {current}")]
    StaleSession { node: NodeId, came: u64, current: u64 },
    /// The node was taken for lost; it has to join again.
    #[error("the lease of node {0} ran out")]
    LeaseExpired(NodeId),
    #[error("node {0} was rejected by an operator")]
    NodeRejected(NodeId),
    #[error("node {0} is connected; only a disconnected node can be forgotten")]
    NodeConnected(NodeId),
    /// Its executions may still run.
    #[error("node {node} is silent and has {executions} executions that may still run")]
    NodeBusy { node: NodeId, executions: usize },
}

/// A report that named an execution the scheduler does not know is acknowledged all the same: the
/// execution ended long ago, and the agent should forget it.
pub fn acknowledge(report: &Report) -> Acknowledgement {
    Acknowledgement { execution_id: report.execution_id, sequence: report.sequence }
}

/// Which execution a report is about, for logs.
pub fn subject(report: &Report) -> ExecutionId {
    report.execution_id
}
