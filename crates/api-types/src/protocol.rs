//! What an agent and the orchestrator say to each other; `docs/api.md`, "Agent protocol".
//!
//! The agent always dials out. A session has a number (its epoch): the orchestrator counts it up
//! at every join of the node, and refuses what comes under an older one with `StaleSession`, on
//! which the agent joins again. The assignments stream is level-triggered: it opens with every
//! live execution of the node, so that a lost message can only delay.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::execution::{ComputeState, DesiredState, PublishedResult, RunOutput};
use crate::id::{ExecutionId, JobId, NodeId};
use crate::job::{JobType, Task};
use crate::log::StreamRequest;
use crate::node::{ComputeNodeInfo, Membership};
use crate::quantity::Capacity;
use crate::version::VersionRecord;

/// The most reports one batch may carry; the agent splits what is more.
pub const MAX_REPORTS_PER_BATCH: usize = 1000;

/// How often the assignments stream carries a line, at least; after three silent intervals the
/// agent takes the stream for dead and opens another.
pub const KEEP_ALIVE_SECONDS: u64 = 10;

/// `PUT …/nodes/:nodeID/session`: join or rejoin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct SessionRequest {
    pub addrs: Vec<String>,
    pub labels: BTreeMap<String, String>,
    /// `AvailableCapacity` and the counts in it are not looked at: the orchestrator debits.
    pub compute_node_info: ComputeNodeInfo,
    /// What a task that asks for nothing gets on this node.
    pub default_resources: Capacity,
    pub service_version: VersionRecord,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct SessionAnswer {
    /// The epoch that heartbeats, reports and the stream of this session carry.
    pub session: u64,
    /// The node is taken for lost when it has not renewed for this long.
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
    /// What the agent's own executions hold.
    pub used_capacity: Capacity,
    pub running_executions: u64,
    /// Accepted and not started yet.
    pub enqueued_executions: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct HeartbeatAnswer {
    pub lease_seconds: u64,
}

/// One line of `GET …/nodes/:nodeID/assignments?session=N`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "Type")]
pub enum AssignmentLine {
    /// The first line: so many `Assignment` lines follow, and they are all that is desired of
    /// this node. What the agent has beyond them is no longer wanted.
    Snapshot {
        #[serde(rename = "Executions")]
        executions: u64,
    },
    Assignment(Box<Assignment>),
    /// Asks for what a task prints. It is no part of what is desired: one that is lost is not
    /// repeated by the next stream, and whoever waits for the answer asks again.
    Stream(StreamRequest),
    KeepAlive,
    /// Of a newer release; agents pass it over.
    #[serde(other)]
    Unknown,
}

/// What is desired of one execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Assignment {
    #[serde(rename = "ExecutionID")]
    pub execution_id: ExecutionId,
    /// `Pending` asks whether the node takes it, `Running` tells it to run, `Stopped` to stop.
    #[serde(rename = "DesiredState")]
    pub desired_state: DesiredState,
    /// What the orchestrator last heard of it. A node that has no record of an execution that it
    /// once accepted reports it as failed, and never runs it a second time.
    #[serde(rename = "ComputeState")]
    pub compute_state: ComputeState,
    /// Why it is to stop; empty otherwise.
    #[serde(rename = "Message", default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Present with an offer and in a snapshot (unless it is to stop), absent in a change.
    #[serde(rename = "Work", default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
}

/// All that a node needs to know to run an execution.
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
    /// What was debited for it.
    #[serde(rename = "Resources")]
    pub resources: Capacity,
    #[serde(rename = "Task")]
    pub task: Task,
    /// The span of the execution, as the W3C header `traceparent` has it; absent when its job is
    /// not traced.
    #[serde(rename = "Traceparent", default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
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

/// What the node observed of one execution.
///
/// `ComputeState` is one of `AskForBidAccepted`, `AskForBidRejected`, `BidAccepted` (the process
/// started), `Completed`, `Failed`, `Cancelled`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Report {
    #[serde(rename = "ExecutionID")]
    pub execution_id: ExecutionId,
    /// Counts the reports of one execution, from 1.
    #[serde(rename = "Sequence")]
    pub sequence: u64,
    #[serde(rename = "ComputeState")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::openapi::ReportedState))]
    pub compute_state: ComputeState,
    /// Why, in words for the user.
    #[serde(rename = "Message", default)]
    pub message: String,
    /// For `Failed`: whose failure it was.
    #[serde(rename = "Cause", default)]
    pub cause: FailureCause,
    #[serde(rename = "RunOutput", default, skip_serializing_if = "Option::is_none")]
    pub run_output: Option<RunOutput>,
    #[serde(rename = "PublishedResult", default, skip_serializing_if = "Option::is_none")]
    pub published_result: Option<PublishedResult>,
}

/// Whose failure it was: it decides which budget of retries pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum FailureCause {
    /// The task's own: its exit code, a limit it broke. `RetryPolicy` decides.
    #[default]
    Task,
    /// Not the task's: image or input not to be had, an error of the agent or its engine. Tried
    /// again on another node where there is one.
    Node,
    /// The execution timeout: the job fails, whatever its policy.
    Timeout,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ReportAnswer {
    pub acknowledged: Vec<Acknowledgement>,
}

/// The report is on disk, or was not needed; the agent may forget it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Acknowledgement {
    #[serde(rename = "ExecutionID")]
    pub execution_id: ExecutionId,
    #[serde(rename = "Sequence")]
    pub sequence: u64,
}

/// What the agent tells whoever stands at the node: `GET /api/v1/agent/executions[/:id]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LocalExecution {
    #[serde(rename = "ID")]
    pub id: ExecutionId,
    #[serde(rename = "JobID")]
    pub job_id: JobId,
    #[serde(rename = "NodeID")]
    pub node_id: NodeId,
    /// The phase of its life on this machine, in one word.
    #[serde(rename = "Phase")]
    pub phase: String,
    #[serde(rename = "DesiredState")]
    pub desired_state: DesiredState,
    #[serde(rename = "Message")]
    pub message: String,
}

/// Answer to `GET /api/v1/agent/executions`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ListLocalExecutions {
    pub executions: Vec<LocalExecution>,
}
