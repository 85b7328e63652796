//! The job record, as the service stores and returns it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use crate::constraint::{Constraint, OPERATORS};
use crate::dependency::Dependency;
use crate::engine::{EngineSpec, EngineType, NetworkType, Params, PublisherSpec};
use crate::id::{EvaluationId, JobId};
use crate::reason::ReasonGroup;
use crate::secret::TaskSecret;
use crate::source::{InputSource, ResultPath};
use crate::time::Timestamp;
use crate::word::words;

/// The namespace of a job that does not name one.
pub const DEFAULT_NAMESPACE: &str = "default";

/// The most bytes of the name of a namespace.
pub const MAX_NAMESPACE_BYTES: usize = 128;

/// Of a job that says none; a higher one comes first.
pub const DEFAULT_PRIORITY: u32 = 50;

/// The highest one.
pub const MAX_PRIORITY: u32 = 100;

/// Characters of a job's ID in a name that the service made.
pub const GENERATED_DIGITS: usize = 4;

/// The name of a job that was submitted without one: what it runs, and the beginning of its ID.
pub fn generated_name(stem: &str, id: JobId) -> String {
    format!("{stem}-{}", digits(id))
}

/// What such a name begins with; none if the service did not make this name for this job.
pub fn generated_stem(name: &str, id: JobId) -> Option<&str> {
    let stem = name.strip_suffix(&*digits(id))?.strip_suffix('-')?;
    (!stem.is_empty()).then_some(stem)
}

fn digits(id: JobId) -> String {
    let [first, second, ..] = id.uuid().into_bytes();
    format!("{first:02x}{second:02x}")
}

words!(
    /// Determines how many executions a job has, and when it is over.
    JobType, "a job type", {
        /// Runs Count executions to completion.
        Batch = "batch",
        /// Runs one execution on every node that matches when the job is first placed.
        Ops = "ops",
        /// Keeps Count executions running.
        Service = "service",
        /// Keeps one execution running on every matching node, including nodes that join later.
        Daemon = "daemon",
    }
);

words!(
    /// What a new job does to those before it in its concurrency group.
    #[derive(Default)]
    OnConflict, "a way to handle a conflict", {
        /// Waits for a unit.
        #[default]
        Queue = "Queue",
        /// Stops them.
        Replace = "Replace",
    }
);

words!(
    /// The state of a job; the last three are terminal.
    JobStateType, "a job state", {
        /// Accepted; no execution has started yet.
        Pending = "Pending",
        /// Waits for capacity; the message says for what.
        Queued = "Queued",
        Running = "Running",
        Completed = "Completed",
        Failed = "Failed",
        Stopped = "Stopped",
    }
);

impl JobStateType {
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Pending | Self::Queued | Self::Running => false,
            Self::Completed | Self::Failed | Self::Stopped => true,
        }
    }
}

impl JobType {
    /// Whether the job ends by itself; jobs of other types run until they are stopped.
    pub const fn is_finite(self) -> bool {
        match self {
            Self::Batch | Self::Ops => true,
            Self::Service | Self::Daemon => false,
        }
    }
}

/// A job record: specification and state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Job {
    #[serde(rename = "ID")]
    pub id: JobId,
    #[serde(flatten)]
    pub spec: JobSpec,
    #[serde(rename = "State")]
    pub state: JobState,
    /// Incremented when the specification changes, from 1.
    #[serde(rename = "Version")]
    pub version: u64,
    /// Incremented when the record changes, from 1.
    #[serde(rename = "Revision")]
    pub revision: u64,
    #[serde(rename = "CreateTime")]
    pub create_time: Timestamp,
    #[serde(rename = "ModifyTime")]
    pub modify_time: Timestamp,
}

/// A job's specification, with every default filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct JobSpec {
    pub name: String,
    pub namespace: String,
    #[serde(rename = "Type")]
    pub job_type: JobType,
    /// 0 to 100, higher first.
    pub priority: u32,
    pub count: u32,
    /// Executions that may be live at the same time; absent for no limit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub max_running: u32,
    pub constraints: Vec<Constraint>,
    pub meta: BTreeMap<String, String>,
    pub labels: BTreeMap<String, String>,
    pub retry_policy: RetryPolicy,
    /// How many indexes may fail before the job does; -1 for any number.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub max_failed: i32,
    /// Groups of the namespace; each limits how many executions of all its jobs are live.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub concurrency_groups: Vec<String>,
    /// What a new job does to those before it in its group.
    #[serde(default, skip_serializing_if = "OnConflict::is_usual")]
    pub on_conflict: OnConflict,
    /// All of these have to hold before anything of the job starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<Dependency>,
    /// Exactly one.
    pub tasks: Vec<Task>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct JobState {
    pub state_type: JobStateType,
    pub message: String,
    /// Indexes that failed and are not tried again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed_count: u32,
    /// These, as `3,17,90-99`; a list above 4 KiB ends with `…`. Lists of jobs leave it out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub failed_indexes: String,
}

