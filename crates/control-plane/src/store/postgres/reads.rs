//! The readers: a pool of sessions, one for each call.
//!
//! They read on the server that accepts writes, and see its last commit. A session that the server
//! has ended is replaced, and what it was reading is read again. Calls block: async callers use a
//! blocking thread.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use api_types::audit::AuditRecord;
use api_types::curve::UsageCurve;
use api_types::id::IdPrefix;
use api_types::log::OutputTail;
use api_types::{ExecutionId, GraphId, JobId, NodeId, Timestamp};
use scheduler::change::{EventRow, ExecutionRow};

use super::connection::Database;
use super::reader::Reader;
use super::row::{Columns, counter};
use super::{
    audit, cluster_load, events, executions, graphs, jobs, names, outcomes, results, search,
};
use crate::store::select::search::WINDOW;
use crate::store::{
    AuditQuery, CompletedResult, EventsPage, EventsQuery, ExecutionQuery, FoundJobs, GraphQuery,
    HistoryQuery, JobQuery, JobTotals, LiveExecution, LiveExecutionsQuery, LoadRow, Namespaces,
    NodeHistoryQuery, Page, Reads, ResultQuery, SearchQuery, StoreError, StoreSize, StoredCurve,
    StoredExecution, StoredGraph, StoredGraphSummary, StoredJob, StoredNames, StoredOutcomes,
    StoredResult, StoredSummary,
};

/// Concurrent reads; more wait for one to end. As many as with SQLite; the process has four more
/// sessions, for the writer and for watching the lead.
const CONNECTIONS: usize = 6;

/// How long a statement may take: three times what the slow cases of a list of a million jobs take.
const READ_TIMEOUT: Duration = Duration::from_secs(3);

/// How long a read waits for a session, if those of all are held by reads that hang: the server ends
/// each statement after [`READ_TIMEOUT`], unless it does nothing at all.
const LOAN_TIMEOUT: Duration = Duration::from_secs(3);

pub struct PostgresReads {
    database: Database,
    pool: Mutex<Pool>,
    returned: Condvar,
    timeout: Duration,
}

struct Pool {
    idle: Vec<Reader>,
    /// Sessions that may still be opened.
    unopened: usize,
}

/// Room for a session, and the session that was idle, if there was one.
struct Loan<'a> {
    reader: Option<Reader>,
    reads: &'a PostgresReads,
}

// === impl PostgresReads ===

impl PostgresReads {
    /// Opens one session, to learn whether the database can be read.
    pub(super) fn open(database: &Database) -> Result<Self, StoreError> {
        Self::open_with(database, READ_TIMEOUT)
    }

    pub(super) fn open_with(database: &Database, timeout: Duration) -> Result<Self, StoreError> {
        let idle = vec![Reader::open(database, timeout)?];
        Ok(Self {
            database: database.clone(),
            pool: Mutex::new(Pool { idle, unopened: CONNECTIONS - 1 }),
            returned: Condvar::new(),
            timeout,
        })
    }

    /// Runs a read of one statement.
    fn read<T>(
        &self,
        read: impl Fn(&mut Reader) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut loan = self.lend()?;
        let was_idle = loan.reader.is_some();
        match loan.run(&read) {
            // What ended this session has ended the idle ones as well, a restart for one; whether
            // the server is there, only a new session shows.
            Err(StoreError::Unavailable) if was_idle => {
                self.forget_idle();
                loan.run(&read)
            }
            result => result,
        }
    }

    /// Runs a read of several statements, which see the same commit.
    fn snapshot<T>(
        &self,
        read: impl Fn(&mut Reader) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.read(|reader| reader.snapshot(&read))
    }

    fn lend(&self) -> Result<Loan<'_>, StoreError> {
        let until = Instant::now() + LOAN_TIMEOUT;
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(reader) = pool.idle.pop() {
                return Ok(Loan { reader: Some(reader), reads: self });
            }
            if pool.unopened > 0 {
                pool.unopened -= 1;
                return Ok(Loan { reader: None, reads: self });
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(StoreError::Unavailable);
            }
            let waited = self.returned.wait_timeout(pool, left);
            pool = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn forget_idle(&self) {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        pool.unopened += pool.idle.len();
        let idle = std::mem::take(&mut pool.idle);
        drop(pool);
        drop(idle);
    }
}

