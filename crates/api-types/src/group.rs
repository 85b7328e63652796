//! Concurrency groups: limits that jobs of a namespace share.

use serde::{Deserialize, Serialize};

use crate::id::JobId;

/// The most groups that a job may name.
pub const MAX_GROUPS_OF_JOB: usize = 8;

/// The highest limit of a group: as many executions as a job may have.
pub const MAX_GROUP_LIMIT: u32 = 1_000_000;

/// A concurrency group of its namespace, and how it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct Group {
    pub name: String,
    pub namespace: String,
    /// Executions of its jobs that may be live at the same time; 0 pauses it.
    pub limit: u32,
    /// Executions of its jobs that are live.
    pub running: u32,
    /// Jobs that have such executions.
    pub holding: u32,
    /// Jobs that wait for one to end.
    pub waiting: u32,
    /// More wait, which were not counted.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub waiting_is_more: bool,
    /// The jobs that have live executions, at most 100. Lists of groups leave them out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<GroupJob>,
    /// The first of the jobs that wait, at most 100. Lists of groups leave them out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiters: Vec<GroupJob>,
    /// RFC 3339, UTC.
    pub create_time: String,
    /// RFC 3339, UTC.
    pub modify_time: String,
}

/// A job of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GroupJob {
    #[serde(rename = "JobID")]
    pub job_id: JobId,
    #[serde(rename = "Name")]
    pub name: String,
    /// Live executions of the job.
    #[serde(rename = "Executions", default, skip_serializing_if = "is_zero")]
    pub executions: u32,
}

/// The body of Put Group.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase", default)]
pub struct PutGroup {
    /// Required: 0 to 1000000; 0 pauses the group.
    #[cfg_attr(feature = "openapi", schema(required = true, value_type = i64, minimum = 0, maximum = 1000000))]
    pub limit: Option<i64>,
}

/// Response of List Groups.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ListGroups {
    pub groups: Vec<Group>,
}

/// Response of Describe, Put and Delete Group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct DescribeGroup {
    pub group: Group,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}
