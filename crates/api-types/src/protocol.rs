//! The protocol between agent and orchestrator; `docs/api.md`, "Agent protocol".
//!
//! The agent always dials out. A session has a number (its epoch): the orchestrator increments it
//! at every join of the node and refuses messages of older sessions with `StaleSession`, upon which
//! the agent joins again. The assignments stream is level-triggered: it opens with every live
//! execution of the node, so that a lost message only causes a delay.

mod cause;
mod heartbeat;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::curve::UsageCurve;
use crate::execution::{ComputeState, DesiredState, PublishedResult, RunOutput};
use crate::id::{ExecutionId, JobId, NodeId};
use crate::job::{JobType, Task};
use crate::log::{OutputTail, StreamRequest};
use crate::node::{ComputeNodeInfo, Membership};
use crate::quantity::Capacity;
use crate::usage::{Usage, UsageRequest};
use crate::version::VersionRecord;

pub use cause::FailureCause;
pub use heartbeat::{Heartbeat, HeartbeatAnswer, ProbeOutcome};

/// Bytes of a report's message, and of the reason in its output.
pub const MAX_MESSAGE_BYTES: usize = 16 << 10;

/// Bytes of the location of a result, as JSON.
pub const MAX_RESULT_BYTES: usize = 16 << 10;

/// Most reports in one batch; the agent splits larger ones.
pub const MAX_REPORTS_PER_BATCH: usize = 1000;

/// Longest interval between two lines of the assignments stream. After three silent intervals the
/// agent considers the stream dead and opens another.
pub const KEEP_ALIVE_SECONDS: u64 = 10;

/// `PUT …/nodes/:nodeID/session`: join or rejoin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct SessionRequest {
    /// The name that the node asks for; empty from an agent of a release without names.
    #[serde(default)]
    pub name: String,
    pub addrs: Vec<String>,
    pub labels: BTreeMap<String, String>,
    /// The orchestrator ignores `AvailableCapacity` and the counts: it keeps its own account.
    pub compute_node_info: ComputeNodeInfo,
    /// Resources of a task that requests none.
    pub default_resources: Capacity,
    pub service_version: VersionRecord,
    /// The agent can be asked for probes: see `HeartbeatAnswer.Probe`.
    #[serde(default)]
    pub probes: bool,
    /// The process of the agent; absent from agents of older releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<AgentProcess>,
}

/// One process of an agent. Two that have the same data directory, or copies of it, differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct AgentProcess {
    /// The name of its host.
    pub machine: String,
    /// The kernel's ID of the boot.
    pub boot: String,
    /// When it started, in nanoseconds since the boot.
    pub started: u64,
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
    /// Causes of failure that this orchestrator knows, beyond those that every release knows. The
    /// agent reports no other cause.
    #[serde(default)]
    pub causes: Vec<String>,
    /// The term of the orchestrator that leads; another one after each change of the leader. Empty
    /// from an orchestrator of an older release.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub term: String,
}

// === impl SessionAnswer ===

impl SessionAnswer {
    /// Of an orchestrator of this release, which grants this lease.
    pub fn granting(session: u64, lease: Duration, membership: Membership) -> Self {
        let HeartbeatAnswer { lease_seconds, heartbeat_seconds, term, probe: _ } =
            HeartbeatAnswer::granting(lease);
        let causes = vec![FailureCause::REFUSED.to_owned()];
        Self { session, lease_seconds, heartbeat_seconds, membership, causes, term }
    }

    /// Whether the orchestrator knows `FailureCause::Refused`.
    pub fn knows_refused(&self) -> bool {
        self.causes.iter().any(|cause| cause == FailureCause::REFUSED)
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
    /// Whether root in a container has no capabilities, because the namespace does not permit them.
    #[serde(rename = "NoCapabilities", default, skip_serializing_if = "is_false")]
    pub no_capabilities: bool,
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
    #[cfg_attr(feature = "openapi", schema(value_type = crate::openapi::schema::ReportedState))]
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
    /// With the cause `Node`: a probe of the agent failed as well, so the node is at fault and not
    /// this execution.
    #[serde(rename = "Confirmed", default, skip_serializing_if = "is_false")]
    pub confirmed: bool,
    /// For `Failed`: the node's agent ended again and again, the last time while it handled this
    /// execution alone. `Cause` is then `Node`, for orchestrators that do not know this field.
    #[serde(rename = "EndedAgent", default, skip_serializing_if = "is_false")]
    pub ended_agent: bool,
    /// With the cause `Fetch`: the server says that it does not exist or is not allowed, so another
    /// try will hear the same.
    #[serde(rename = "Definite", default, skip_serializing_if = "is_false")]
    pub definite: bool,
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
    /// The same over time, of a process that ran for more than an instant.
    #[serde(rename = "Curve", default, skip_serializing_if = "Option::is_none")]
    pub curve: Option<UsageCurve>,
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
            confirmed: false,
            ended_agent: false,
            definite: false,
            run_output: None,
            published_result: None,
            tail: None,
            usage: None,
            curve: None,
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
        let Self { execution_id, sequence, compute_state, process_ended, .. } = *self;
        let Self { cause, confirmed, definite, .. } = *self;
        let bare = Self::new(execution_id, sequence, compute_state);
        Self { process_ended, cause, confirmed, definite, message, ..bare }
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
    /// Empty on the last page. Agents of release 0.1.0 send all executions and no token.
    #[serde(default)]
    pub next_token: String,
}
