//! Inputs that are results of other jobs: what a node asks the orchestrator about them.

use serde::{Deserialize, Serialize};

use crate::credential::CredentialValue;
use crate::id::ExecutionId;
use crate::source::SourceSpec;

/// The most indexes whose results one input has: each is an archive that is transferred and unpacked.
pub const MAX_RESULTS: u32 = 1_000;

/// The most archives that one request asks about.
pub const MAX_ARCHIVES_PER_REQUEST: usize = 1_000;

/// The body of Input Results: what is the input of this execution?
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct InputResultsRequest {
    #[serde(rename = "ExecutionID")]
    pub execution_id: ExecutionId,
    /// The place of the input in `InputSources`.
    pub input: u32,
}

/// Response of Input Results.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct InputResults {
    /// The name of the job whose results they are.
    pub job: String,
    /// Whether the execution fails if something is missing; otherwise it is left out.
    pub required: bool,
    /// In order of their indexes.
    pub results: Vec<InputResult>,
    /// Those that the locations of the results name, with their logins.
    pub credentials: Vec<CredentialValue>,
}

/// The results of one index.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct InputResult {
    pub index: u32,
    /// The execution that published them.
    #[serde(rename = "ExecutionID")]
    pub execution_id: ExecutionId,
    /// Where their archive is; absent if its node keeps it, so that the service relays it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceSpec>,
}

/// The body of Input Archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct InputArchiveRequest {
    /// The execution that has the input.
    #[serde(rename = "ExecutionID")]
    pub execution_id: ExecutionId,
    /// The place of the input in `InputSources`.
    pub input: u32,
    /// The execution that published the archive.
    #[serde(rename = "PublishedBy")]
    pub published_by: ExecutionId,
}

/// Executions that published an archive which their node keeps: the body of Needed Archives, at most
/// 1,000, and its response, which has those that jobs depend on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct Archives {
    pub executions: Vec<ExecutionId>,
}
