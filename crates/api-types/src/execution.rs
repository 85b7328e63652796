//! Executions: one run of a job on one node, with its desired and its compute state.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::engine::{Params, PublisherType};
use crate::id::{EvaluationId, ExecutionId, JobId, NodeId};
use crate::quantity::Capacity;
use crate::time::Timestamp;
use crate::usage::Usage;

/// Bytes of each stream that `RunOutput` keeps of its beginning, and of its end.
pub const RUN_OUTPUT_BYTES: usize = 2048;

/// The state that the node observed. 4, 6, 7, 8 and 9 are terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "u8", try_from = "u8")]
pub enum ComputeState {
    Undefined = 0,
    New = 1,
    AskForBid = 2,
    AskForBidAccepted = 3,
    AskForBidRejected = 4,
    /// Starting or running.
    BidAccepted = 5,
    BidRejected = 6,
    Completed = 7,
    Failed = 8,
    Cancelled = 9,
}

/// The state that the orchestrator decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "u8", try_from = "u8")]
pub enum DesiredState {
    Pending = 0,
    Running = 1,
    Stopped = 2,
}

/// An execution record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Execution {
    #[serde(rename = "ID")]
    pub id: ExecutionId,
    #[serde(rename = "Namespace")]
    pub namespace: String,
    /// The evaluation that placed it.
    #[serde(rename = "EvalID", with = "crate::serde_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::openapi::schema::EvaluationIdOrEmpty))]
    pub eval_id: Option<EvaluationId>,
    /// `<job name>[<index>]`.
    #[serde(rename = "Name")]
    pub name: String,
    #[serde(rename = "NodeID")]
    pub node_id: NodeId,
    #[serde(rename = "JobID")]
    pub job_id: JobId,
    #[serde(rename = "AllocatedResources")]
    pub allocated_resources: AllocatedResources,
    #[serde(rename = "DesiredState")]
    pub desired_state: DesiredStateRecord,
    #[serde(rename = "ComputeState")]
    pub compute_state: ComputeStateRecord,
    #[serde(rename = "PublishedResult")]
    pub published_result: PublishedResult,
    #[serde(rename = "RunOutput")]
    pub run_output: RunOutput,
    /// Measured when it ended, or just now while it runs; absent where it was not measured.
    #[serde(rename = "Usage", default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The execution that this one retries.
    #[serde(rename = "PreviousExecution", with = "crate::serde_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::openapi::schema::ExecutionIdOrEmpty))]
    pub previous_execution: Option<ExecutionId>,
    /// The execution that retries this one.
    #[serde(rename = "NextExecution", with = "crate::serde_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::openapi::schema::ExecutionIdOrEmpty))]
    pub next_execution: Option<ExecutionId>,
    /// The evaluation that a delayed retry waits for.
    #[serde(rename = "FollowupEvalID", with = "crate::serde_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::openapi::schema::EvaluationIdOrEmpty))]
    pub followup_eval_id: Option<EvaluationId>,
    #[serde(rename = "Revision")]
    pub revision: u64,
    #[serde(rename = "CreateTime")]
    pub create_time: Timestamp,
    #[serde(rename = "ModifyTime")]
    pub modify_time: Timestamp,
}

/// Resources that each task holds on its node, by task name.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase", default)]
pub struct AllocatedResources {
    pub tasks: BTreeMap<String, Capacity>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct DesiredStateRecord {
    pub state_type: DesiredState,
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ComputeStateRecord {
    pub state_type: ComputeState,
    pub message: String,
}

/// What was published and where; the type is empty when nothing was published.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PublishedResult {
    #[serde(rename = "Type")]
    pub publisher_type: PublisherType,
    #[serde(rename = "Params", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub params: Params,
}

/// `Params` of a result of the `s3` publisher.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase", default)]
pub struct S3ResultParams {
    pub bucket: String,
    pub key: String,
    pub region: String,
    /// Base64 of the archive's SHA-256.
    #[serde(rename = "ChecksumSHA256")]
    pub checksum_sha256: String,
    /// Empty when the bucket keeps no versions.
    #[serde(rename = "VersionID")]
    pub version_id: String,
}

/// `Params` of a result of the `local` publisher.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct LocalResultParams {
    /// The URL at which the node serves the archive, for a limited time.
    #[serde(rename = "URL")]
    pub url: String,
}

/// `Params` of a result of the `ipfs` publisher.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct IpfsResultParams {
    #[serde(rename = "CID")]
    pub cid: String,
}

