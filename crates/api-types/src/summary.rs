//! What a list shows of a job: its state and the progress of its executions, without its tasks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::JobId;
use crate::job::{JobState, JobType};
use crate::time::Timestamp;

/// A job without its specification.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct JobSummary {
    #[serde(rename = "ID")]
    pub id: JobId,
    pub name: String,
    pub namespace: String,
    #[serde(rename = "Type")]
    pub job_type: JobType,
    /// 0 to 100, higher first.
    pub priority: u32,
    pub labels: BTreeMap<String, String>,
    pub state: JobState,
    pub executions: ExecutionCounts,
    pub version: u64,
    pub revision: u64,
    pub create_time: Timestamp,
    pub modify_time: Timestamp,
    /// When the process of an execution first started; 0 if none ever did.
    pub start_time: Timestamp,
    /// When the job completed, failed or was stopped; 0 before that.
    pub end_time: Timestamp,
}

/// How far a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ExecutionCounts {
    /// Executions that the job is to have: its `Count`, or one for each of its nodes.
    pub total: u32,
    /// Of these, those that wait for a run; 0 once the job is over.
    pub waiting: u32,
    /// Executions whose process has started and that have not ended.
    pub running: u32,
    /// Of the total, those that have completed.
    pub completed: u32,
    /// Executions that failed so far; each retry counts by itself.
    pub failed: u32,
}

/// Response of List Jobs with `view=summary`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ListJobSummaries {
    pub jobs: Vec<JobSummary>,
    pub next_token: String,
}
