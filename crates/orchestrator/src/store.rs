//! Durable state: commit a batch and load what is alive; and queries for the HTTP reads.
//!
//! One writer, the driver, owns a [`Store`]; any number of readers share [`Reads`], which never
//! wait for the writer. SQL lives below this module and nowhere else.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api_types::execution::{ComputeState, PublishedResult, RunOutput};
use api_types::history::EventType;
use api_types::id::IdPrefix;
use api_types::job::{JobStateType, JobType};
use api_types::selector::Selector;
use api_types::{ExecutionId, JobId, NodeId, Timestamp};

use crate::engine::change::{Changes, EventRow, ExecutionRow, Live, LiveJobRow};

#[cfg(test)]
mod contract;
pub mod memory;
pub mod sqlite;

/// How long an idempotency key is remembered.
pub const IDEMPOTENCY_HOURS: u64 = 24;

/// The writer's half.
pub trait Store: Send {
    /// Everything that is live, as the last commit left it; `job` is handed the jobs, one by one.
    fn load(&mut self, job: &mut dyn FnMut(LiveJobRow)) -> Result<Live, StoreError>;

    /// Makes all of it durable, or nothing.
    ///
    /// `number` counts commits, from one more than the last that the store holds
    /// ([`Store::last_commit`]). A number that the store has already is a repeat and changes
    /// nothing; one that leaves a gap is refused.
    fn commit(
        &mut self,
        number: u64,
        changes: &Changes,
        keys: &[IdempotencyRow],
    ) -> Result<(), StoreError>;

    /// The number of the last commit; 0 for a new store.
    fn last_commit(&mut self) -> Result<u64, StoreError>;

    /// What was answered under this key since `oldest`.
    fn idempotency(
        &mut self,
        key: &str,
        oldest: Timestamp,
    ) -> Result<Option<IdempotencyRow>, StoreError>;

    /// Whether a job has this ID, live or not.
    fn has_job(&mut self, id: JobId) -> Result<bool, StoreError>;

    /// Whether it can be written to now: writes something durable, as large as a usual commit,
    /// and takes it back.
    fn probe(&mut self) -> Result<(), StoreError>;

    /// Removes idempotency keys older than `oldest`, at most `limit`; tells how many there were.
    fn forget_keys(&mut self, oldest: Timestamp, limit: u32) -> Result<u32, StoreError>;

    /// Removes jobs of which nothing is live and that need not be kept, first those that ended
    /// first, with everything that belongs to them; their idempotency keys stay.
    ///
    /// Removes about `rows` rows at a call, however large one job is. A job that it begins with
    /// vanishes from all reads at once; what is left of it is removed by the next calls, also
    /// after a restart.
    fn prune(
        &mut self,
        now: Timestamp,
        retention: &Retention,
        rows: u32,
    ) -> Result<Pruned, StoreError>;
}

/// The readers' half; every call is blocking and short.
pub trait Reads: Send + Sync {
    /// Up to `limit` jobs whose ID has the prefix.
    fn find_jobs(&self, prefix: IdPrefix, limit: u32) -> Result<Vec<JobId>, StoreError>;
    fn find_executions(&self, prefix: IdPrefix, limit: u32)
    -> Result<Vec<ExecutionId>, StoreError>;
    fn job(&self, id: JobId) -> Result<Option<StoredJob>, StoreError>;
    fn jobs(&self, query: &JobQuery) -> Result<Page<StoredJob>, StoreError>;
    fn execution(&self, id: ExecutionId) -> Result<Option<StoredExecution>, StoreError>;
    fn executions(&self, query: &ExecutionQuery) -> Result<Page<StoredExecution>, StoreError>;
    fn history(&self, query: &HistoryQuery) -> Result<Page<EventRow>, StoreError>;
    /// What executions of the job published, in order of their slot and creation.
    fn results(&self, query: &ResultQuery) -> Result<Page<StoredResult>, StoreError>;
    /// Events of all jobs in order of their sequence, and what was removed between them.
    fn events(&self, query: &EventsQuery) -> Result<EventsPage, StoreError>;
    /// The sequence of the last event that was ever stored; 0 when there was none.
    fn last_event(&self) -> Result<u64, StoreError>;
    /// How large the database is.
    fn size(&self) -> Result<StoreSize, StoreError>;
    /// The sequence of the last stored event before this moment; 0 when there is none.
    fn last_event_before(&self, time: Timestamp) -> Result<u64, StoreError>;
}

/// What the database takes of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreSize {
    pub database_bytes: u64,
    /// The write-ahead log beside it.
    pub log_bytes: u64,
    pub pages: u64,
    /// Pages that the next rows take, before the file grows.
    pub free_pages: u64,
    pub page_bytes: u64,
}

/// Which jobs that are over are kept; none of them is when it is beyond either bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    /// How long after its end a job is kept; without limit when none.
    pub age: Option<Duration>,
    /// So many jobs are kept, those that ended last; without limit when none.
    pub count: Option<u64>,
}

/// What a call of [`Store::prune`] came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pruned {
    /// Jobs that vanished.
    pub jobs: u32,
    /// Whether there is more to remove.
    pub more: bool,
}

/// What was answered to the request that came with a key first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyRow {
    pub key: String,
    /// SHA-256 of the body.
    pub body_hash: [u8; 32],
    /// The answer's body.
    pub answer: String,
    pub create_time: Timestamp,
}