impl Drop for PostgresReads {
    /// The client of a session waits for its end, which the thread of an async runtime must not.
    fn drop(&mut self) {
        let pool = self.pool.get_mut().unwrap_or_else(PoisonError::into_inner);
        let idle = std::mem::take(&mut pool.idle);
        std::thread::scope(|scope| {
            scope.spawn(|| drop(idle));
        });
    }
}

// === impl Loan ===

impl Loan<'_> {
    fn run<T>(
        &mut self,
        read: impl Fn(&mut Reader) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => none.insert(Reader::open(&self.reads.database, self.reads.timeout)?),
        };
        let result = read(reader);
        if matches!(result, Err(StoreError::Unavailable)) || reader.is_closed() {
            self.reader = None;
        }
        result
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        let mut pool = self.reads.pool.lock().unwrap_or_else(PoisonError::into_inner);
        match self.reader.take() {
            Some(reader) => pool.idle.push(reader),
            None => pool.unopened += 1,
        }
        self.reads.returned.notify_one();
    }
}

// === impl Reads ===

impl Reads for PostgresReads {
    fn find_jobs(
        &self,
        prefix: IdPrefix,
        namespaces: &Namespaces,
        limit: u32,
    ) -> Result<Vec<JobId>, StoreError> {
        self.read(|reader| names::find_jobs(reader, prefix, namespaces, limit))
    }

    fn find_executions(
        &self,
        prefix: IdPrefix,
        namespaces: &Namespaces,
        limit: u32,
    ) -> Result<Vec<ExecutionId>, StoreError> {
        self.read(|reader| names::find_executions(reader, prefix, namespaces, limit))
    }

    fn namespace_of(&self, job: JobId) -> Result<Option<String>, StoreError> {
        self.read(|reader| names::namespace_of(reader, job))
    }

    fn jobs_within(
        &self,
        jobs: &[JobId],
        namespaces: &Namespaces,
    ) -> Result<Vec<JobId>, StoreError> {
        self.read(|reader| names::jobs_within(reader, jobs, namespaces))
    }

    fn has_jobs(&self, namespace: &str) -> Result<bool, StoreError> {
        self.read(|reader| names::has_jobs(reader, namespace))
    }

    fn job(&self, id: JobId) -> Result<Option<StoredJob>, StoreError> {
        self.read(|reader| jobs::job(reader, id))
    }

    fn specification(&self, job: JobId, version: u64) -> Result<Option<Arc<str>>, StoreError> {
        self.read(|reader| jobs::specification(reader, job, version))
    }

    fn jobs(&self, query: &JobQuery) -> Result<Page<StoredJob>, StoreError> {
        self.snapshot(|reader| jobs::jobs(reader, query))
    }

    fn summaries(&self, query: &JobQuery) -> Result<Page<StoredSummary>, StoreError> {
        self.snapshot(|reader| jobs::summaries(reader, query))
    }

    fn search_jobs(&self, query: &SearchQuery) -> Result<FoundJobs, StoreError> {
        self.snapshot(|reader| search::jobs(reader, query, &WINDOW))
    }

    fn summary(&self, id: JobId) -> Result<Option<StoredSummary>, StoreError> {
        self.read(|reader| jobs::summary(reader, id))
    }

    fn outcomes(&self, id: JobId) -> Result<Option<StoredOutcomes>, StoreError> {
        self.snapshot(|reader| outcomes::of_job(reader, id))
    }

    fn dependants(&self, job: JobId, limit: u32) -> Result<Vec<JobId>, StoreError> {
        self.read(|reader| graphs::dependants(reader, job, limit))
    }

    fn graph(&self, id: GraphId) -> Result<Option<StoredGraph>, StoreError> {
        self.snapshot(|reader| graphs::graph(reader, id))
    }

    fn graphs(&self, query: &GraphQuery) -> Result<Page<StoredGraphSummary>, StoreError> {
        self.snapshot(|reader| graphs::graphs(reader, query))
    }

