//! The readers: a pool of read-only connections, one for each call.
//!
//! In WAL mode they see the last commit and never wait for the writer. Calls block: async callers
//! use a blocking thread.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use api_types::audit::AuditRecord;
use api_types::curve::UsageCurve;
use api_types::id::IdPrefix;
use api_types::log::OutputTail;
use api_types::{ExecutionId, GraphId, JobId, NodeId, Timestamp};
use rusqlite::{Connection, ErrorCode, OpenFlags, params};
use scheduler::change::{EventRow, ExecutionRow};

use super::connection::keep_statements;
use super::fault::classify;
use super::row::{self, Id, name_list};
use super::{
    audit, cluster_load, curves, dependencies, events, executions, graphs, history, jobs, marks,
    name, nodes, outcomes, outputs, reruns, results, search, specs, summaries,
};
use crate::store::select::search::WINDOW;
use crate::store::{
    AuditQuery, CompletedResult, EventsPage, EventsQuery, ExecutionQuery, FoundJobs, GraphQuery,
    HistoryQuery, JobQuery, JobTotals, LiveExecution, LiveExecutionsQuery, LoadRow, Namespaces,
    NodeHistoryQuery, Page, Reads, ResultQuery, SearchQuery, StoreError, StoreSize, StoredCurve,
    StoredExecution, StoredGraph, StoredGraphSummary, StoredJob, StoredNames, StoredOutcomes,
    StoredResult, StoredSummary,
};

/// Concurrent reads; more wait for one to end. Three times the cores of the smallest intended
/// machine, because reads seldom wait for the disk; two of them are enough for agents.
pub const CONNECTIONS: usize = 6;

/// How long a search among all jobs may take: three times what the slow cases of
/// [`select`](super::select) take among a million. Four that take longer would keep everybody else
/// from reading.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(3);

/// Instructions of SQLite between two looks at the clock: about 1 ms.
const SEARCH_STEPS: i32 = 20_000;

/// Page cache of each connection, in KiB; misses mostly hit the system's cache.
const CACHE_KIB: i32 = 16 << 10;

pub struct SqliteReads {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
    returned: Condvar,
    pub(super) search_timeout: Duration,
}

/// A borrowed connection.
struct Loan<'a> {
    /// Taken only on return.
    connection: Option<Connection>,
    reads: &'a SqliteReads,
}

// === impl SqliteReads ===

impl SqliteReads {
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let idle = (0..CONNECTIONS).map(|_| connect(path)).collect::<Result<_, _>>()?;
        Ok(Self {
            path: path.to_owned(),
            idle: Mutex::new(idle),
            returned: Condvar::new(),
            search_timeout: SEARCH_TIMEOUT,
        })
    }

    /// Runs a read in one transaction, so that all its statements see the same commit.
    fn read<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.read_with(self.lend(), read)
    }

    /// The same for a read whose caller chooses how many jobs it passes; one that takes too long
    /// fails.
    fn search<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut loan = self.lend();
        let end = Instant::now() + self.search_timeout;
        loan.connection().progress_handler(SEARCH_STEPS, Some(move || Instant::now() >= end))?;
        self.read_with(loan, read).map_err(|error| match error {
            StoreError::Sqlite(error)
                if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) =>
            {
                StoreError::LongSearch { limit: self.search_timeout }
            }
            error => error,
        })
    }

    fn read_with<T>(
        &self,
        mut loan: Loan<'_>,
        read: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        loan.connection()
            .transaction()
            .map_err(StoreError::from)
            .and_then(|transaction| read(&transaction))
            .map_err(|error| classify(&self.path, error))
    }

    fn lend(&self) -> Loan<'_> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match idle.pop() {
                Some(connection) => return Loan { connection: Some(connection), reads: self },
                None => {
                    idle = self.returned.wait(idle).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

fn connect(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    keep_statements(&connection)?;
    Ok(connection)
}

// === impl Loan ===

impl Loan<'_> {
    fn connection(&mut self) -> &mut Connection {
        self.connection.as_mut().expect("a loan has its connection until it ends")
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        if let Some(mut connection) = self.connection.take() {
            // The next borrower sets its own limit, or none. Only a handler can be refused.
            let _ = connection.progress_handler(0, None::<fn() -> bool>);
            let mut idle = self.reads.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.push(connection);
            self.reads.returned.notify_one();
        }
    }
}

// === impl Reads ===

