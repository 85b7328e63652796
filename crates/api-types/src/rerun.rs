//! Reruns: a new job for indexes of one that has ended.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::JobId;
use crate::word::words;

/// Meta of a rerun: the ID of the job whose indexes it runs again.
pub const RERUN_OF: &str = "service.org/rerun-of";

/// Meta of a rerun: the `SERVICE_EXECUTION_COUNT` of its executions, which is that of the job that
/// ran first.
pub const EXECUTION_COUNT: &str = "service.org/execution-count";

words! {
    /// Which indexes run again.
    Only, "a choice of indexes", {
        All = "All",
        Failed = "Failed",
        /// Those that failed, were cancelled, or never ran.
        NotCompleted = "NotCompleted",
    }
}

/// Body of Rerun Job; every field is optional.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct RerunJobRequest {
    /// `All`, `Failed`, or `NotCompleted`, which includes what was cancelled or never ran. `All`
    /// when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<String>,
    /// Of these, only the indexes in this list, such as `3,17,90-99`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub indexes: Option<String>,
    /// Changes of the job as a JSON Merge Patch (RFC 7396). The entry of `Tasks` is merged with the
    /// task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub patch: Option<Value>,
    /// Also runs, as a graph with it, everything that did not run because of the job: what failed or
    /// was stopped for a condition on it, and so on. The response is that of Create Graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub downstream: Option<bool>,
}

/// A job that runs after the one on which it depends has run again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct DownstreamJob {
    /// The job that did not run.
    #[serde(rename = "JobID")]
    pub job_id: JobId,
    pub name: String,
    /// Those that would run, as `3,17,90-99`, shortened like `Indexes`; empty if its nodes are chosen
    /// when it is placed.
    pub indexes: String,
}

// === impl Only ===

impl Only {
    /// What no index did if none is of this kind.
    pub const fn said(self) -> &'static str {
        match self {
            Self::All => "is there",
            Self::Failed => "failed",
            Self::NotCompleted => "is left to complete",
        }
    }
}

/// The number of indexes that the executions of a job with this Meta are told; 0 for its own.
pub fn told_count(meta: &BTreeMap<String, String>) -> u32 {
    meta.get(EXECUTION_COUNT).and_then(|count| count.parse().ok()).unwrap_or(0)
}
