//! Durable state: commit a batch, load the live state, and query it for HTTP reads.
//!
//! One writer, the driver, owns a [`Store`]; any number of readers share [`Reads`], which never
//! wait for the writer. Only the modules below this one know SQL.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api_types::audit::{AuditChain, AuditRecord};
use api_types::curve::UsageCurve;
use api_types::dependency::Indexes;
use api_types::execution::{ComputeState, PublishedResult, RunOutput};
use api_types::history::EventType;
use api_types::id::IdPrefix;
use api_types::job::{JobStateType, JobType};
use api_types::log::OutputTail;
use api_types::usage::Usage;
use api_types::{ExecutionId, GraphId, JobId, NodeId, Timestamp};
use scheduler::change::{EventRow, ExecutionRow, Live, LiveJobRow, NamedJob};
use scheduler::time::Moment;

use crate::audit::Chains;
use crate::records::Record;

mod budget;
mod commit;
#[cfg(test)]
mod contract;
mod ended;
mod error;
mod graph;
mod lead;
mod member;
pub mod memory;
mod page;
mod parameter;
pub mod postgres;
mod query;
mod row;
mod select;
mod size;
pub mod sqlite;

pub use self::commit::{
    Admission, Commit, CommitId, EXECUTION_ROWS, JOB_ROWS, LookupResults, Outcome, Progress,
    Removal, Removed, Term, Write,
};
pub use self::error::StoreError;
pub use self::graph::{GraphQuery, StoredEdge, StoredGraph, StoredGraphJob, StoredGraphSummary};
pub use self::lead::{Beat, Candidate, Exposure, Hold, Leader, SessionSign, Sighting, Won};
pub use self::member::{Member, MemberRecord, Membership, Roll, SeenMember};
pub use self::query::{
    CompletedResult, EventEntry, EventsPage, EventsQuery, ExecutionOrder, ExecutionPosition,
    ExecutionQuery, FoundJobs, JobOrder, JobPosition, JobQuery, LiveExecution, LiveExecutionsQuery,
    LoadRow, Namespaces, ResultPosition, ResultQuery, SearchQuery, StoredCurve, StoredNames,
    StoredOutcomes, StoredResult,
};
pub use self::size::StoreSize;

/// Output-tail bytes kept per job; the oldest make room for new ones.
pub const MAX_TAILS_BYTES: u64 = 16 << 20;

/// How long an idempotency key is remembered: an hour longer than the API promises, because the
/// clocks of clients differ.
pub const KEY_RETENTION: Duration = Duration::from_hours(25);

/// Events kept per known node, the newest: months of a usual node, three hours of one that falls
/// silent and comes back all the time. Beyond it the oldest goes with each new one.
pub const NODE_EVENTS: u64 = 1000;

/// Events kept of all forgotten nodes together, the newest: they still tell what became of a node
/// that is gone.
pub const FORGOTTEN_NODES_EVENTS: u64 = 10_000;

/// How long the load of the cluster is kept.
pub const LOAD_RETENTION: Duration = Duration::from_hours(7 * 24);

/// Rows of the cluster's load that a read returns at most: more than a week has.
const MOST_LOAD_ROWS: u32 = 10_000;

/// The writer's half.
pub trait Store: Send {
    /// Begins a new term, durably: from now on commits under any other are [`StoreError::Fenced`].
    /// Only what is read afterwards is what the term's commits build on.
    fn take(&mut self) -> Result<Progress, StoreError>;

    fn progress(&mut self) -> Result<Progress, StoreError>;

    /// Loads the live state as of the last commit; `job` receives the jobs, one by one.
    fn load(&mut self, job: &mut dyn FnMut(LiveJobRow)) -> Result<Live, StoreError>;

    /// Where the chains of the audit log end.
    fn audit_chains(&mut self) -> Result<Chains, StoreError>;

    /// Every record.
    fn records(&mut self) -> Result<Vec<Record>, StoreError>;