impl Reads for SqliteReads {
    fn find_jobs(
        &self,
        prefix: IdPrefix,
        namespaces: &Namespaces,
        limit: u32,
    ) -> Result<Vec<JobId>, StoreError> {
        let sql = "SELECT id FROM job WHERE id BETWEEN ?1 AND ?2
            AND (?4 IS NULL OR namespace IN (SELECT value FROM json_each(?4)))
            ORDER BY id LIMIT ?3";
        self.read(|connection| find(connection, sql, prefix, namespaces, limit))
    }

    fn find_executions(
        &self,
        prefix: IdPrefix,
        namespaces: &Namespaces,
        limit: u32,
    ) -> Result<Vec<ExecutionId>, StoreError> {
        // Executions of a job that is being removed are not found.
        let sql = "SELECT id FROM execution WHERE id BETWEEN ?1 AND ?2
            AND EXISTS (SELECT 1 FROM job WHERE number = execution.job
                AND (?4 IS NULL OR namespace IN (SELECT value FROM json_each(?4))))
            ORDER BY id LIMIT ?3";
        self.read(|connection| find(connection, sql, prefix, namespaces, limit))
    }

    fn namespace_of(&self, job: JobId) -> Result<Option<String>, StoreError> {
        self.read(|connection| {
            let mut statement =
                connection.prepare_cached("SELECT namespace FROM job WHERE id = ?1")?;
            row::one(&mut statement, [job.bytes()], |row| Ok(row.get(0)?))
        })
    }

    fn jobs_within(
        &self,
        jobs: &[JobId],
        namespaces: &Namespaces,
    ) -> Result<Vec<JobId>, StoreError> {
        self.read(|connection| {
            let mut statement =
                connection.prepare_cached("SELECT namespace FROM job WHERE id = ?1")?;
            let mut within = Vec::new();
            for job in jobs {
                let name: Option<String> =
                    row::one(&mut statement, [job.bytes()], |row| Ok(row.get(0)?))?;
                within.extend(name.filter(|name| namespaces.contain(name)).map(|_| *job));
            }
            Ok(within)
        })
    }

    fn has_jobs(&self, namespace: &str) -> Result<bool, StoreError> {
        self.read(|connection| {
            let sql = "SELECT EXISTS (SELECT 1 FROM job WHERE namespace = ?1)";
            Ok(connection.prepare_cached(sql)?.query_row([namespace], |row| row.get(0))?)
        })
    }

    fn job(&self, id: JobId) -> Result<Option<StoredJob>, StoreError> {
        self.read(|connection| jobs::job(connection, id))
    }

    fn specification(&self, job: JobId, version: u64) -> Result<Option<Arc<str>>, StoreError> {
        self.read(|connection| specs::specification(connection, job, version))
    }

    fn jobs(&self, query: &JobQuery) -> Result<Page<StoredJob>, StoreError> {
        self.search(|connection| jobs::jobs(connection, query))
    }

    fn summaries(&self, query: &JobQuery) -> Result<Page<StoredSummary>, StoreError> {
        self.search(|connection| summaries::summaries(connection, query))
    }

    fn search_jobs(&self, query: &SearchQuery) -> Result<FoundJobs, StoreError> {
        self.search(|connection| search::jobs(connection, query, &WINDOW))
    }

    fn summary(&self, id: JobId) -> Result<Option<StoredSummary>, StoreError> {
        self.read(|connection| summaries::summary(connection, id))
    }

    fn outcomes(&self, id: JobId) -> Result<Option<StoredOutcomes>, StoreError> {
        self.read(|connection| outcomes::of_job(connection, id))
    }

    fn dependants(&self, job: JobId, limit: u32) -> Result<Vec<JobId>, StoreError> {
        self.read(|connection| dependencies::dependants(connection, job, limit))
    }

    fn graph(&self, id: GraphId) -> Result<Option<StoredGraph>, StoreError> {
        self.read(|connection| graphs::graph(connection, id))
    }

    fn graphs(&self, query: &GraphQuery) -> Result<Page<StoredGraphSummary>, StoreError> {
        self.read(|connection| graphs::graphs(connection, query))
    }

    fn slot_nodes(&self, job: JobId) -> Result<Vec<(u32, NodeId)>, StoreError> {
        self.read(|connection| reruns::nodes(connection, job))
    }

