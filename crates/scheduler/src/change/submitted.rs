//! What is stored of a submission and never changes.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use api_types::dependency::Dependency;
use api_types::job::JobType;
use api_types::{GraphId, JobId, Timestamp};

use crate::time::Moment;

/// The part of a job that never changes.
#[derive(Debug, Clone)]
pub struct NewJobRow {
    pub id: JobId,
    pub namespace: String,
    pub name: String,
    pub job_type: JobType,
    pub priority: u32,
    pub labels: BTreeMap<String, String>,
    pub create_time: Timestamp,
    /// By the service's own clock.
    pub created_at: Moment,
    /// The `JobSpec` as JSON, of the version that the row has at the same time.
    pub spec_json: Arc<str>,
    /// The jobs that its conditions name.
    pub depends_on: Vec<Dependency>,
    /// What a start needs of it; see [`JobPlan::to_text`](crate::plan::JobPlan::to_text).
    pub plan: Arc<str>,
}

/// Jobs that were submitted together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewGraphRow {
    pub id: GraphId,
    pub namespace: String,
    pub name: String,
    pub create_time: Timestamp,
    /// By their names within the graph.
    pub jobs: Vec<(String, JobId)>,
}
