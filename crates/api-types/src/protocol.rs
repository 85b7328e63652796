//! The protocol between agent and orchestrator; `docs/api.md`, "Agent protocol".
//!
//! The agent always dials out. A session has a number (its epoch): the orchestrator increments it
//! at every join of the node and refuses messages of older sessions with `StaleSession`, upon which
//! the agent joins again. The assignments stream is level-triggered: it opens with every live
//! execution of the node, so that a lost message only causes a delay.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::execution::{ComputeState, DesiredState, PublishedResult, RunOutput};
use crate::id::{ExecutionId, JobId, NodeId};
use crate::job::{JobType, Task};
use crate::log::{OutputTail, StreamRequest};
use crate::node::{ComputeNodeInfo, Membership};
use crate::quantity::Capacity;
use crate::usage::{Usage, UsageRequest};
use crate::version::VersionRecord;

/// Bytes of a report's message, and of the reason in its output.
pub const MAX_MESSAGE_BYTES: usize = 16 << 10;

/// Bytes of the location of a result, as JSON.
pub const MAX_RESULT_BYTES: usize = 16 << 10;

/// Most reports in one batch; the agent splits larger ones.
pub const MAX_REPORTS_PER_BATCH: usize = 1000;

/// Longest interval between two lines of the assignments stream. After three silent intervals the
/// agent considers the stream dead and opens another.
pub const KEEP_ALIVE_SECONDS: u64 = 10;

/// Heartbeats per lease: two may be lost on the way.
const HEARTBEATS_PER_LEASE: u64 = 3;

/// `PUT …/nodes/:nodeID/session`: join or rejoin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct SessionRequest {
    pub addrs: Vec<String>,
    pub labels: BTreeMap<String, String>,
    /// The orchestrator ignores `AvailableCapacity` and the counts: it keeps its own account.
    pub compute_node_info: ComputeNodeInfo,
    /// Resources of a task that requests none.
    pub default_resources: Capacity,
    pub service_version: VersionRecord,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct SessionAnswer {
    /// The epoch, repeated in heartbeats, reports and the stream request of this session.
    pub session: u64,
    /// The node counts as silent when it has not renewed its lease for this long.
    pub lease_seconds: u64,
    pub heartbeat_seconds: u64,
    pub membership: Membership,
}

/// `PUT …/nodes/:nodeID/heartbeat`: renews the lease.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct Heartbeat {
    pub session: u64,
    /// Resources that the agent's executions hold.
    pub used_capacity: Capacity,
    pub running_executions: u64,
    /// Executions that are accepted and not yet started.
    pub enqueued_executions: u64,
    /// For how long the part of the agent that decides has not finished what it is at; 0 when it
    /// is idle. A node that hangs is offered nothing.
    #[serde(default)]
    pub stalled_millis: u64,
    /// The lease that the agent keeps to, of the last answer that it has read; 0 from an agent of a
    /// release that does not say so.
    #[serde(default)]
    pub lease_seconds: u64,
}

impl Heartbeat {
    /// The lease that the agent keeps to, if it says so.
    pub fn lease(&self) -> Option<Duration> {
        (self.lease_seconds > 0).then(|| Duration::from_secs(self.lease_seconds))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct HeartbeatAnswer {
    /// The node is taken for silent when it has not renewed for this long.
    pub lease_seconds: u64,
    pub heartbeat_seconds: u64,
}

impl HeartbeatAnswer {
    /// Grants this lease; the interval leaves room for two lost heartbeats.
    pub fn granting(lease: Duration) -> Self {
        let lease_seconds = lease.as_secs().max(1);
        Self { lease_seconds, heartbeat_seconds: (lease_seconds / HEARTBEATS_PER_LEASE).max(1) }
    }
}

/// One line of `GET …/nodes/:nodeID/assignments?session=N`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "Type")]
pub enum AssignmentLine {
    /// The first line: this many `Assignment` lines follow, and they are complete. The agent
    /// stops any other execution it has.
    Snapshot {
        #[serde(rename = "Executions")]
        executions: u64,
    },
    Assignment(Box<Assignment>),
    /// Requests task output. It is no part of the desired state: the next stream does not repeat
    /// a lost request, the reader's request is repeated instead.
    Stream(StreamRequest),
    /// Requests what the executions of the node use; lost like a request for output.
    Usage(UsageRequest),
    KeepAlive,
    /// From a newer release; agents skip it.
    #[serde(other)]
    Unknown,
}

/// The desired state of one execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Assignment {
    #[serde(rename = "ExecutionID")]
    pub execution_id: ExecutionId,
    /// `Pending` offers the execution to the node, `Running` starts it, `Stopped` stops it.
    #[serde(rename = "DesiredState")]
    pub desired_state: DesiredState,
    /// The last state that the orchestrator knows. A node without a record of an execution that it
    /// once accepted reports it as failed and never runs it a second time.
    #[serde(rename = "ComputeState")]
    pub compute_state: ComputeState,
    /// Why to stop; empty otherwise.
    #[serde(rename = "Message", default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Present in an offer and in a snapshot (except for stops), absent in a change.
    #[serde(rename = "Work", default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
}

/// Everything that a node needs to run an execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Work {
    #[serde(rename = "JobID")]
    pub job_id: JobId,
    #[serde(rename = "JobName")]
    pub job_name: String,
    #[serde(rename = "Namespace")]
    pub namespace: String,
    #[serde(rename = "JobType")]
    pub job_type: JobType,
    /// The slot of the job that this execution fills, from 0.
    #[serde(rename = "Index")]
    pub index: u32,
    #[serde(rename = "Count")]
    pub count: u32,
    /// Resources reserved for the execution.
    #[serde(rename = "Resources")]
    pub resources: Capacity,
    #[serde(rename = "Task")]
    pub task: Task,
    /// The span of the execution in the format of the W3C header `traceparent`; absent when the
    /// job is not traced.
    #[serde(rename = "Traceparent", default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

// === impl Work ===

impl Work {
    /// Without what only a run needs: a finished execution is kept for its outcome, and a
    /// specification may have megabytes.
    #[must_use]
    pub fn outline(&self) -> Self {
        let mut work = self.clone();
        work.task.env.clear();
        work.task.meta.clear();
        work.task.input_sources.clear();
        work.task.result_paths.clear();
        work.task.engine.params.clear();
        work.task.publisher.params.clear();
        work.task.network.domains.clear();
        work
    }
}

/// `PUT …/nodes/:nodeID/executions`: a batch of observed states.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ReportBatch {
    pub session: u64,
    #[cfg_attr(feature = "openapi", schema(max_items = 1000))]
    pub reports: Vec<Report>,
}

