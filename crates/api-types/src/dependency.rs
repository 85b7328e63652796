//! Dependencies: what has to become of other jobs before a job starts.

use serde::{Deserialize, Serialize};

use crate::id::JobId;
use crate::word::words;

/// The most dependencies of one job: each is checked whenever one of them ends.
pub const MAX_DEPENDENCIES: usize = 20;

words! {
    /// What has to become of the other job.
    Condition, "a condition", {
        /// It completes. If it fails, the job fails too; if it is stopped, so is the job.
        Completed = "Completed",
        /// It fails. Otherwise the job is stopped.
        Failed = "Failed",
        /// It completes, fails or is stopped.
        Ended = "Ended",
    }
}

words! {
    /// Which indexes of the other job one of this job waits for.
    Indexes, "a choice of indexes", {
        /// All: nothing of the job starts before the condition holds.
        All = "All",
        /// The same one: each index starts when that of the other job has completed.
        Same = "Same",
    }
}

/// A job that another one waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct Dependency {
    #[serde(rename = "JobID")]
    pub job_id: JobId,
    /// Its name in the graph that both belong to, or else its own name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub job: String,
    pub condition: Condition,
    #[serde(default, skip_serializing_if = "Indexes::is_all")]
    pub indexes: Indexes,
}

// === impl Indexes ===

impl Indexes {
    pub fn is_all(&self) -> bool {
        *self == Self::All
    }
}

#[expect(clippy::derivable_impls, reason = "the macro of words derives no default")]
impl Default for Indexes {
    fn default() -> Self {
        Self::All
    }
}