    /// Makes all of it durable, or nothing; see [`Progress::admit`] for repeats.
    fn commit(&mut self, commit: &Commit<'_>) -> Result<Outcome, StoreError>;

    /// Those of these jobs that are stored; with `Same`, also what became of their slots.
    fn named(&mut self, jobs: &BTreeMap<JobId, Indexes>) -> Result<Vec<NamedJob>, StoreError>;

    /// The answers recorded under these keys since `oldest`, and which of these jobs exist.
    fn lookup(
        &mut self,
        keys: &[RequestKey],
        oldest: Moment,
        jobs: &[JobId],
    ) -> Result<LookupResults, StoreError>;

    /// Gives the lead up, so that another process may take over immediately. Nothing is committed
    /// afterwards. A store with one process has nothing to do.
    fn resign(&mut self) -> Result<(), StoreError>;
}

/// The readers' half; every call is blocking and short.
pub trait Reads: Send + Sync {
    /// Up to `limit` jobs whose ID has the prefix.
    fn find_jobs(
        &self,
        prefix: IdPrefix,
        namespaces: &Namespaces,
        limit: u32,
    ) -> Result<Vec<JobId>, StoreError>;
    fn find_executions(
        &self,
        prefix: IdPrefix,
        namespaces: &Namespaces,
        limit: u32,
    ) -> Result<Vec<ExecutionId>, StoreError>;
    fn namespace_of(&self, job: JobId) -> Result<Option<String>, StoreError>;
    /// Those of the jobs that are in these namespaces.
    fn jobs_within(
        &self,
        jobs: &[JobId],
        namespaces: &Namespaces,
    ) -> Result<Vec<JobId>, StoreError>;
    /// Whether jobs of the namespace are stored.
    fn has_jobs(&self, namespace: &str) -> Result<bool, StoreError>;
    fn job(&self, id: JobId) -> Result<Option<StoredJob>, StoreError>;
    /// The specification of this version of a job, as JSON.
    fn specification(&self, job: JobId, version: u64) -> Result<Option<Arc<str>>, StoreError>;
    fn jobs(&self, query: &JobQuery) -> Result<Page<StoredJob>, StoreError>;
    /// The same jobs without their specifications.
    fn summaries(&self, query: &JobQuery) -> Result<Page<StoredSummary>, StoreError>;
    /// Live jobs and recently ended ones with this text in a name, an ID or a label: among the newest
    /// 100,000 live and 10,000 ended ones.
    fn search_jobs(&self, query: &SearchQuery) -> Result<FoundJobs, StoreError>;
    fn summary(&self, id: JobId) -> Result<Option<StoredSummary>, StoreError>;
    /// What became of the job's slots.
    fn outcomes(&self, id: JobId) -> Result<Option<StoredOutcomes>, StoreError>;
    /// Up to `limit` jobs that depend on this one, live or not, in the order of their submission.
    fn dependants(&self, job: JobId, limit: u32) -> Result<Vec<JobId>, StoreError>;
    fn graph(&self, id: GraphId) -> Result<Option<StoredGraph>, StoreError>;
    /// The newest first.
    fn graphs(&self, query: &GraphQuery) -> Result<Page<StoredGraphSummary>, StoreError>;
    /// The node of each slot of an ops job that has ended, by index, unless it is unknown.
    fn slot_nodes(&self, job: JobId) -> Result<Vec<(u32, NodeId)>, StoreError>;
    /// Counts every job that is over.
    fn job_totals(&self) -> Result<JobTotals, StoreError>;
    fn execution(&self, id: ExecutionId) -> Result<Option<StoredExecution>, StoreError>;
    /// The end of the output of a failed execution, unless later ones of its job took its place.
    fn output_tail(&self, id: ExecutionId) -> Result<Option<OutputTail>, StoreError>;
    /// What an execution used over time, unless it has not ended, or nothing measured it.
    fn usage_curve(&self, id: ExecutionId) -> Result<Option<UsageCurve>, StoreError>;
    /// The same of the job's executions, by index.
    fn usage_curves(&self, job: JobId, limit: u32) -> Result<Vec<StoredCurve>, StoreError>;
    fn executions(&self, query: &ExecutionQuery) -> Result<Page<StoredExecution>, StoreError>;
    /// The executions of a job that failed or were declined, the latest first.
    fn failures(&self, job: JobId, limit: u32) -> Result<Vec<ExecutionRow>, StoreError>;
    /// Executions that have not ended, the oldest first.
    fn live_executions(
        &self,
        query: &LiveExecutionsQuery,
    ) -> Result<Page<LiveExecution>, StoreError>;
    fn history(&self, query: &HistoryQuery) -> Result<Page<EventRow>, StoreError>;
    /// Events of one node, which may be forgotten.
    fn node_history(&self, query: &NodeHistoryQuery) -> Result<Page<EventRow>, StoreError>;
    /// Published results of the job's executions, in order of their slot and creation.
    fn results(&self, query: &ResultQuery) -> Result<Page<StoredResult>, StoreError>;
    /// What the completed executions of a job published, of one index or of all, by index; at most
    /// `limit`.
    fn completed_results(
        &self,
        job: JobId,
        index: Option<u32>,
        limit: u32,
    ) -> Result<Vec<CompletedResult>, StoreError>;
    /// Those of a node's executions whose job is one that live jobs depend on.
    fn needed(
        &self,
        node: NodeId,
        executions: &[ExecutionId],
    ) -> Result<Vec<ExecutionId>, StoreError>;
    /// Events of all jobs, or of all nodes, in order of their sequence, and the gaps that removal
    /// left.
    fn events(&self, query: &EventsQuery) -> Result<EventsPage, StoreError>;
    /// The names of these jobs, and the indexes of these executions, as far as they are stored.
    fn names(
        &self,
        jobs: &BTreeSet<JobId>,
        executions: &BTreeSet<ExecutionId>,
    ) -> Result<StoredNames, StoreError>;
    /// The sequence of the last event ever stored; 0 if there was none.
    fn last_event(&self) -> Result<u64, StoreError>;
    /// The load of the cluster from a time on, the oldest first; a week is kept.
    fn cluster_load(&self, since: Timestamp) -> Result<Vec<LoadRow>, StoreError>;
    /// The size of the database.
    fn size(&self) -> Result<StoreSize, StoreError>;
    /// Records of a chain of the audit log, in order of their sequence.
    fn audit(&self, query: &AuditQuery) -> Result<Page<AuditRecord>, StoreError>;
    /// A sequence after which all events at or after this time lie: every event up to it is
    /// earlier. Some events after it may be earlier too, about a second's worth unless the wall
    /// clock was set.
    fn position_before(&self, time: Timestamp) -> Result<u64, StoreError>;
}

/// Which finished jobs are kept: those within both bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    /// How long a job is kept after its end; `None` for no limit.
    pub age: Option<Duration>,
    /// How many jobs are kept, those that ended last; `None` for no limit.
    pub count: Option<u64>,
}