/// The state of one execution as the node observed it.
///
/// `ComputeState` is one of `AskForBidAccepted`, `AskForBidRejected`, `BidAccepted` (the process
/// started), `Completed`, `Failed`, `Cancelled`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Report {
    #[serde(rename = "ExecutionID")]
    pub execution_id: ExecutionId,
    /// Number of the report within its execution, from 1.
    #[serde(rename = "Sequence")]
    pub sequence: u64,
    #[serde(rename = "ComputeState")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::openapi::ReportedState))]
    pub compute_state: ComputeState,
    /// In a repeated `BidAccepted`: the process has ended, and its results are being collected and
    /// published. Of its room, only the disk is still in use.
    #[serde(rename = "ProcessEnded", default, skip_serializing_if = "is_false")]
    pub process_ended: bool,
    /// The reason, for the user.
    #[serde(rename = "Message", default)]
    pub message: String,
    /// For `Failed`: who caused the failure.
    #[serde(rename = "Cause", default)]
    pub cause: FailureCause,
    #[serde(rename = "RunOutput", default, skip_serializing_if = "Option::is_none")]
    pub run_output: Option<RunOutput>,
    #[serde(rename = "PublishedResult", default, skip_serializing_if = "Option::is_none")]
    pub published_result: Option<PublishedResult>,
    /// Of a failed run that printed more than `RunOutput` holds.
    #[serde(rename = "Tail", default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<OutputTail>,
    /// Of a process that has ended.
    #[serde(rename = "Usage", default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

// === impl Report ===

impl Report {
    /// A report that says nothing but the state.
    pub fn new(execution_id: ExecutionId, sequence: u64, compute_state: ComputeState) -> Self {
        Self {
            execution_id,
            sequence,
            compute_state,
            process_ended: false,
            message: String::new(),
            cause: FailureCause::default(),
            run_output: None,
            published_result: None,
            tail: None,
            usage: None,
        }
    }

    /// Cuts its texts to [`MAX_MESSAGE_BYTES`]: they may quote what a task or a server said.
    pub fn cut_texts(&mut self) {
        cut_message(&mut self.message);
        if let Some(output) = &mut self.run_output {
            cut_message(&mut output.runner_error);
        }
    }

    /// The report with the state and its cause, and with this message alone: what else it says is
    /// not accepted.
    pub fn bare(&self, message: String) -> Self {
        let Self { execution_id, sequence, compute_state, process_ended, cause, .. } = *self;
        let bare = Self::new(execution_id, sequence, compute_state);
        Self { process_ended, cause, message, ..bare }
    }
}

/// Cuts a message for users to [`MAX_MESSAGE_BYTES`], visibly.
pub fn cut_message(text: &mut String) {
    /// Ends a text that was cut.
    const CUT: &str = " […]";
    if text.len() > MAX_MESSAGE_BYTES {
        text.truncate(text.floor_char_boundary(MAX_MESSAGE_BYTES - CUT.len()));
        text.push_str(CUT);
        text.shrink_to_fit();
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// Who caused a failure; it decides which retry budget is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum FailureCause {
    /// The task: its exit code, or a limit it exceeded. `RetryPolicy` decides.
    #[default]
    Task,
    /// The execution timeout: the job fails regardless of its policy.
    Timeout,
    /// Its image, module or an input cannot be had on this node. Tried again on another node, and
    /// never held against the node.
    Fetch,
    /// Something that its task names does not exist yet, on whichever node: a secret, or
    /// credentials. The job waits for it as a whole, and no budget is charged.
    Missing,
    /// Any other failure that is not the task's own, such as an error of the agent or the engine.
    /// Tried again on another node, and held against this one.
    Node,
    /// Nothing failed: the node had no room after all, or is told to give the execution up.
    Room,
    /// The results of a run cannot be published. The slot has failed and the task is not run again.
    Publish,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ReportAnswer {
    pub acknowledged: Vec<Acknowledgement>,
}

/// The report is on disk, or was not needed; the agent may delete it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Acknowledgement {
    #[serde(rename = "ExecutionID")]
    pub execution_id: ExecutionId,
    #[serde(rename = "Sequence")]
    pub sequence: u64,
}

/// An execution as the agent itself shows it: `GET /api/v1/agent/executions[/:id]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LocalExecution {
    #[serde(rename = "ID")]
    pub id: ExecutionId,
    #[serde(rename = "JobID")]
    pub job_id: JobId,
    #[serde(rename = "NodeID")]
    pub node_id: NodeId,
    /// The phase of the execution on this node, in one word.
    #[serde(rename = "Phase")]
    pub phase: String,
    #[serde(rename = "DesiredState")]
    pub desired_state: DesiredState,
    #[serde(rename = "Message")]
    pub message: String,
}

/// Response of `GET /api/v1/agent/executions`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ListLocalExecutions {
    pub executions: Vec<LocalExecution>,
}