    fn slot_nodes(&self, job: JobId) -> Result<Vec<(u32, NodeId)>, StoreError> {
        self.snapshot(|reader| outcomes::slot_nodes(reader, job))
    }

    fn job_totals(&self) -> Result<JobTotals, StoreError> {
        self.snapshot(jobs::totals)
    }

    fn execution(&self, id: ExecutionId) -> Result<Option<StoredExecution>, StoreError> {
        self.read(|reader| executions::execution(reader, id))
    }

    fn output_tail(&self, id: ExecutionId) -> Result<Option<OutputTail>, StoreError> {
        self.read(|reader| executions::tail(reader, id))
    }

    fn usage_curve(&self, id: ExecutionId) -> Result<Option<UsageCurve>, StoreError> {
        self.read(|reader| executions::curve(reader, id))
    }

    fn usage_curves(&self, job: JobId, limit: u32) -> Result<Vec<StoredCurve>, StoreError> {
        self.read(|reader| executions::curves(reader, job, limit))
    }

    fn executions(&self, query: &ExecutionQuery) -> Result<Page<StoredExecution>, StoreError> {
        self.snapshot(|reader| executions::executions(reader, query))
    }

    fn failures(&self, job: JobId, limit: u32) -> Result<Vec<ExecutionRow>, StoreError> {
        self.read(|reader| executions::failures(reader, job, limit))
    }

    fn live_executions(
        &self,
        query: &LiveExecutionsQuery,
    ) -> Result<Page<LiveExecution>, StoreError> {
        self.snapshot(|reader| executions::live(reader, query))
    }

    fn history(&self, query: &HistoryQuery) -> Result<Page<EventRow>, StoreError> {
        self.snapshot(|reader| events::history(reader, query))
    }

    fn node_history(&self, query: &NodeHistoryQuery) -> Result<Page<EventRow>, StoreError> {
        self.snapshot(|reader| events::node_history(reader, query))
    }

    fn results(&self, query: &ResultQuery) -> Result<Page<StoredResult>, StoreError> {
        self.read(|reader| results::results(reader, query))
    }

    fn completed_results(
        &self,
        job: JobId,
        index: Option<u32>,
        limit: u32,
    ) -> Result<Vec<CompletedResult>, StoreError> {
        self.read(|reader| results::completed(reader, job, index, limit))
    }

    fn needed(
        &self,
        node: NodeId,
        executions: &[ExecutionId],
    ) -> Result<Vec<ExecutionId>, StoreError> {
        self.read(|reader| results::needed(reader, node, executions))
    }

    fn events(&self, query: &EventsQuery) -> Result<EventsPage, StoreError> {
        self.snapshot(|reader| events::events(reader, query))
    }

    fn names(
        &self,
        jobs: &BTreeSet<JobId>,
        executions: &BTreeSet<ExecutionId>,
    ) -> Result<StoredNames, StoreError> {
        self.snapshot(|reader| names::names(reader, jobs, executions))
    }

    fn last_event(&self) -> Result<u64, StoreError> {
        self.read(events::last_event)
    }

    fn cluster_load(&self, since: Timestamp) -> Result<Vec<LoadRow>, StoreError> {
        self.read(|reader| cluster_load::since(reader, since))
    }

    /// Neither its log nor its free pages, which the server keeps to itself.
    fn size(&self) -> Result<StoreSize, StoreError> {
        let sql = "SELECT pg_database_size(current_database()),
            current_setting('block_size')::bigint";
        self.read(|reader| {
            reader.only(sql, &[], |row| {
                let (database_bytes, page_bytes) = (counter(row, 0)?, row.value::<i64>(1)?);
                let page_bytes = page_bytes.unsigned_abs();
                let pages = database_bytes.checked_div(page_bytes).unwrap_or_default();
                Ok(StoreSize { database_bytes, pages, page_bytes, ..StoreSize::default() })
            })
        })
    }

    fn audit(&self, query: &AuditQuery) -> Result<Page<AuditRecord>, StoreError> {
        self.read(|reader| audit::records(reader, query))
    }

    fn position_before(&self, time: Timestamp) -> Result<u64, StoreError> {
        self.read(|reader| events::position_before(reader, time))
    }
}