/// An idempotency key, and the namespace of its request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestKey {
    pub namespace: String,
    pub key: String,
}

/// The answer to the first request with a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyRow {
    pub key: RequestKey,
    /// SHA-256 of the body.
    pub body_hash: [u8; 32],
    /// The response body.
    pub answer: String,
    pub stored_at: Moment,
}

/// A page of a list, and whether more follows.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    pub items: Vec<T>,
    pub more: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct StoredJob {
    pub id: JobId,
    pub name: String,
    pub namespace: String,
    pub job_type: JobType,
    pub priority: u32,
    /// The newest `JobSpec` as JSON.
    pub spec_json: Arc<str>,
    pub state: JobStateType,
    pub message: String,
    /// Slots wait for room, rather than at a gate.
    pub waits: bool,
    pub version: u64,
    pub revision: u64,
    pub create_time: Timestamp,
    pub modify_time: Timestamp,
    /// Slots that failed and are not tried again.
    pub failed_slots: u32,
}

/// What a list shows of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredSummary {
    pub id: JobId,
    pub name: String,
    pub namespace: String,
    pub job_type: JobType,
    pub priority: u32,
    pub labels: BTreeMap<String, String>,
    pub state: JobStateType,
    pub message: String,
    pub version: u64,
    pub revision: u64,
    pub create_time: Timestamp,
    pub modify_time: Timestamp,
    pub start_time: Option<Timestamp>,
    pub slots: u32,
    pub running: u32,
    pub completed: u32,
    pub failed: u32,
    /// Slots that failed and are not tried again.
    pub failed_slots: u32,
    /// The `JobSpec` as JSON, of a queued job whose specification is not large.
    pub queued_spec: Option<String>,
}

/// Jobs of all namespaces, counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobTotals {
    /// Of each state in which a job is over.
    pub ended: Vec<(JobStateType, u64)>,
    /// When the oldest queued job was submitted.
    pub oldest_queued: Option<Timestamp>,
}

/// An execution with its rows from other tables.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredExecution {
    pub row: ExecutionRow,
    pub next: Option<ExecutionId>,
    pub run_output: Option<RunOutput>,
    pub usage: Option<Usage>,
    pub published_result: Option<PublishedResult>,
}

#[derive(Debug, Clone)]
pub struct HistoryQuery {
    pub job: JobId,
    /// At or after.
    pub since: Timestamp,
    /// Those of the job and of its executions if `None`.
    pub event_type: Option<EventType>,
    pub execution: Option<ExecutionId>,
    pub node: Option<NodeId>,
    /// The `seq` of the last event of the previous page.
    pub after: Option<u64>,
    pub limit: u32,
}

#[derive(Debug, Clone)]
pub struct NodeHistoryQuery {
    pub node: NodeId,
    /// At or after.
    pub since: Timestamp,
    /// The `seq` of the last event of the previous page.
    pub after: Option<u64>,
    pub limit: u32,
}

#[derive(Debug, Clone)]
pub struct AuditQuery {
    pub chain: AuditChain,
    /// At or after.
    pub since: Timestamp,
    pub user: Option<String>,
    pub operation: Option<String>,
    pub reverse: bool,
    /// The sequence of the last record of the previous page.
    pub after: Option<u64>,
    pub limit: u32,
}

impl Retention {
    /// Jobs that ended before this time have expired.
    pub fn oldest(&self, now: Moment) -> Option<Moment> {
        self.age.map(|age| now.before(age))
    }
}

/// Whether an execution in this state is still live.
pub fn is_live(state: ComputeState) -> bool {
    !state.is_terminal()
}