    fn job_totals(&self) -> Result<JobTotals, StoreError> {
        self.read(summaries::totals)
    }

    fn execution(&self, id: ExecutionId) -> Result<Option<StoredExecution>, StoreError> {
        self.read(|connection| executions::execution(connection, id))
    }

    fn output_tail(&self, id: ExecutionId) -> Result<Option<OutputTail>, StoreError> {
        self.read(|connection| outputs::tail(connection, id))
    }

    fn usage_curve(&self, id: ExecutionId) -> Result<Option<UsageCurve>, StoreError> {
        self.read(|connection| curves::curve(connection, id))
    }

    fn usage_curves(&self, job: JobId, limit: u32) -> Result<Vec<StoredCurve>, StoreError> {
        self.read(|connection| curves::of_job(connection, job, limit))
    }

    fn executions(&self, query: &ExecutionQuery) -> Result<Page<StoredExecution>, StoreError> {
        self.read(|connection| executions::executions(connection, query))
    }

    fn failures(&self, job: JobId, limit: u32) -> Result<Vec<ExecutionRow>, StoreError> {
        self.read(|connection| executions::failures(connection, job, limit))
    }

    fn live_executions(
        &self,
        query: &LiveExecutionsQuery,
    ) -> Result<Page<LiveExecution>, StoreError> {
        self.read(|connection| executions::live(connection, query))
    }

    fn history(&self, query: &HistoryQuery) -> Result<Page<EventRow>, StoreError> {
        self.read(|connection| history::history(connection, query))
    }

    fn node_history(&self, query: &NodeHistoryQuery) -> Result<Page<EventRow>, StoreError> {
        self.read(|connection| nodes::history(connection, query))
    }

    fn results(&self, query: &ResultQuery) -> Result<Page<StoredResult>, StoreError> {
        self.read(|connection| results::results(connection, query))
    }

    fn completed_results(
        &self,
        job: JobId,
        index: Option<u32>,
        limit: u32,
    ) -> Result<Vec<CompletedResult>, StoreError> {
        self.read(|connection| results::completed(connection, job, index, limit))
    }

    fn needed(
        &self,
        node: NodeId,
        executions: &[ExecutionId],
    ) -> Result<Vec<ExecutionId>, StoreError> {
        self.read(|connection| results::needed(connection, node, executions))
    }

    fn events(&self, query: &EventsQuery) -> Result<EventsPage, StoreError> {
        self.read(|connection| events::events(connection, query))
    }

    fn names(
        &self,
        jobs: &BTreeSet<JobId>,
        executions: &BTreeSet<ExecutionId>,
    ) -> Result<StoredNames, StoreError> {
        self.read(|connection| name::names(connection, jobs, executions))
    }

    fn cluster_load(&self, since: Timestamp) -> Result<Vec<LoadRow>, StoreError> {
        self.read(|connection| cluster_load::since(connection, since))
    }

    fn last_event(&self) -> Result<u64, StoreError> {
        self.read(events::last_event)
    }

    fn size(&self) -> Result<StoreSize, StoreError> {
        let (pages, free_pages, page_bytes) = self.read(|connection| {
            let pragma =
                |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
            Ok((pragma("page_count")?, pragma("freelist_count")?, pragma("page_size")?))
        })?;
        let length = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
        let mut log = self.path.clone().into_os_string();
        log.push("-wal");
        Ok(StoreSize {
            database_bytes: length(&self.path),
            log_bytes: length(Path::new(&log)),
            pages: pages.unsigned_abs(),
            free_pages: free_pages.unsigned_abs(),
            page_bytes: page_bytes.unsigned_abs(),
        })
    }

    fn audit(&self, query: &AuditQuery) -> Result<Page<AuditRecord>, StoreError> {
        self.read(|connection| audit::records(connection, query))
    }

    fn position_before(&self, time: Timestamp) -> Result<u64, StoreError> {
        self.read(|connection| marks::position_before(connection, time))
    }
}

/// In order of the IDs.
fn find<T: Id>(
    connection: &Connection,
    sql: &'static str,
    prefix: IdPrefix,
    namespaces: &Namespaces,
    limit: u32,
) -> Result<Vec<T>, StoreError> {
    let names = name_list(namespaces)?;
    let range = params![prefix.low.into_bytes(), prefix.high.into_bytes(), limit, names];
    row::all(&mut *connection.prepare_cached(sql)?, range, |row| T::get(row, 0))
}