/// The end of a run, with the first and the last [`RUN_OUTPUT_BYTES`] of each stream.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct RunOutput {
    pub stdout: String,
    #[serde(rename = "stdouttruncated")]
    pub stdout_truncated: bool,
    /// The last bytes of a truncated stream, as far as `stdout` does not hold them.
    #[serde(rename = "stdouttail", skip_serializing_if = "String::is_empty")]
    pub stdout_tail: String,
    /// Bytes of a truncated stream in all.
    #[serde(rename = "stdoutbytes", skip_serializing_if = "is_zero")]
    pub stdout_bytes: u64,
    pub stderr: String,
    #[serde(rename = "stderrtruncated")]
    pub stderr_truncated: bool,
    #[serde(rename = "stderrtail", skip_serializing_if = "String::is_empty")]
    pub stderr_tail: String,
    #[serde(rename = "stderrbytes", skip_serializing_if = "is_zero")]
    pub stderr_bytes: u64,
    /// -1 until a process has ended.
    #[serde(rename = "exitCode")]
    pub exit_code: i32,
    /// Why the run failed, unless the reason is the task's exit code.
    #[serde(rename = "runnerError")]
    pub runner_error: String,
    /// Entries below the result paths that were left out of the results, each with the reason: named
    /// pipes, devices, and links that lead out of their result path. Those beyond fifty are counted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub omitted: Vec<String>,
}

/// Entries of `RunOutput.omitted`, the count of the others included, and the bytes of each.
pub const MAX_OMITTED: usize = 51;
pub const MAX_OMITTED_BYTES: usize = 2048;

/// The exit code as long as no process has ended.
pub const NO_EXIT_CODE: i32 = -1;

// === impl RunOutput ===

impl RunOutput {
    /// What there is to say of an execution without a process that ended.
    pub fn none() -> Self {
        Self { exit_code: NO_EXIT_CODE, ..Self::default() }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Response of Describe Execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct DescribeExecution {
    pub execution: Execution,
}

/// Response of Job Executions and of List Live Executions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ListExecutions {
    pub executions: Vec<Execution>,
    pub next_token: String,
}

/// Response of Job Results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ListResults {
    pub results: Vec<PublishedResult>,
    pub next_token: String,
}

// === impl ComputeState ===

impl ComputeState {
    pub const ALL: [Self; 10] = [
        Self::Undefined,
        Self::New,
        Self::AskForBid,
        Self::AskForBidAccepted,
        Self::AskForBidRejected,
        Self::BidAccepted,
        Self::BidRejected,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Undefined
            | Self::New
            | Self::AskForBid
            | Self::AskForBidAccepted
            | Self::BidAccepted => false,
            Self::AskForBidRejected
            | Self::BidRejected
            | Self::Completed
            | Self::Failed
            | Self::Cancelled => true,
        }
    }
}

impl From<ComputeState> for u8 {
    fn from(state: ComputeState) -> Self {
        state as Self
    }
}

/// A number that is no state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a state")]
pub struct UnknownState(u8);

impl TryFrom<u8> for ComputeState {
    type Error = UnknownState;

    fn try_from(number: u8) -> Result<Self, UnknownState> {
        Self::ALL.get(usize::from(number)).copied().ok_or(UnknownState(number))
    }
}

// === impl DesiredState ===

impl From<DesiredState> for u8 {
    fn from(state: DesiredState) -> Self {
        state as Self
    }
}

impl TryFrom<u8> for DesiredState {
    type Error = UnknownState;

    fn try_from(number: u8) -> Result<Self, UnknownState> {
        [Self::Pending, Self::Running, Self::Stopped]
            .get(usize::from(number))
            .copied()
            .ok_or(UnknownState(number))
    }
}

// === impl PublishedResult ===

impl Default for PublishedResult {
    fn default() -> Self {
        Self { publisher_type: PublisherType::None, params: Params::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_compute_state_reads_back_from_its_number() {
        for (number, state) in (0u8..).zip(ComputeState::ALL) {
            assert_eq!(u8::from(state), number);
            assert_eq!(ComputeState::try_from(number), Ok(state));
        }
        assert_eq!(ComputeState::try_from(10), Err(UnknownState(10)));
    }

    #[test]
    fn run_output_has_the_keys_of_the_api() {
        assert_eq!(
            serde_json::to_string(&RunOutput::default()).unwrap(),
            r#"{"stdout":"","stdouttruncated":false,"stderr":"","stderrtruncated":false,"exitCode":0,"runnerError":""}"#
        );
    }
}
