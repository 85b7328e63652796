//! What the writer knows of the database without reading it: the last numbers, and some jobs.
//!
//! It is right as long as each commit is the next one after those that it knows, which the fence
//! checks. A commit that ends in any other way than stored makes the writer read it again.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use api_types::JobId;

use super::link::Link;
use super::row::{Columns, Id, bad_record};
use super::values::Param;
use crate::store::StoreError;

/// Jobs that the writer remembers: those of the last seconds even under load. It forgets all of them
/// when there are more, and reads them one commit at a time.
const MOST_JOBS: usize = 100_000;

pub(super) struct Known {
    pub(super) last_job: i64,
    pub(super) last_execution: i64,
    pub(super) last_graph: i64,
    pub(super) last_tail: i64,
    pub(super) last_time: i64,
    pub(super) ended_jobs: i64,
    jobs: HashMap<JobId, KnownJob>,
}

/// What a commit needs of a job that is stored.
#[derive(Debug, Clone)]
pub(super) struct KnownJob {
    pub(super) number: i64,
    pub(super) namespace: Arc<str>,
    pub(super) live: bool,
    /// The number of live jobs that depend on it.
    pub(super) named: i64,
}

/// A number above those of all jobs, including removed ones that still have rows.
const COUNTERS: &str = "
    SELECT greatest((SELECT max(number) FROM job), (SELECT max(job) FROM removal), 0),
        coalesce((SELECT max(number) FROM execution), 0),
        coalesce((SELECT max(number) FROM graph), 0),
        coalesce((SELECT max(number) FROM output_tail), 0), last_time, ended_jobs
    FROM progress WHERE one = 1";

const JOBS: &str = "
    SELECT r.id, r.number, r.namespace, r.live, r.named
    FROM unnest($1::bytea[]) AS u (id) JOIN job AS j ON j.id = u.id
        JOIN job_run AS r ON r.number = j.number";

// === impl KnownJob ===

impl KnownJob {
    /// Whether retention leaves it alone.
    pub(super) const fn is_kept(&self) -> bool {
        self.live || self.named > 0
    }
}

// === impl Known ===

impl Known {
    pub(super) async fn read(link: &mut Link) -> Result<Self, StoreError> {
        let rows = link.query(COUNTERS, Vec::new()).await?;
        let row = rows.first().ok_or_else(|| bad_record("the row progress is missing"))?;
        Ok(Self {
            last_job: row.value(0)?,
            last_execution: row.value(1)?,
            last_graph: row.value(2)?,
            last_tail: row.value(3)?,
            last_time: row.value(4)?,
            ended_jobs: row.value(5)?,
            jobs: HashMap::new(),
        })
    }

    /// Reads those of these jobs that are stored and not known yet.
    pub(super) async fn find(
        &mut self,
        link: &mut Link,
        jobs: impl IntoIterator<Item = JobId>,
    ) -> Result<(), StoreError> {
        let unknown: HashSet<_> =
            jobs.into_iter().filter(|id| !self.jobs.contains_key(id)).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let ids = Param::byte_strings(unknown.into_iter().map(Id::bytes));
        for row in link.query(JOBS, vec![ids]).await? {
            let job = KnownJob {
                number: row.value(1)?,
                namespace: row.value::<String>(2)?.into(),
                live: row.value(3)?,
                named: row.value(4)?,
            };
            self.jobs.insert(Id::get(&row, 0)?, job);
        }
        Ok(())
    }

    pub(super) fn note(&mut self, id: JobId, job: KnownJob) {
        self.jobs.insert(id, job);
    }

    pub(super) fn get(&self, id: JobId) -> Option<&KnownJob> {
        self.jobs.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: JobId) -> Option<&mut KnownJob> {
        self.jobs.get_mut(&id)
    }

    pub(super) fn number(&self, id: JobId) -> Result<i64, StoreError> {
        let job = self.jobs.get(&id);
        job.map(|job| job.number)
            .ok_or_else(|| bad_record(format!("a change of {id}, which is not stored")))
    }

    /// The next commit does not need them.
    pub(super) fn shrink(&mut self) {
        if self.jobs.len() > MOST_JOBS {
            self.jobs.clear();
        }
    }

    /// Those that are gone.
    pub(super) fn forget_jobs(&mut self) {
        self.jobs.clear();
    }
}