/// How often and how soon a failed run is retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct RetryPolicy {
    /// Total attempts per execution slot; 0 means no limit.
    pub attempts: u32,
    /// Seconds before the first retry; doubles with each retry.
    pub delay: u32,
    /// Upper limit of the delay, in seconds.
    pub max_delay: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct Task {
    pub name: String,
    pub engine: EngineSpec,
    pub publisher: PublisherSpec,
    pub env: BTreeMap<String, String>,
    /// Secrets of the job's namespace; their values are never part of a job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<TaskSecret>,
    pub meta: BTreeMap<String, String>,
    pub input_sources: Vec<InputSource>,
    pub result_paths: Vec<ResultPath>,
    pub resources: TaskResources,
    pub network: NetworkSpec,
    pub timeouts: Timeouts,
}

/// Resources as the user wrote them; empty for the node's default.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct TaskResources {
    #[serde(rename = "CPU")]
    pub cpu: String,
    #[serde(rename = "Memory")]
    pub memory: String,
    #[serde(rename = "Disk")]
    pub disk: String,
    #[serde(rename = "GPU")]
    pub gpu: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct NetworkSpec {
    #[serde(rename = "Type")]
    pub network_type: NetworkType,
    /// Only for `HTTP`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<String>,
}

/// Whole seconds; 0 means none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase", default)]
pub struct Timeouts {
    /// From the start of the task's process.
    pub execution_timeout: u64,
    /// How long an execution may wait to be placed.
    pub queue_timeout: u64,
    /// From the job's creation to its end.
    pub total_timeout: u64,
    /// How long the executions of a silent node are waited for before they are replaced; 0 leaves
    /// it to the service.
    pub lost_after: u64,
}

/// Response of Describe Job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct DescribeJob {
    pub job: Job,
}

/// Response of List Jobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ListJobs {
    pub jobs: Vec<Job>,
    pub next_token: String,
}

/// Response of Create Job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreateJob {
    #[serde(rename = "JobID")]
    pub job_id: JobId,
    #[serde(rename = "EvaluationID")]
    pub evaluation_id: EvaluationId,
    #[serde(rename = "Warnings", default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Response of Stop Job; without an evaluation when the job was already stopped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StopJob {
    #[serde(rename = "EvaluationID", with = "crate::serde_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::openapi::schema::EvaluationIdOrEmpty))]
    pub evaluation_id: Option<EvaluationId>,
}

/// Response of Create Job with `dry_run=true`; nothing was stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct DryRun {
    /// The job as it would be stored.
    pub job: Job,
    /// Of a rerun, the indexes that would run, as `3,17,90-99`; a list above 4 KiB ends with `…`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub indexes: String,
    /// Of a rerun with `Downstream`, the other jobs that would run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub downstream: Vec<crate::rerun::DownstreamJob>,
    pub nodes: Vec<DryRunNode>,
    /// No node could ever take an execution of the job; an unavailable engine does not count.
    #[serde(default)]
    pub hopeless: bool,
    /// Why nodes would not take an execution now, the most frequent reason first.
    #[serde(default)]
    pub groups: Vec<ReasonGroup>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Outcome of a dry run for one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DryRunNode {
    #[serde(rename = "NodeID")]
    pub node_id: crate::id::NodeId,
    /// Whether an execution would be placed on the node now.
    #[serde(rename = "Chosen")]
    pub chosen: bool,
    /// Why not, or how many executions the node would get.
    #[serde(rename = "Reason")]
    pub reason: String,
}

/// Whether a field may be left out.
fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

// === impl OnConflict ===

impl OnConflict {
    /// Whether a specification leaves it out.
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

// === impl JobState ===

impl JobState {
    /// The state of a job in which no index has failed.
    pub fn new(state_type: JobStateType, message: impl Into<String>) -> Self {
        Self { state_type, message: message.into(), failed_count: 0, failed_indexes: String::new() }
    }
}

// === impl Task ===

impl Task {
    /// A task of this engine, without params and with the defaults of everything else.
    pub fn new(name: &str, engine_type: EngineType) -> Self {
        Self {
            name: name.to_owned(),
            engine: EngineSpec { engine_type, params: Params::new() },
            publisher: PublisherSpec::default(),
            env: BTreeMap::new(),
            secrets: Vec::new(),
            meta: BTreeMap::new(),
            input_sources: Vec::new(),
            result_paths: Vec::new(),
            resources: TaskResources::default(),
            network: NetworkSpec { network_type: NetworkType::None, domains: Vec::new() },
            timeouts: Timeouts::default(),
        }
    }
}

// === impl RetryPolicy ===

impl RetryPolicy {
    /// The policy of a job of this type that specifies none.
    pub const fn default_for(job_type: JobType) -> Self {
        let attempts = if job_type.is_finite() { 1 } else { 0 };
        Self { attempts, delay: 1, max_delay: 60 }
    }
}
