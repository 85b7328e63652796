//! What became of the indexes of a job, counted in few numbers however many there are.

use serde::{Deserialize, Serialize};

use crate::id::JobId;

/// Buckets of a response unless the request names another number.
pub const DEFAULT_BUCKETS: u32 = 100;

/// The most buckets of a response.
pub const MAX_BUCKETS: u32 = 1000;

/// Response of Job Slots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct DescribeSlots {
    #[serde(rename = "JobID")]
    pub job_id: JobId,
    /// Indexes of the job: its `Count`, or one for each of its nodes.
    pub total: u32,
    pub completed: u32,
    /// Those that failed and are not tried again.
    pub failed: u32,
    /// Those that have neither completed nor failed.
    pub unfinished: u32,
    /// Of the unfinished, those whose process runs.
    pub running: u32,
    /// The failed indexes, as `3,17,90-99`; a list above 4 KiB ends with `…`.
    pub failed_indexes: String,
    /// Equal ranges of the requested indexes, in order; one that has no index of the job is left
    /// out.
    pub buckets: Vec<SlotBucket>,
}

/// The indexes from `First` to `Last`, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct SlotBucket {
    pub first: u32,
    pub last: u32,
    pub completed: u32,
    pub failed: u32,
    pub unfinished: u32,
}