/// A part of a list, and whether more follows.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    pub items: Vec<T>,
    pub more: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct StoredJob {
    pub id: JobId,
    /// The `JobSpec` as JSON.
    pub spec_json: Arc<str>,
    pub state: JobStateType,
    pub message: String,
    pub version: u64,
    pub revision: u64,
    pub create_time: Timestamp,
    pub modify_time: Timestamp,
}

/// An execution with what belongs to it from other tables.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredExecution {
    pub row: ExecutionRow,
    pub next: Option<ExecutionId>,
    pub run_output: Option<RunOutput>,
    pub published_result: Option<PublishedResult>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct StoredResult {
    pub position: ResultPosition,
    pub result: PublishedResult,
}

#[derive(Debug, Clone, Default)]
pub struct JobQuery {
    /// All namespaces when none.
    pub namespace: Option<String>,
    pub selector: Selector,
    /// Any when empty.
    pub states: Vec<JobStateType>,
    pub job_type: Option<JobType>,
    pub name: Option<String>,
    /// Created at or after.
    pub created_after: Option<Timestamp>,
    /// Created before.
    pub created_before: Option<Timestamp>,
    pub order: JobOrder,
    pub reverse: bool,
    /// The last row of the page before.
    pub after: Option<JobPosition>,
    pub limit: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JobOrder {
    #[default]
    CreateTime,
    Id,
}

/// Where a job stands in either order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobPosition {
    pub create_time: Timestamp,
    pub id: JobId,
}

#[derive(Debug, Clone)]
pub struct ExecutionQuery {
    pub job: JobId,
    pub order: ExecutionOrder,
    pub reverse: bool,
    pub after: Option<ExecutionPosition>,
    pub limit: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExecutionOrder {
    #[default]
    ModifyTime,
    CreateTime,
    Id,
    /// By the number of the compute state.
    State,
}

/// Where an execution stands: what it is ordered by (0 when that is the id), and its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExecutionPosition {
    pub key: i64,
    pub id: ExecutionId,
}

#[derive(Debug, Clone)]
pub struct HistoryQuery {
    pub job: JobId,
    /// At or after.
    pub since: Timestamp,
    /// Both when none.
    pub event_type: Option<EventType>,
    pub execution: Option<ExecutionId>,
    pub node: Option<NodeId>,
    /// The `seq` of the last event of the page before.
    pub after: Option<u64>,
    pub limit: u32,
}

/// Events that were committed after a position, whatever job they belong to.
#[derive(Debug, Clone, PartialEq)]
pub struct EventsQuery {
    /// The `seq` of the last event that was looked at.
    pub after: u64,
    pub job: Option<JobId>,
    pub namespace: Option<String>,
    /// Both when none.
    pub event_type: Option<EventType>,
    /// At or after.
    pub since: Timestamp,
    /// So many events are looked at, whether they match or not.
    pub limit: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub struct EventsPage {
    pub entries: Vec<EventEntry>,
    /// The `seq` up to which all was looked at.
    pub through: u64,
    /// Whether there are events beyond that.
    pub more: bool,
    /// Whether the job that was asked for is not stored, so that no event of it can follow.
    pub job_gone: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum EventEntry {
    Event(EventRow),
    /// All events from one `seq` to another were removed; whether the query would have matched
    /// them is not known any more.
    Gap {
        from: u64,
        to: u64,
    },
}

#[derive(Debug, Clone)]
pub struct ResultQuery {
    pub job: JobId,
    pub after: Option<ResultPosition>,
    pub limit: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultPosition {
    pub index: u32,
    pub create_time: Timestamp,
    pub id: ExecutionId,
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the disk that holds {} is full", .path.display())]
    Full { path: PathBuf },
    #[error("{} is not a database of this service; move it away or set another data directory", .path.display())]
    Foreign { path: PathBuf },
    #[error("{} is damaged ({detail}); restore it from a backup, or move it away to start empty", .path.display())]
    Damaged { path: PathBuf, detail: String },
    #[error("{} was written by a newer release (format {found}, this one knows {known}); run that release", .path.display())]
    Newer { path: PathBuf, found: u32, known: u32 },
    #[error("{} is in use by another orchestrator; stop it or set another data directory", .path.display())]
    InUse { path: PathBuf },
    #[error("commit {came} does not follow commit {last}")]
    CommitGap { came: u64, last: u64 },
    #[error("a stored record cannot be read: {detail}")]
    Record { detail: String },
    #[error("the state database failed")]
    Sqlite(#[from] rusqlite::Error),
    #[error("access {}", .path.display())]
    Io { path: PathBuf, source: std::io::Error },
}

impl StoreSize {
    pub fn free_bytes(&self) -> u64 {
        self.free_pages.saturating_mul(self.page_bytes)
    }
}

impl Retention {
    /// Jobs that ended before this moment are too old.
    pub fn oldest(&self, now: Timestamp) -> Option<Timestamp> {
        self.age.map(|age| now - age)
    }
}

impl ExecutionOrder {
    /// What an execution is ordered by.
    pub fn key(self, row: &ExecutionRow) -> i64 {
        match self {
            Self::ModifyTime => row.modify_time.0,
            Self::CreateTime => row.create_time.0,
            Self::Id => 0,
            Self::State => i64::from(u8::from(row.compute)),
        }
    }
}

/// Whether an execution in this state is still to be watched.
pub fn is_live(state: ComputeState) -> bool {
    !state.is_terminal()
}
